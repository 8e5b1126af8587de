"""One store directory is served by our broker and by Apache's in turn, under load."""

import asyncio
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.faults.stage import ONLY_PLAIN, SYNC, stage
from tests.faults.traffic import BROKER_SETTINGS
from tests.support.apache import ApacheBroker
from tests.support.jars import ApacheVersion


def change_hands(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_change_hands(directory, seed, count))


async def _change_hands(directory: Path, seed: int, count: int) -> Findings:
    chance = Random(seed)
    kills = 0
    async with stage(directory, seed, mix=ONLY_PLAIN) as on:
        ours = on.broker
        apaches = ApacheBroker(
            ApacheVersion.V4_9_7,
            directory / "apache",
            on.names.address,
            broker_name=ours.broker_name,
            configuration={**BROKER_SETTINGS, **SYNC},
        )
        # It takes the place of ours in every respect.
        apaches.address = ours.address
        apaches.port = int(ours.address.rpartition(":")[2])
        apaches.store_directory = ours.store_directory
        for number in range(count):
            await on.traffic.until_more(100)
            is_killed = chance.random() < 0.5
            kills += is_killed
            before, after = (ours, apaches) if number % 2 == 0 else (apaches, ours)
            await asyncio.to_thread(before.kill if is_killed else before.stop)
            await asyncio.to_thread(after.start)
        await on.traffic.until_more(100)
        findings = await on.finished()
        apaches.kill()
    findings.counts["changes of hands"] = count
    findings.counts["of them after a kill"] = kills
    return findings


CHANGING_HANDS: Final = Rig(
    "changing-hands",
    "a store goes to Apache 4.9.7 and back, stopped or killed, under load",
    change_hands,
    few=2,
    many=40,
    needs_java=True,
)

"""Members come and go, servers are stopped and started in turn: no order is broken by it."""

import asyncio
from pathlib import Path
from random import Random
from typing import Final

from roquet import AsyncPushConsumer
from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.faults.stage import stage
from tests.faults.traffic import ORDERED, SPREAD

_BROKER_COUNT: Final = 3
_MEMBERS_MAX: Final = 3
_PAUSE_S: Final = 0.3


def storm(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_storm(directory, seed, count))


async def _storm(directory: Path, seed: int, count: int) -> Findings:
    chance = Random(seed)
    async with stage(directory, seed) as on:
        guests: list[AsyncPushConsumer] = []
        for _ in range(count):
            if guests and (len(guests) == 2 * _MEMBERS_MAX or chance.random() < 0.5):
                guest = guests.pop(chance.randrange(len(guests)))
                await on.traffic.leave(guest)
            else:
                guests.append(await on.traffic.join(chance.choice((SPREAD, ORDERED))))
            await asyncio.sleep(chance.uniform(0, _PAUSE_S))
        findings = await on.finished()
    findings.counts["members that came or went"] = count
    return findings


def restart_in_turn(directory: Path, seed: int, count: int) -> Findings:
    return asyncio.run(_restart_in_turn(directory, seed, count))


async def _restart_in_turn(directory: Path, seed: int, count: int) -> Findings:
    async with stage(directory, seed, broker_count=_BROKER_COUNT) as on:
        for number in range(count):
            broker = on.brokers[number % _BROKER_COUNT]
            await on.traffic.until_more()
            await asyncio.to_thread(broker.stop)
            await on.traffic.until_more()  # The others go on.
            await asyncio.to_thread(broker.start)
        findings = await on.finished()
    findings.counts["restarts"] = count
    return findings


REBALANCE_STORM: Final = Rig(
    "rebalance-storm", "members of two groups come and go under load", storm, few=8, many=1000
)
ROLLING_RESTART: Final = Rig(
    "rolling-restart",
    "three brokers are restarted in turn under load",
    restart_in_turn,
    few=3,
    many=300,
)

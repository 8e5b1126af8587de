"""kill -9 in the middle of everything, and a start on the same directory.

The page cache survives a kill, so this is no test of disks; it shows that a broker that is torn
away at any point, also while it starts, comes back with all that it has acknowledged.
"""

import asyncio
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.findings import Findings, percentile
from tests.faults.rig import Rig
from tests.faults.stage import stage
from tests.support.process_time import work_s

# A broker serves after 0.3 s.
_STARTING_S: Final = 0.35
_KILLED_AGAIN: Final = 0.3


def kill(directory: Path, seed: int, count: int) -> Findings:
    """Half of the kills with each way of flushing."""
    findings = Findings()
    for mode, share in (("SYNC_FLUSH", count - count // 2), ("ASYNC_FLUSH", count // 2)):
        findings.add(asyncio.run(_kill(directory / mode, mode, seed, share)))
    return findings


async def _kill(directory: Path, mode: str, seed: int, count: int) -> Findings:
    chance = Random(seed)
    restarts_s: list[float] = []
    kills = starting = 0
    async with stage(directory, seed, configuration={"flushDiskType": mode}) as on:
        while kills < count:
            await on.traffic.until_more()
            await asyncio.sleep(chance.uniform(0, 0.2))
            on.broker.kill()
            kills += 1
            while chance.random() < _KILLED_AGAIN and kills < count:
                on.broker.begin()
                await asyncio.sleep(chance.uniform(0, _STARTING_S))
                on.broker.kill()
                kills += 1
                starting += 1
            await asyncio.to_thread(on.broker.start)
            # Not by a clock: everybody else is at work, too.
            restarts_s.append(work_s(on.broker.process_id))
        findings = Findings()
        findings.counts.update({"kills": kills, "of them while starting": starting})
        findings.add(await on.finished())
    findings.figures["restart p99 CPU s"] = percentile(restarts_s, 99)
    return findings


KILL: Final = Rig("kill", "kill -9 under load, also while starting", kill, few=6, many=1000)

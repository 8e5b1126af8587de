"""Disks that fail a sync, and disks that run full, under a broker in a process."""

import asyncio
import os
import re
import shutil
import time
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.findings import Findings
from tests.faults.rig import Rig
from tests.faults.stage import ONLY_PLAIN, QUEUE_COUNT, Stage, seen_by, stage
from tests.faults.traffic import TOPIC
from tests.faults.whole_queues import whole_queues
from tests.support.eventually import eventually
from tests.support.our_cluster import OurServerFailed
from tests.support.small_disk import small_disk, why_no_small_disk

# Syncs of the log that are done before one fails.
_SYNCS_MAX: Final = 60
_PATIENCE_S: Final = 20.0
_DISK_SIZE: Final = 64 << 20
_FAILED: Final = re.compile(r"^(\S+) fdatasync\(\d+<(.*)>\) += -1 EIO .*INJECTED", re.MULTILINE)


def fail_syncs(directory: Path, seed: int, count: int) -> Findings:
    chance = Random(seed)
    findings = Findings()
    for number in range(count):
        place = directory / str(number)
        findings.add(asyncio.run(_fail_sync(place, seed + number, chance.randint(1, _SYNCS_MAX))))
        shutil.rmtree(place)
    return findings


async def _fail_sync(directory: Path, seed: int, sync_number: int) -> Findings:
    """The kernel returns EIO once; from then on nothing is acknowledged, and the broker ends."""
    trace = directory / "trace"
    async with stage(directory, seed, mix=ONLY_PLAIN) as on:
        await on.traffic.until_more()
        await asyncio.to_thread(on.broker.stop)
        on.broker.under = (
            *("strace", "-D", "-ff", "--seccomp-bpf", "-y", "-ttt", "-o", str(trace)),
            *("-e", "trace=fdatasync", "-e", f"inject=fdatasync:error=EIO:when={sync_number}"),
        )
        on.broker.begin()
        # A sync that failed may have been one of a table, which is tried again.
        await eventually(lambda: _failure(trace) is not None, _PATIENCE_S)
        failed_s, path = _failure(trace) or (0.0, "")
        findings = Findings()
        findings.counts["failed syncs"] = 1
        if "/commitlog/" in path:
            findings.counts["of them of the log"] = 1
            findings.violations += await _after_failure(on, failed_s)
        else:
            on.broker.kill()
        on.broker.under = ()
        await asyncio.to_thread(on.broker.start)
        findings.add(await on.finished())
        on.broker.kill()  # Its log has the failure in it, and so no good end.
    return findings


async def _after_failure(on: Stage, failed_s: float) -> list[str]:
    try:
        code = await asyncio.to_thread(on.broker.until_ended, _PATIENCE_S)
    except OurServerFailed as error:
        on.broker.kill()
        return [str(error)]
    wall_s = time.time() - asyncio.get_running_loop().time()
    late = [each for each in on.traffic.history.acknowledged if each.begun_s + wall_s > failed_s]
    violations = [f"{each.body!r} was acknowledged after the failure" for each in late]
    return violations if code else [*violations, "it ended as if all were well"]


def _failure(trace: Path) -> tuple[float, str] | None:
    """When the sync failed, and of which file."""
    for path in trace.parent.glob(f"{trace.name}.*"):  # One for each thread.
        found = _FAILED.search(path.read_text())
        if found is not None:
            return float(found[1]), found[2]
    return None


def _no_strace() -> str | None:
    return None if shutil.which("strace") else "there is no strace to fail a sync with"


def fill_disk(directory: Path, seed: int, count: int) -> Findings:
    with small_disk(directory / "disk", _DISK_SIZE) as disk:
        return asyncio.run(_fill(directory, disk, seed, count))


async def _fill(directory: Path, disk: Path, seed: int, count: int) -> Findings:
    ballast = disk / "ballast"
    fills = 0
    # Files of the log are full in no time.
    settings = {"mappedFileSizeCommitLog": str(5 << 20), "maxMessageSize": str(1 << 20)}
    async with stage(
        directory, seed, configuration=settings, mix=ONLY_PLAIN, broker_directory=disk / "broker"
    ) as on:
        violations: list[str] = []
        for _ in range(count):
            await on.traffic.until_more()
            _fill_up(ballast)
            await on.traffic.until_refused()
            readable = await asyncio.to_thread(whole_queues, on.broker, TOPIC, QUEUE_COUNT)
            if not all(readable.values()):
                violations.append("nothing can be read while the disk is full")
            ballast.unlink()
            await on.traffic.until_more()
            fills += 1
        findings = seen_by(on.traffic, violations + await on.traffic.finish())
        on.broker.kill()  # Its log has words about the full disk in it, and so no good end.
    findings.counts["full disks"] = fills
    return findings


def _fill_up(ballast: Path) -> None:
    free = os.statvfs(ballast.parent)
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize)


FAILED_SYNC: Final = Rig(
    "failed-sync",
    "one fdatasync of a broker fails with EIO (strace)",
    fail_syncs,
    few=2,
    many=200,
    missing=_no_strace,
)
FULL_DISK: Final = Rig(
    "full-disk",
    "the disk runs full under load and is given space again",
    fill_disk,
    few=1,
    many=50,
    missing=why_no_small_disk,
)

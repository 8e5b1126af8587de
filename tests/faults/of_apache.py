"""The same faults, done to Apache 4.9.7: what its users live with, for comparison.

Nothing is expected of these. They have no share in `make test` but that they run.
"""

import asyncio
import time
from pathlib import Path
from random import Random
from typing import Final

from tests.faults.findings import Findings, percentile
from tests.faults.long_logs import LOG_FILE_SIZE, fill
from tests.faults.rig import Rig
from tests.faults.stage import QUEUE_COUNT, queues_of, seen_by
from tests.faults.traffic import BROKER_SETTINGS, TOPIC, Traffic
from tests.support.apache import ApacheBroker
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurNameServer
from tests.support.topics import create_topic

_RESTARTS: Final = 10
# As `fill` leaves them, and as Apache has them by itself.
_LARGE_FILES: Final = {
    "mappedFileSizeCommitLog": str(LOG_FILE_SIZE),
    "mappedFileSizeConsumeQueue": "6000000",
    "maxHashSlotNum": "5000000",
    "maxIndexNum": "20000000",
}


def kill(directory: Path, seed: int, count: int) -> Findings:
    """Half of the kills with each way of flushing."""
    findings = Findings()
    for mode, share in (("SYNC_FLUSH", count - count // 2), ("ASYNC_FLUSH", count // 2)):
        if share:
            findings.add(asyncio.run(_kill(directory / mode, mode, seed, share)))
    return findings


async def _kill(directory: Path, mode: str, seed: int, count: int) -> Findings:
    chance = Random(seed)
    with OurNameServer(directory / "names") as names:
        broker = _apache(directory, names.address, {**BROKER_SETTINGS, "flushDiskType": mode})
        with broker:
            create_topic(broker.address, TOPIC, QUEUE_COUNT)
            async with Traffic(names.address, queues_of([broker]), seed) as traffic:
                for _ in range(count):
                    await traffic.until_more()
                    await asyncio.sleep(chance.uniform(0, 0.2))
                    broker.kill()
                    await asyncio.to_thread(broker.start)
                findings = seen_by(traffic, await traffic.finish())
    findings.counts["kills"] = count
    return findings


def restart(directory: Path, seed: int, count: int) -> Findings:
    """`count` is the size of the log in MiB."""
    findings = Findings()
    times_s = []
    with OurNameServer(directory / "names") as names:
        broker = _apache(directory, names.address, _LARGE_FILES)
        findings.counts["MiB of log"] = count
        findings.counts["messages"] = fill(broker.store_directory, Random(seed), count << 20)
        for _ in range(_RESTARTS):
            begun_s = time.monotonic()
            broker.start()
            times_s.append(time.monotonic() - begun_s)
            broker.kill()
            findings.counts["restarts"] += 1
    findings.figures["restart p99 s"] = percentile(times_s, 99)
    return findings


def _apache(directory: Path, name_server: str, configuration: dict[str, str]) -> ApacheBroker:
    return ApacheBroker(
        ApacheVersion.V4_9_7,
        directory / "broker",
        name_server,
        broker_name="broker-0",
        configuration=configuration,
    )


KILL_OF_APACHE: Final = Rig(
    "kill-of-apache",
    "kill -9 of Apache 4.9.7 under the same load",
    kill,
    few=1,
    many=200,
    needs_java=True,
)
LONG_LOG_OF_APACHE: Final = Rig(
    "long-log-of-apache",
    "Apache 4.9.7 with the same long log is killed again and again, and has to serve",
    restart,
    few=1,
    many=1024,
    needs_java=True,
)

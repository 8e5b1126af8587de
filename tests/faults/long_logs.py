"""A broker with a long log is killed, and how long it takes until the next one serves.

It died before its first checkpoint, and as much as there is has to be looked at again. Its files
have the usual sizes, and it synced its log as often as any broker does.
"""

import time
from pathlib import Path
from random import Random
from typing import Final

from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.store.config import StoreConfig
from roquet.store.message_store import MessageStore
from tests.faults.findings import Findings, percentile
from tests.faults.rig import Rig
from tests.support.drafts import draft
from tests.support.our_cluster import OurBroker
from tests.support.process_time import work_s
from tests.support.stores import crash

_MEBIBYTE: Final = 1 << 20
_BODY_SIZE: Final = 900
_BATCH_COUNT: Final = 500
_QUEUE_COUNT: Final = 8
_RESTARTS: Final = 10
LOG_FILE_SIZE: Final = 1 << 30
# Longer than any of this takes.
_NO_CHECKPOINT_MS: Final = 3_600_000


def restart(directory: Path, seed: int, count: int) -> Findings:
    """`count` is the size of the log in MiB."""
    findings = Findings()
    broker = OurBroker(directory / "broker", configuration=_usual_sizes(directory))
    findings.counts["MiB of log"] = count
    findings.counts["messages"] = fill(broker.store_directory, Random(seed), count * _MEBIBYTE)
    times_s, works_s = [], []
    for _ in range(_RESTARTS):
        begun_s = time.monotonic()
        broker.start()
        times_s.append(time.monotonic() - begun_s)
        works_s.append(work_s(broker.process_id))
        broker.kill()
        findings.counts["restarts"] += 1
    findings.figures["restart p99 s"] = percentile(times_s, 99)
    findings.figures["restart p99 CPU s"] = percentile(works_s, 99)
    return findings


def fill(root: Path, chance: Random, size: int) -> int:
    """How many messages make a log of this size, whose owner died."""
    config = StoreConfig(
        root=root,
        commit_log_file_size=LOG_FILE_SIZE,
        queue_flush_interval_ms=_NO_CHECKPOINT_MS,
    )
    store = MessageStore.open(config, SystemClock(), SystemDisk())
    store.start()
    number = 0
    while store.log_end < size:
        queue_id = chance.randrange(_QUEUE_COUNT)
        drafts = [
            draft(
                chance.randbytes(_BODY_SIZE),
                topic="long",
                queue_id=queue_id,
                properties={"KEYS": str(number + each)},
            )
            for each in range(_BATCH_COUNT)
        ]
        store.append_batch(DraftBatch(drafts))
        number += _BATCH_COUNT
    crash(store)
    return number


def _usual_sizes(directory: Path) -> dict[str, str]:
    """What `OurBroker` sets smaller than it is by default, and files are filled with."""
    usual = StoreConfig(root=directory)
    return {
        "mappedFileSizeCommitLog": str(LOG_FILE_SIZE),
        "mappedFileSizeConsumeQueue": str(usual.queue_file_size),
        "maxHashSlotNum": str(usual.index_slot_count),
        "maxIndexNum": str(usual.index_entry_count),
    }


LONG_LOG: Final = Rig(
    "long-log", "a broker with a long log is killed; the count is MiB", restart, few=16, many=1000
)

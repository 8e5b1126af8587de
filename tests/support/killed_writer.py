"""A process that writes to a store until it is killed, and prints what the store acknowledged.

Both sides draw the same messages from the same seed, so reports are small enough for one write
to a pipe: they arrive whole or not at all, whatever kills the process and whenever.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from struct import Struct
from typing import Final

from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.store.appends import AppendedBatch
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.errors import Damage, SyncFailed
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.store_ledger import Ledger
from tests.support.stores import small_config

_FLUSHED: Final = b"f"
_TOOK: Final = b"t"
# Of what was flushed only the end is known; of messages, where the first one is and since when.
_REPORT: Final = Struct(">cqqq")
_JOIN_TIMEOUT_S: Final = 30.0

# Processes are forked from one that has imported everything; it knows no threads.
_processes = get_context("forkserver")
_processes.set_forkserver_preload([__name__])


def writer_config(root: Path) -> StoreConfig:
    """Everything happens often: files are small, and so are the intervals."""
    return small_config(
        root,
        commit_log_file_size=4 * 4096,
        queue_file_size=600,
        flush_mode=FlushMode.SYNC,
        flush_interval_ms=5,
        queue_flush_interval_ms=20,
    )


def drafts_of(seed: int) -> Iterator[list[RecordDraft]]:
    """Messages and batches of messages, without end."""
    chance = Random(seed)
    while True:
        topic, queue_id = chance.choice(("TopicA", "TopicB")), chance.randrange(2)
        yield [
            draft(
                chance.randbytes(chance.choice((0, 10, 100, 1000))),
                topic=topic,
                queue_id=queue_id,
                properties={"KEYS": str(chance.randrange(1000))},
            )
            for _ in range(chance.choice((1, 1, 1, 4)))
        ]


class Writer:
    """One life of the process, seen from outside.

    It kills itself at the call number `dies_at` to its disk, or is killed after `kill_after`
    reports. What it did is added to `ledger`; `in_flight` is what it was doing when it died.
    """

    def __init__(self, root: Path, seed: int, ledger: Ledger) -> None:
        self.ledger = ledger
        self.in_flight: list[RecordDraft] = []
        self._root = root
        self._seed = seed

    def run(self, *, kill_after: int | None = None, dies_at: int | None = None) -> None:
        receiver, sender = _processes.Pipe(duplex=False)
        process = _processes.Process(
            target=_write, args=(self._root, self._seed, sender, dies_at), daemon=True
        )
        process.start()
        sender.close()
        drafts = drafts_of(self._seed)
        self.in_flight = next(drafts)
        count = 0
        while (report := _received(receiver)) is not None:
            if self._note(*_REPORT.unpack(report)):
                self.in_flight = next(drafts)
            count += 1
            if count == kill_after:
                process.kill()
        process.join(_JOIN_TIMEOUT_S)
        receiver.close()
        assert process.exitcode == -signal.SIGKILL, f"the writer ended with {process.exitcode}"

    def _note(self, kind: bytes, first: int, second: int, timestamp: int) -> bool:
        """Whether the messages in flight have arrived."""
        if kind == _FLUSHED:
            self.ledger.flushed(first)
            return False
        physical_offsets = []
        for each in self.in_flight:
            physical_offsets.append(second)
            second += each.size
        size = second - physical_offsets[0]
        self.ledger.took_batch(
            self.in_flight, AppendedBatch(first, physical_offsets, size, timestamp)
        )
        return True


def _received(receiver: Connection) -> bytes | None:
    try:
        return receiver.recv_bytes()
    except EOFError:
        return None


# What happens in the other process.


class _Reporter:
    def __init__(self, sender: Connection) -> None:
        self._sender = sender

    def flushed(self, end: int) -> None:
        self._sender.send_bytes(_REPORT.pack(_FLUSHED, end, 0, 0))

    def took(self, queue_offset: int, physical_offset: int, store_timestamp: int) -> None:
        self._sender.send_bytes(_REPORT.pack(_TOOK, queue_offset, physical_offset, store_timestamp))

    def flush_postponed(self, reason: str) -> None:
        pass

    def flush_failed(self, error: SyncFailed) -> None:
        raise error

    def damaged(self, damage: Damage) -> None:
        raise AssertionError(damage)


class _DyingDisk(SystemDisk):
    """Kills its process at a chosen call that changes something."""

    def __init__(self, dies_at: int) -> None:
        self._calls_left = dies_at

    def create(self, path: Path, size: int) -> int:
        self._step()
        return super().create(path, size)

    def allocate(self, descriptor: int, position: int, size: int) -> None:
        self._step()
        super().allocate(descriptor, position, size)

    def write(self, descriptor: int, position: int, data: bytes) -> None:
        self._step()
        super().write(descriptor, position, data)

    def write_parts(self, descriptor: int, position: int, parts: Sequence[memoryview]) -> None:
        self._step()
        super().write_parts(descriptor, position, parts)

    def sync(self, descriptor: int) -> None:
        self._step()
        super().sync(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

    def make_directory(self, path: Path) -> None:
        self._step()
        super().make_directory(path)

    def sync_directory(self, path: Path) -> None:
        self._step()
        super().sync_directory(path)

    def _step(self) -> None:
        self._calls_left -= 1
        if self._calls_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _write(root: Path, seed: int, sender: Connection, dies_at: int | None) -> None:
    reporter = _Reporter(sender)
    disk = SystemDisk() if dies_at is None else _DyingDisk(dies_at)
    store = MessageStore.open(writer_config(root), SystemClock(), disk, reporter)
    store.start()
    for drafts in drafts_of(seed):
        if len(drafts) == 1:
            one = store.append(drafts[0])
            reporter.took(one.queue_offset, one.physical_offset, one.store_timestamp)
        else:
            many = store.append_batch(DraftBatch(drafts))
            reporter.took(many.queue_offset, many.physical_offsets[0], many.store_timestamp)
        store.file_keys()

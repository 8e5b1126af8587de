"""Small stores: files of a few records, so that everything that happens at their borders does."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from roquet.clock import Clock
from roquet.disk import Disk
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import read_record
from roquet.store.config import StoreConfig
from roquet.store.flushing import StoreListener
from roquet.store.log_scan import NO_END
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits
from tests.support.fake_clock import FakeClock
from tests.support.inner_parts import flusher_of, log_of
from tests.support.quick_disk import QuickDisk

EVERYTHING = QueueReadLimits(1_000_000, 1 << 30)


def small_config(root: Path, **changes: Any) -> StoreConfig:
    config = StoreConfig(
        root=root,
        commit_log_file_size=4096,
        queue_file_size=200,
        index_slot_count=50,
        index_entry_count=120,
        memory_size=1 << 30,
        read_count_max_in_memory=1_000_000,
        read_size_max_in_memory=1 << 30,
    )
    return replace(config, **changes)


def open_store(
    root: Path,
    *,
    clock: Clock | None = None,
    disk: Disk | None = None,
    listener: StoreListener | None = None,
    cut_end: int = NO_END,
    **changes: Any,
) -> MessageStore:
    return MessageStore.open(
        small_config(root, **changes),
        clock or FakeClock(),
        disk or QuickDisk(),
        listener,
        cut_end=cut_end,
    )


@contextmanager
def opened(root: Path, **options: Any) -> Iterator[MessageStore]:
    store = open_store(root, **options)
    try:
        yield store
    finally:
        store.close()


def crash(store: MessageStore) -> None:
    """End as a killed process does: what is written is there, nothing is put in order."""
    flusher_of(store).stop()
    log = log_of(store)
    if log._next_file is not None:
        # It stays behind, all zero.
        log._next_file.close()
        log._next_file = None
    store._release()


def messages(store: MessageStore, topic: str = "TopicA", queue_id: int = 0) -> list[StoredMessage]:
    """All messages of a queue, from the first to the last."""
    found: list[StoredMessage] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        result = store.read(topic, queue_id, offset, EVERYTHING)
        found += map(read_record, result.records)
        assert result.next_offset > offset
        offset = result.next_offset
    return found


def bodies(store: MessageStore, topic: str = "TopicA", queue_id: int = 0) -> list[bytes]:
    return [message.body for message in messages(store, topic, queue_id)]

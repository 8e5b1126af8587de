"""Taking a snapshot: where records begin, what each queue holds, and what cannot be read.

Nothing of this takes longer for a larger log. A few thousand places of it are looked at, and
the first and the last entry of each queue.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from roquet.disk import Disk
from roquet.store.commit_log import CommitLog
from roquet.store.consume_queue import ConsumeQueue
from roquet.store.errors import BadRecord, BadStoreDirectory, UnreadableTopic
from roquet.store.files.layout import StoreLayout
from roquet.store.files.mapped_file import MappedFile
from roquet.store.log_scan import LogRecord, find_record
from roquet.store.offline.log_range import LogFile, Segment
from roquet.store.offline.snapshot import QueueBounds
from roquet.store.reading.entry_repair import find_by_neighbours, is_message
from roquet.store.recovery.deletions import Deletions

# How long segments are; longer ones are made where there would be more than the limit below.
SEGMENT_SIZE_MIN: Final = 1 << 16
SEGMENT_COUNT_MAX: Final = 2048
# At most this many records are tried for one that its queue knows, and this many entries for the
# first one whose message can be found.
_TRIES: Final = 16
# More than any queue has messages.
OFFSET_MAX: Final = 2**63 - 1
_LIGHT_QUEUE_PREFIX: Final = "%LMQ%"

Queues = Mapping[tuple[bytes, int], ConsumeQueue]


# Segments


def segments_of(log: CommitLog, queues: Queues) -> Iterator[Segment]:
    """The whole log, in the order of its offsets. Raises OSError."""
    step = max(SEGMENT_SIZE_MIN, -(-(log.end - log.start) // SEGMENT_COUNT_MAX))
    before: MappedFile | None = None
    for file in log.files:
        if file.start >= log.end:
            return
        if before is not None and before.end != file.start:
            yield Segment(before.end, file.start, None, None)
        before = file
        named = LogFile(file.path, file.start, file.end)
        start, store_time = file.start, _first_store_time(log, file)
        for record in _known_records(log, queues, file, step):
            yield Segment(start, record.physical_offset, store_time, named)
            start, store_time = record.physical_offset, record.store_timestamp
        yield Segment(start, min(file.end, log.end), store_time, named)


def _first_store_time(log: CommitLog, file: MappedFile) -> int | None:
    try:
        return log.record_at(file.start).store_timestamp
    except BadRecord:
        return None


def _known_records(
    log: CommitLog, queues: Queues, file: MappedFile, step: int
) -> Iterator[LogRecord]:
    """The first record of each step through a file, past its start, that is surely one."""
    end = min(file.end, log.end)
    for wanted in range(file.start + step, end, step):
        record = _known_record(log, queues, file, wanted, min(wanted + step, end))
        if record is not None:
            yield record


def _known_record(
    log: CommitLog, queues: Queues, file: MappedFile, start: int, end: int
) -> LogRecord | None:
    """A record that its queue leads to: the queue does not know what somebody put into a body."""
    for _ in range(_TRIES):
        record = find_record(file, start - file.start, log.checksummed)
        if record is None or record.physical_offset >= end:
            return None
        queue = queues.get((record.topic, record.queue_id))
        entry = None if queue is None else queue.entry(record.queue_offset)
        if entry is not None and entry[:2] == (record.physical_offset, record.size):
            return record
        start = record.physical_offset + record.size
    return None


# Queues


class QueueExtent(NamedTuple):
    """The bounds of a queue, and the physical offset past which it has no messages."""

    bounds: QueueBounds
    end: int


def extent_of(
    log: CommitLog, queue: ConsumeQueue, deletions: Deletions, late_end: int, *, is_broken: bool
) -> QueueExtent | None:
    """None for a queue that was deleted.

    `late_end` is just past the last offset that records without an entry have, at the end of the
    log. A broken queue ends too early, and nobody knows how much.
    """
    deleted_end = deletions.end_of(queue.topic, queue.queue_id)
    last_end = queue.last_physical_end()
    if last_end <= deleted_end:
        return None
    max_offset, end = queue.max_offset, last_end
    if is_broken:
        max_offset, end = OFFSET_MAX, log.end
    elif late_end > max_offset:
        max_offset, end = late_end, log.end
    first = max(_first_physical_offset(log, queue, last_end), deleted_end, log.start)
    return QueueExtent(QueueBounds(queue.min_offset, max_offset, first), end)


def _first_physical_offset(log: CommitLog, queue: ConsumeQueue, last_end: int) -> int:
    """Where the first message of a queue lies; past its last one if all have expired."""
    claimed = []
    for offset in range(queue.min_offset, queue.max_offset):
        entry = queue.entry(offset)
        if entry is None or entry.is_blank:
            continue
        try:
            record: LogRecord | None = log.record_at(entry.physical_offset)
        except BadRecord:
            record = None
        if record is None or not is_message(record, queue, offset):
            record = find_by_neighbours(log, queue, offset)
        if record is not None:
            return record.physical_offset
        # The message is lost; its entry may be right.
        claimed.append(entry.physical_offset)
        if len(claimed) == _TRIES:
            return min(claimed)
    return last_end


def needed(segments: Sequence[Segment], extents: Collection[QueueExtent]) -> list[Segment]:
    """Those that can hold messages of some queues."""
    if not extents:
        return []
    start = min(each.bounds.first_physical_offset for each in extents)
    end = max(each.end for each in extents)
    return [each for each in segments if each.end > start and each.start < end]


def is_light(topic: str) -> bool:
    """Whether its queue only leads to messages of other topics."""
    return topic.startswith(_LIGHT_QUEUE_PREFIX)


def catch_up(log: CommitLog, queue: ConsumeQueue) -> None:
    """Let a queue have the entries that were written since it was loaded, up to the log's end.

    Queues are loaded one after the other, and a broker does not wait meanwhile. Without this a
    later message of one queue would be there, and an earlier one of another would not.
    """
    while (entry := queue.dropped_entry()) is not None and 0 < entry.physical_end <= log.end:
        try:
            record = log.record_at(entry.physical_offset)
        except BadRecord:
            return
        if record.size != entry.size or not is_message(record, queue, queue.max_offset):
            return
        queue.max_offset += 1


# What cannot be read


def refuse_unreadable(disk: Disk, layout: StoreLayout, topics: Collection[str] | None) -> None:
    """Kinds of queues that Apache 5 has besides the usual one, and that are not read here.

    Raises BadStoreDirectory or UnreadableTopic.
    """
    rocks_db = _rocks_db(disk, layout)
    if rocks_db is not None:
        raise BadStoreDirectory(
            layout.root,
            f"its queues are kept in RocksDB ({rocks_db.name}), which is not read from files: "
            "read it through its broker",
        )
    batch_queues = {
        each.name for each in disk.entries(layout.root / "batchconsumequeue") if each.is_directory
    }
    for topic in sorted(batch_queues if topics is None else topics):
        if topic in batch_queues:
            raise UnreadableTopic(
                topic, "its queues are of the kind BatchCQ; read it through its broker"
            )
        if is_light(topic):
            raise UnreadableTopic(
                topic, "it is a light queue: its messages are stored under other topics; read those"
            )


def _rocks_db(disk: Disk, layout: StoreLayout) -> Path | None:
    """Where the queues are, if they are only in a database."""
    entries = disk.entries(layout.queues)
    if any(each.name == "CURRENT" and not each.is_directory for each in entries):
        return layout.queues
    # Some brokers write both kinds.
    database = layout.root / "consumequeue_rocksdb"
    return database if disk.exists(database) and not entries else None

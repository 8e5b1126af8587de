"""What a store contained at one moment: a picklable value.

`StoreReader.snapshot` takes one. Readers of it get the same messages, however often and in however
many parts, while the broker continues to write: no queue is opened again, and nothing past
`log_end` is read. Taking one does not take longer for a larger log: a few thousand places of it are
read, and the first and the last entry of each queue.

The log is divided into segments. Each starts where a record is known to start: at the start of a
file, or where an entry of a queue points to. The content of a segment is found by walking it from
there, so that no two readers can see it differently, wherever they start and end, and bytes inside
a body that look like a record are never taken for one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from roquet.disk import Disk
from roquet.store.commit_log import CommitLog
from roquet.store.consume_queue import ConsumeQueue
from roquet.store.errors import BadRecord, BadStoreDirectory, UnreadableTopic
from roquet.store.files.layout import StoreLayout
from roquet.store.files.mapped_file import MappedFile
from roquet.store.log_scan import NOTHING_KNOWN, ChecksummedRanges, LogRecord, find_record
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.offline.log_range import LogFile, Segment, StoreRange
from roquet.store.reading.queue_reading import find_by_neighbours, is_message

# A record with this bit in its system flag was prepared or rolled back, and is in no queue.
IN_NO_QUEUE: Final = 0x4
# Clocks are set back and messages overtake each other, but hardly by more than this.
CLOCK_SLACK_MS: Final = 60_000

_start_of_segment = attrgetter("start")
_end_of_segment = attrgetter("end")

# How long segments are; longer ones are made where there would be more than the limit below.
SEGMENT_SIZE_MIN: Final = 1 << 16
SEGMENT_COUNT_MAX: Final = 2048
# At most this many records are tried for one that its queue knows, and this many entries for the
# first one whose message can be found.
_TRIES: Final = 16
# More than any queue has.
OFFSET_MAX: Final = 2**63 - 1
_LIGHT_QUEUE_PREFIX: Final = "%LMQ%"

Queues = Mapping[tuple[bytes, int], ConsumeQueue]


# Segments


class QueueBounds(NamedTuple):
    """Which records are messages of a queue, besides topic and queue id."""

    # The offsets that the queue has.
    min_offset: int
    max_offset: int
    # Records before it belong to an earlier topic of the same name.
    first_physical_offset: int

    def holds(self, queue_offset: int, physical_offset: int, sys_flag: int) -> bool:
        return (
            self.min_offset <= queue_offset < self.max_offset
            and physical_offset >= self.first_physical_offset
            and not sys_flag & IN_NO_QUEUE
        )


class StoreSnapshot(msgspec.Struct, frozen=True):
    """Picklable, like everything it returns."""

    root: Path
    # Of the whole log; the segments determine which of them are read.
    files: tuple[LogFile, ...]
    log_start: int
    log_end: int
    # Of the topics that were asked for, by topic and queue id.
    queues: dict[tuple[str, int], QueueBounds]
    # Damaged queues of these topics. One that is not in `queues` cannot be read at all, and its
    # messages are missing; `roquet store repair` rebuilds it.
    broken_queues: tuple[tuple[str, int], ...]
    # In the order of the log, without those that hold nothing of what was asked for.
    segments: tuple[Segment, ...]
    # Where a record without a checksum is damaged.
    checksummed: ChecksummedRanges = NOTHING_KNOWN

    @property
    def size(self) -> int:
        """How many bytes there are to be read."""
        return sum(each.size for each in self.segments)

    def bounds(self, topic: str, queue_id: int) -> QueueBounds | None:
        """None for a queue that does not exist, or was not asked for: it has no messages."""
        return self.queues.get((topic, queue_id))

    def range(self, begin: int, end: int) -> StoreRange:
        """The records that start between two physical offsets, which may be any.

        Adjacent ranges yield every record once. One that starts inside a segment reads the segment
        from its start, and skips what comes before.
        """
        first = bisect_right(self.segments, begin, key=_end_of_segment)
        last = bisect_left(self.segments, end, key=_start_of_segment) if begin < end else first
        return StoreRange(begin, end, self.segments[first:last], self.checksummed)

    def splits(self, split_size: int) -> list[tuple[int, int]]:
        """Ranges of about `split_size` bytes that together yield everything.

        They are cut where segments start, so nothing is read twice. Where no queue points into a
        long part of the log, a range may be larger.
        """
        groups: list[tuple[int, int]] = []
        size = 0
        for segment in self.segments:
            if groups and size + segment.size <= split_size:
                groups[-1] = (groups[-1][0], segment.end)
                size += segment.size
            else:
                groups.append((segment.start, segment.end))
                size = segment.size
        return groups

    def between(self, begin_ms: int, end_ms: int) -> "StoreSnapshot":
        """Without the segments in which nothing was stored from one time to before another.

        Others stay whole: records are to be compared with the times one by one. A clock that
        went wrong for less than a segment takes, by more than CLOCK_SLACK_MS, is not noticed.
        """
        earliest, latest = _times_of(self.segments)
        kept = tuple(
            segment
            for segment, low, high in zip(self.segments, earliest, latest, strict=True)
            if high + CLOCK_SLACK_MS >= begin_ms and low - CLOCK_SLACK_MS < end_ms
        )
        return msgspec.structs.replace(self, segments=kept)


def _times_of(segments: Sequence[Segment]) -> tuple[list[float], list[float]]:
    """The earliest and the latest time at which something of each segment can be stored.

    It lies between the times at which the segment and the next one start, unless a time after
    it is earlier, or one before it is later: then the clock was set, and both count.
    """
    times = [each.store_time for each in segments]
    begins = _filled(times, -inf)
    ends = [*_filled(times[::-1], inf)[::-1][1:], inf]
    earliest = list(accumulate(reversed(begins), min))[::-1]
    latest = list(map(max, accumulate(begins, max), ends))
    return earliest, latest


def _filled(times: Sequence[int | None], unknown: float) -> list[float]:
    """With the last known time in the place of those that are not known."""
    filled: list[float] = []
    for time in times:
        filled.append(time if time is not None else filled[-1] if filled else unknown)
    return filled


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
    """A record that its queue points to, so it is not part of the body of another."""
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
    log: CommitLog, queue: ConsumeQueue, deletions: DeletedQueues, late_end: int, *, is_broken: bool
) -> QueueExtent | None:
    """None for a queue that was deleted.

    `late_end` is just past the last offset that records without an entry have, at the end of the
    log. A broken queue ends too early, by an unknown number of messages.
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
    """Whether its queue only points to messages of other topics."""
    return topic.startswith(_LIGHT_QUEUE_PREFIX)


def catch_up(log: CommitLog, queue: ConsumeQueue) -> None:
    """Add the entries that were written since the queue was loaded, up to the end of the log.

    Queues are loaded one after the other, while a broker may be writing. Without this a later
    message of one queue would be included, and an earlier one of another would not.
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
    """Refuse the kinds of queues of Apache 5 that are not read here.

    Raises BadStoreDirectory or UnreadableTopic.
    """
    rocks_db = _rocks_db(disk, layout)
    if rocks_db is not None:
        raise BadStoreDirectory(
            layout.root,
            f"its queues are in RocksDB ({rocks_db.name}), which cannot be read offline: "
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

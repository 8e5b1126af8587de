"""Reading messages of one queue: entries, filters, limits, and a look at every record.

An entry points to a record. Before the record is returned, its own fields have to agree with the
entry: place, size, topic, queue and offset. So a damaged entry never leads to a wrong message; as a
rule it is repaired on the spot. Checksums are compared with every read, too, except for what this
process wrote moments ago: a disk may lose bytes that were good when the store was opened.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, final

import msgspec

from roquet.store.commit_log import KEPT_SIZE, CommitLog
from roquet.store.config import StoreConfig
from roquet.store.consume_queue import BLANK_SIZE, ConsumeQueue, QueueEntry
from roquet.store.dispatch import code_of
from roquet.store.errors import BadRecord, Damage
from roquet.store.files.mapped_file import MappedFile
from roquet.store.log_scan import LogRecord
from roquet.store.reading.gathering import Gathering

# At least this many entries are read at once when a filter may drop most of them.
SCAN_COUNT_MIN: Final = 800
# The end of the log, which most reads are for and our own memory holds: no disk could change it.
FRESH_SIZE: Final = KEPT_SIZE

# At most this much of the log is read to repair one entry, since a reader waits.
SEARCH_SIZE_MAX: Final = 4 << 20


class ReadStatus(Enum):
    """Apache's names: they travel as remarks of pull replies.

    Two of Apache's are missing: a queue can always be created, and a message that is being
    removed is below the smallest offset already.
    """

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


# Looking up a member of an enum takes as long as a call.
_FOUND: Final = ReadStatus.FOUND


@final
class ReadResult(msgspec.Struct, gc=False):
    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    # Records as stored, and how many: the body of a pull reply.
    count: int = 0
    body: bytes = b""

    @property
    def records(self) -> list[bytes]:
        """One by one."""
        return records_in(self.body)


def records_in(body: bytes) -> list[bytes]:
    """Of a result, one by one."""
    found: list[bytes] = []
    start = 0
    while start < len(body):
        # Each starts with its size, which was checked when it was read.
        end = start + int.from_bytes(body[start : start + 4])
        found.append(body[start:end])
        start = end
    return found


@final
class QueueReadLimits(msgspec.Struct, gc=False):
    """The limits and filters of one read. None passes everything."""

    count_max: int
    size_max: int
    matches_code: Callable[[int], bool] | None = None
    matches_record: Callable[[bytes], bool] | None = None
    # Apply only these limits, not those of the store for reads from memory and from disk.
    is_bulk: bool = False


@final
class MessageReader:
    """The slow path of reads. Repairs entries, if it may write."""

    def __init__(
        self,
        log: CommitLog,
        config: StoreConfig,
        on_damage: Callable[[Damage], None],
        *,
        is_writable: bool = True,
    ) -> None:
        self._is_writable = is_writable
        self._log = log
        self._on_damage = on_damage
        self.obey(config)

    def obey(self, config: StoreConfig) -> None:
        self._config = config
        self._in_memory_size = config.in_memory_size
        self._check_reads = config.check_reads
        # Count and size of reads from memory and, smaller, of reads from disk.
        self._bounds_in_memory = config.read_count_max_in_memory, config.read_size_max_in_memory
        self._bounds_on_disk = config.read_count_max_on_disk, config.read_size_max_on_disk

    def read(
        self, queue: ConsumeQueue, offset: int, max_offset: int, limits: QueueReadLimits
    ) -> ReadResult:
        """Messages from `offset` on, but before `max_offset`.

        If there is a message at all, at least one is returned, however large it is.
        """
        min_offset = queue.min_offset
        if max_offset == 0:
            return ReadResult(ReadStatus.NO_MESSAGE_IN_QUEUE, 0, min_offset, max_offset)
        if offset < min_offset:
            return ReadResult(ReadStatus.OFFSET_TOO_SMALL, min_offset, min_offset, max_offset)
        if offset == max_offset:
            return ReadResult(ReadStatus.OFFSET_OVERFLOW_ONE, offset, min_offset, max_offset)
        if offset > max_offset:
            return ReadResult(ReadStatus.OFFSET_OVERFLOW_BADLY, max_offset, min_offset, max_offset)
        entries = queue.entries(offset, min(_scan_count(limits), max_offset - offset))
        if not entries:
            next_offset = queue.next_file_offset(offset)
            return ReadResult(ReadStatus.OFFSET_FOUND_NULL, next_offset, min_offset, max_offset)
        result = ReadResult(_FOUND, offset, min_offset, max_offset)
        self._collect(queue, entries, limits, result)
        return result

    def _gathering(
        self, queue: ConsumeQueue, entries: bytes, offset: int, limits: QueueReadLimits
    ) -> Gathering:
        gathering = Gathering(limits, entries, offset, queue)
        if not limits.is_bulk:
            is_old = self._log.end - int.from_bytes(entries[:8]) > self._in_memory_size
            gathering.limit(*(self._bounds_on_disk if is_old else self._bounds_in_memory))
        return gathering

    @property
    def fresh_from(self) -> int:
        """Records from there on need no check: this process wrote them moments ago."""
        log = self._log
        return max(log.end - FRESH_SIZE, log.written_from)

    def _take_common(self, gathering: Gathering, file: MappedFile) -> bool:
        return gathering.take_common(
            file.mapping,
            file.start,
            self._log.end,
            file.is_verified,
            file.checksums_from,
            self.fresh_from if self._check_reads else 0,
        )

    def _collect(
        self, queue: ConsumeQueue, entries: bytes, limits: QueueReadLimits, result: ReadResult
    ) -> None:
        """Add the records of `entries` to the result."""
        log = self._log
        gathering = self._gathering(queue, entries, result.next_offset, limits)
        while (entry := gathering.next_entry()) is not None:
            physical_offset, size = entry
            file = log.file_at(physical_offset)
            if file is not None and self._take_common(gathering, file):
                continue
            gathering.take(self._look_closer(queue, gathering.offset, physical_offset, size))
        result.next_offset = gathering.offset
        result.count = gathering.count
        result.body = gathering.body()
        if not result.count:
            result.status = ReadStatus.NO_MATCHED_MESSAGE

    def _look_closer(
        self, queue: ConsumeQueue, offset: int, physical_offset: int, size: int
    ) -> bytes:
        """The record of an entry that is uncommon, unchecked or wrong; empty if there is none."""
        if size == BLANK_SIZE:
            return b""
        try:
            record = self._log.record_at(physical_offset)
            if record.size == size and is_message(record, queue, offset):
                return self._log.bytes_at(physical_offset, size) or b""
            reason = "is not the message that its queue entry names"
        except BadRecord as bad:
            reason = bad.reason
        self._on_damage(Damage(physical_offset, reason))
        return self._repaired(queue, offset)

    def _repaired(self, queue: ConsumeQueue, offset: int) -> bytes:
        """The record of a message whose entry was wrong, after the repair of the entry."""
        record = find_by_neighbours(self._log, queue, offset)
        if record is None:
            return b""
        if self._is_writable:
            code = code_of(record, self._config.delay_levels_ms)
            queue.replace(offset, QueueEntry(record.physical_offset, record.size, code))
        return self._log.bytes_at(record.physical_offset, record.size) or b""


def _scan_count(limits: QueueReadLimits) -> int:
    """How many entries are read."""
    count = max(1, limits.count_max)
    if limits.matches_code is not None or limits.matches_record is not None:
        return max(SCAN_COUNT_MIN, count)
    return count


def store_time_of(log: CommitLog, queue: ConsumeQueue, offset: int) -> int | None:
    """When a message was stored; None for one that cannot be read."""
    entry = queue.entry(offset)
    if entry is None or entry.is_blank:
        return None
    try:
        return log.record_at(entry.physical_offset).store_timestamp
    except BadRecord:
        return None


class Boundary(Enum):
    """Which side of a time is wanted; 4.9 clients always want the first."""

    LOWER = "LOWER"  # the first message at or after it
    UPPER = "UPPER"  # the last message at or before it


def offset_by_time(
    store_time: Callable[[int], int | None],
    min_offset: int,
    max_offset: int,
    timestamp: int,
    boundary: Boundary = Boundary.LOWER,
) -> int:
    """The offset of `timestamp` among the messages `min_offset` to `max_offset` - 1.

    `store_time` gives the store timestamp of a message, None for one that cannot be read.
    LOWER gives `max_offset` when all messages are older, UPPER gives `min_offset` when all
    are younger. Where clocks were set back the result is one of several right ones.
    """
    low, high = min_offset, max_offset
    while low < high:
        middle = (low + high) // 2
        found = _first_readable(store_time, middle, high)
        if found is None or _is_after(found[1], timestamp, boundary):
            high = middle
        else:
            low = found[0] + 1
    return low if boundary is Boundary.LOWER else max(low - 1, min_offset)


def _is_after(store_timestamp: int, timestamp: int, boundary: Boundary) -> bool:
    if boundary is Boundary.LOWER:
        return store_timestamp >= timestamp
    return store_timestamp > timestamp


def _first_readable(
    store_time: Callable[[int], int | None], offset: int, end: int
) -> tuple[int, int] | None:
    """The first offset with a time at or after `offset`, and the time."""
    for each in range(offset, end):
        found = store_time(each)
        if found is not None:
            return each, found
    return None


def find_by_neighbours(log: CommitLog, queue: ConsumeQueue, offset: int) -> LogRecord | None:
    """The record of message `offset`, searched between the records before and after it.

    None if it is not there, or if these are too far apart.
    """
    before = queue.entry(offset - 1) if offset > queue.min_offset else None
    after = queue.entry(offset + 1)
    start = log.start if before is None or before.is_blank else before.physical_end
    end = log.end if after is None or after.is_blank else after.physical_offset
    if not log.start <= start < end <= log.end or end - start > SEARCH_SIZE_MAX:
        return None
    try:
        for record in log.scan(start, end):
            if is_message(record, queue, offset):
                return record
    except BadRecord:
        # The record itself is damaged, or a neighbour's entry is wrong too.
        pass
    return None


def is_message(record: LogRecord, queue: ConsumeQueue, offset: int) -> bool:
    """Whether a record is message `offset` of the queue."""
    return (
        record.queue_offset == offset
        and record.queue_id == queue.queue_id
        and record.topic == queue.topic
    )

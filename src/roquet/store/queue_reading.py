"""Reading messages of one queue: entries, filters, limits, and a look at every record.

An entry says where a record lies. Before the record is handed out it has to say the same of
itself: its place, its size, its topic, its queue and its offset in it. So a damaged entry
never leads to a wrong message; as a rule it is repaired on the spot. In files that nobody
has looked at since the store was opened the checksums are compared, too.
"""

from collections.abc import Callable
from enum import Enum
from mmap import mmap
from struct import Struct
from typing import Final, final

import msgspec

from roquet.protocol.record import LAYOUTS
from roquet.store.commit_log import CommitLog
from roquet.store.config import StoreConfig
from roquet.store.consume_queue import BLANK_SIZE, ConsumeQueue, QueueEntry, unpack_entries
from roquet.store.damage import Damage
from roquet.store.dispatch import code_of
from roquet.store.entry_repair import find_by_neighbours, is_message
from roquet.store.errors import BadRecord
from roquet.store.log_scan import RECORD_SIZE_MIN

# So many entries are looked at for one read when a filter drops most of them.
_SCAN_COUNT_MIN: Final = 800
# What lies below is no hash but an address in a file that we do not write: every filter
# has to let it pass.
_TAGS_CODE_MIN: Final = -(2**31)

# The layout of a record with two IPv4 hosts, without what is not compared. That there is a
# record at all is clear from its physical offset.
_HEAD: Final = Struct(
    ">i"  # size
    "8x"
    "i"  # queue id
    "4x"
    "q"  # queue offset
    "q"  # physical offset
    "48x"
    "i"  # body size
)
_HEAD_SIZE: Final = LAYOUTS[0].size
assert _HEAD.size == _HEAD_SIZE
_unpack_head = _HEAD.unpack_from


class ReadStatus(Enum):
    """Apache's names: they travel as remarks of pull replies.

    Two of Apache's are missing: there is no queue that cannot be made, and a message that is
    being removed is below the smallest offset already.
    """

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MESSAGE_IN_QUEUE = "NO_MESSAGE_IN_QUEUE"


@final
class ReadResult(msgspec.Struct, gc=False):
    status: ReadStatus
    next_offset: int
    min_offset: int
    max_offset: int
    # The records as stored; joined they are the body of a pull reply.
    records: list[bytes] = []
    # How far the last record looked at lies behind the end of the log.
    behind_size: int = 0


@final
class Limits(msgspec.Struct, gc=False):
    """What one read may bring, and what it looks for. None lets everything pass."""

    count_max: int
    size_max: int
    matches_code: Callable[[int], bool] | None = None
    matches_record: Callable[[bytes], bool] | None = None


@final
class QueueReader:
    """Repairs entries, if it may write."""

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

    def read(self, queue: ConsumeQueue, offset: int, max_offset: int, limits: Limits) -> ReadResult:
        """Messages from `offset` on, but before `max_offset`.

        If there is a message at all, one comes back, however large it is.
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
        scan_count = max(1, limits.count_max)
        if limits.matches_code is not None or limits.matches_record is not None:
            scan_count = max(_SCAN_COUNT_MIN, scan_count)
        entries = queue.entries(offset, min(scan_count, max_offset - offset))
        if not entries:
            next_offset = queue.next_file_offset(offset)
            return ReadResult(ReadStatus.OFFSET_FOUND_NULL, next_offset, min_offset, max_offset)
        result = ReadResult(ReadStatus.FOUND, offset, min_offset, max_offset, [])
        self._collect(queue, entries, limits, result)
        return result

    def _collect(
        self, queue: ConsumeQueue, entries: bytes, limits: Limits, result: ReadResult
    ) -> None:
        """Add the records of `entries` to the result.

        Every message that anybody reads passes through this loop, so it calls as little as
        it can.
        """
        log = self._log
        matches_code = limits.matches_code
        matches_record = limits.matches_record
        count_max, size_max = self._bounds(entries, limits)
        queue_id = queue.queue_id
        topic_field = queue.topic_field
        records = result.records
        unpack_head = _unpack_head
        total_size = 0
        offset = result.next_offset - 1
        mapping: mmap
        start = end = body_size = 0
        for physical_offset, size, tags_code in unpack_entries(entries):
            if records and (len(records) >= count_max or total_size + size > size_max):
                break
            offset += 1
            # A code that is no hash says nothing, so it has to pass.
            if (
                matches_code is not None
                and tags_code >= _TAGS_CODE_MIN
                and not matches_code(tags_code)
            ):
                continue
            if not start <= physical_offset < end:
                start = end = 0
                file = log.file_at(physical_offset)
                if file is not None and file.is_verified:
                    mapping = file.mapping
                    start = file.start
                    end = file.end - RECORD_SIZE_MIN
            record = b""
            if start <= physical_offset < end:
                position = physical_offset - start
                own_size, own_queue_id, own_offset, own_physical_offset, body_size = unpack_head(
                    mapping, position
                )
                if (
                    own_physical_offset == physical_offset
                    and own_offset == offset
                    and own_queue_id == queue_id
                    and own_size == size
                ):
                    record = mapping[position : position + size]
            # Where the topic lies is known for the usual records only; others are rare.
            if not record.startswith(topic_field, _HEAD_SIZE + body_size):
                record = self._look_closer(queue, offset, physical_offset, size)
                if not record:
                    continue
                size = len(record)
            if matches_record is not None and not matches_record(record):
                continue
            records.append(record)
            total_size += size
        result.next_offset = offset + 1
        result.behind_size = log.end - physical_offset
        if not records:
            result.status = ReadStatus.NO_MATCHED_MESSAGE

    def _bounds(self, entries: bytes, limits: Limits) -> tuple[int, int]:
        """Count and size for what is in memory or, less, for what has to come from disk."""
        config = self._config
        physical_offset = int.from_bytes(entries[:8])
        if self._log.end - physical_offset > self._in_memory_size:
            return (
                min(limits.count_max, config.read_count_max_on_disk),
                min(limits.size_max, config.read_size_max_on_disk),
            )
        return (
            min(limits.count_max, config.read_count_max_in_memory),
            min(limits.size_max, config.read_size_max_in_memory),
        )

    def _look_closer(
        self, queue: ConsumeQueue, offset: int, physical_offset: int, size: int
    ) -> bytes:
        """The record of an entry that is unusual, unchecked or wrong; empty if there is none."""
        if size == BLANK_SIZE:
            return b""
        try:
            record = self._log.record_at(physical_offset)
            if record.size == size and is_message(record, queue, offset):
                return self._log.bytes_at(physical_offset, size) or b""
            reason = "is not the message that its queue says"
        except BadRecord as bad:
            reason = bad.reason
        self._on_damage(Damage(physical_offset, reason))
        return self._repaired(queue, offset)

    def _repaired(self, queue: ConsumeQueue, offset: int) -> bytes:
        """The record of a message whose entry was wrong; the entry is right from now on."""
        record = find_by_neighbours(self._log, queue, offset)
        if record is None:
            return b""
        if self._is_writable:
            code = code_of(record, self._config.delay_levels_ms)
            queue.replace(offset, QueueEntry(record.physical_offset, record.size, code))
        return self._log.bytes_at(record.physical_offset, record.size) or b""


def store_time_of(log: CommitLog, queue: ConsumeQueue, offset: int) -> int | None:
    """When a message was stored; None for one that cannot be read."""
    entry = queue.entry(offset)
    if entry is None or entry.is_blank:
        return None
    try:
        return log.record_at(entry.physical_offset).store_timestamp
    except BadRecord:
        return None

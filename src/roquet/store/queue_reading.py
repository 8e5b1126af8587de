"""Reading messages of one queue: entries, filters, limits, and a look at every record.

An entry says where a record lies. Before the record is handed out it has to say the same of
itself: its place, its size, its topic, its queue and its offset in it. So a damaged entry
costs one message, never a wrong one. In files that nobody has looked at since the store was
opened the checksums are compared, too.
"""

from collections.abc import Callable
from enum import Enum
from struct import Struct
from typing import Final, final

import msgspec

from roquet.protocol.record import LAYOUTS, MAGIC_V1
from roquet.store.commit_log import CommitLog
from roquet.store.config import StoreConfig
from roquet.store.consume_queue import BLANK_SIZE, ConsumeQueue, unpack_entries
from roquet.store.errors import BadRecord
from roquet.store.listener import Damage
from roquet.store.log_scan import RECORD_SIZE_MIN, read_log_record
from roquet.store.mapped_file import MappedFile

# So many entries are looked at for one read when a filter drops most of them.
_SCAN_COUNT_MIN: Final = 800
# What lies below is no hash but an address in a file that we do not write: every filter
# has to let it pass.
_TAGS_CODE_MIN: Final = -(2**31)

# The layout of a record with two IPv4 hosts, without what is not compared.
_HEAD: Final = Struct(
    ">i"  # size
    "i"  # magic
    "4x"
    "i"  # queue id
    "4x"
    "q"  # queue offset
    "q"  # physical offset
    "i"  # system flag
    "44x"
    "i"  # body size
)
_HEAD_SIZE: Final = LAYOUTS[0].size
assert _HEAD.size == _HEAD_SIZE
_unpack_head = _HEAD.unpack_from
_ADDRESS_BITS: Final = 0x30


class ReadStatus(Enum):
    """Apache's names: they travel as remarks of pull replies."""

    FOUND = "FOUND"
    NO_MATCHED_MESSAGE = "NO_MATCHED_MESSAGE"
    MESSAGE_WAS_REMOVING = "MESSAGE_WAS_REMOVING"
    OFFSET_FOUND_NULL = "OFFSET_FOUND_NULL"
    OFFSET_OVERFLOW_BADLY = "OFFSET_OVERFLOW_BADLY"
    OFFSET_OVERFLOW_ONE = "OFFSET_OVERFLOW_ONE"
    OFFSET_TOO_SMALL = "OFFSET_TOO_SMALL"
    NO_MATCHED_LOGIC_QUEUE = "NO_MATCHED_LOGIC_QUEUE"
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
    def __init__(
        self, log: CommitLog, config: StoreConfig, on_damage: Callable[[Damage], None]
    ) -> None:
        self._log = log
        self._config = config
        self._on_damage = on_damage
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
        scan_count = limits.count_max
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
        total_size = 0
        offset = result.next_offset - 1
        file: MappedFile | None = None
        for physical_offset, size, tags_code in unpack_entries(entries):
            if records and (len(records) >= count_max or total_size + size > size_max):
                break
            offset += 1
            result.behind_size = log.end - physical_offset
            # A code that is no hash says nothing, so it has to pass.
            if (
                matches_code is not None
                and tags_code >= _TAGS_CODE_MIN
                and not matches_code(tags_code)
            ):
                continue
            if file is None or not file.start <= physical_offset < file.end:
                file = log.file_at(physical_offset)
                if file is None:
                    result.status = ReadStatus.MESSAGE_WAS_REMOVING
                    continue
                mapping = file.mapping
                start = file.start
                is_verified = file.is_verified
            position = physical_offset - start
            record = mapping[position : position + size]
            if is_verified and size == len(record) >= RECORD_SIZE_MIN:
                (
                    own_size,
                    magic,
                    own_queue_id,
                    own_offset,
                    own_physical_offset,
                    sys_flag,
                    body_size,
                ) = _unpack_head(record)
                is_right = (
                    own_physical_offset == physical_offset
                    and own_offset == offset
                    and own_queue_id == queue_id
                    and own_size == size
                    and magic == MAGIC_V1
                    and not sys_flag & _ADDRESS_BITS
                    and record.startswith(topic_field, _HEAD_SIZE + body_size)
                )
            else:
                is_right = False
            if not is_right and not self._is_right(queue, offset, physical_offset, size, file):
                continue
            if matches_record is not None and not matches_record(record):
                continue
            records.append(record)
            total_size += size
        result.next_offset = offset + 1
        if not records and result.status is ReadStatus.FOUND:
            result.status = ReadStatus.NO_MATCHED_MESSAGE
        elif records:
            result.status = ReadStatus.FOUND

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

    def _is_right(
        self, queue: ConsumeQueue, offset: int, physical_offset: int, size: int, file: MappedFile
    ) -> bool:
        """Whether the record at an entry's place is the entry's, checked with all care."""
        if size == BLANK_SIZE:
            return False
        try:
            record = read_log_record(file.mapping, physical_offset - file.start, file.start)
        except BadRecord as bad:
            self._on_damage(Damage(physical_offset, bad.reason))
            return False
        if (record.size, record.queue_offset, record.queue_id, record.topic) != (
            size,
            offset,
            queue.queue_id,
            queue.topic,
        ):
            topic = queue.topic.decode()
            self._on_damage(
                Damage(physical_offset, f"is not message {offset} of {topic}/{queue.queue_id}")
            )
            return False
        return True

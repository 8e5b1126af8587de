"""Scans the records of a commit log file, each one checked.

A record is good when its sizes add up, its own physical offset is the place where it lies,
and its checksum (or, if it carries none, the CRC of its body) is right. Where all records were
written with checksums, one without is damaged. `messages/record.py` draws the layout of a record;
`record_scan.pyx` is a second reader of the common case, because recovery and the key index read
millions of records and need few of their members.
"""

from collections.abc import Iterator, Sequence
from mmap import mmap
from struct import Struct
from typing import Final, final
from zlib import crc32

import msgspec

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.properties import PROPERTIES_SIZE_MAX
from roquet.protocol.messages.record import (
    CHECKSUM_SIZE,
    CRC_MASK,
    LAYOUTS,
    MAGIC_BLANK,
    MAGIC_V1,
    peek_record,
    verify_record,
)
from roquet.store.errors import BadRecord
from roquet.store.files.mapped_file import MappedFile
from roquet.store.record_scan import scan_heads, scan_places, scan_runs

RECORD_SIZE_MIN: Final = LAYOUTS[0].size + 3
BLANK_SIZE_MIN: Final = 8

# This many bytes are checked before the first of their records is yielded.
_HEADS_SIZE: Final = 1 << 16
_STRETCH_SIZE: Final = 1 << 20
_unpack_blank = Struct(">ii").unpack_from
CHECKSUM_MARK: Final = b"__CRC32#\x01"
_CHECKSUM_TAIL_SIZE: Final = CHECKSUM_SIZE - len(CHECKSUM_MARK)
# The common start of both magics.
_MAGIC_PREFIX: Final = MAGIC_V1.to_bytes(4, signed=True)[:3]
_MAGIC_POSITION: Final = 4
# A disk writes a sector as a whole or not at all.
_SECTOR_SIZE: Final = 512
_LOST_CHECKSUM: Final = "its checksum is damaged"

# No log is longer.
NO_END: Final = 2**63 - 1


@final
class LogRecord(msgspec.Struct, gc=False):
    """The fields of a record that dispatch needs."""

    physical_offset: int
    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes


class QueueRun(msgspec.Struct, frozen=True):
    """Consecutive messages of one queue."""

    topic: bytes
    queue_id: int
    queue_offset: int  # of the first
    entries: bytes  # as `consume_queue.py` draws them


class Stretch(msgspec.Struct, frozen=True):
    """Consecutive good records, as entries of their queues.

    The runs of one queue come in the order of the log. Records that are delayed or of a rare kind
    are in no run, and no run is of their queue.
    """

    start: int
    end: int
    record_count: int
    last_timestamp: int
    latest_timestamp: int
    runs: Sequence[QueueRun]
    others: Sequence[LogRecord]


class RecordPlaces(msgspec.Struct, frozen=True):
    """Where consecutive good records start, and where the last of them ends."""

    physical_offsets: list[int]
    end: int


class ChecksumPart(msgspec.Struct, frozen=True):
    """Whether records must have checksums, and the physical offset up to which that is so."""

    must_have: bool
    end: int


class ChecksummedRanges(msgspec.Struct, frozen=True):
    """Which ranges of the log were written with checksums: there, a missing one is damage.

    A record without a checksum is as good as one with it: Apache 4.9 writes none, 5.x only if
    configured, and a store may have belonged to both. But garbage over a checksum looks the same.
    `checksum_notes.py` records where our own records lie. Picklable; the ranges ascend, each from a
    start to before an end.
    """

    ranges: tuple[tuple[int, int], ...] = ()

    def part_at(self, physical_offset: int) -> ChecksumPart:
        for start, end in self.ranges:
            if physical_offset < start:
                return ChecksumPart(must_have=False, end=start)
            if physical_offset < end:
                return ChecksumPart(must_have=True, end=end)
        return ChecksumPart(must_have=False, end=NO_END)

    def first_between(self, start: int, end: int) -> int:
        """The first offset between two where a record must have a checksum; `end` without one."""
        for first, last in self.ranges:
            if max(start, first) < min(end, last):
                return max(start, first)
        return end


NOTHING_KNOWN: Final = ChecksummedRanges()


def scan_file(
    file: MappedFile, position: int, end: int, checksummed: ChecksummedRanges = NOTHING_KNOWN
) -> Iterator[LogRecord]:
    """The records between two bytes of the file, up to the blank that ends it.

    Raises BadRecord at the first thing that is neither.
    """
    while position + RECORD_SIZE_MIN <= end:
        part = checksummed.part_at(file.start + position)
        size_max = min(_HEADS_SIZE, part.end - file.start - position)
        heads, position, fault = scan_heads(
            file.mapping, file.start, position, end, size_max, part.must_have
        )
        for head in heads:
            yield LogRecord(*head)
        if fault is not None:
            raise BadRecord(file.start + position, fault)
        if not heads:
            if is_blank(file, position):
                return
            record = read_log_record(file.mapping, position, file.start, part.must_have)
            yield record
            position += record.size
    _check_rest(file, position, end)


def scan_stretches(
    file: MappedFile, position: int, end: int, checksummed: ChecksummedRanges = NOTHING_KNOWN
) -> Iterator[Stretch]:
    """The records that `scan_file` finds; raises as it does."""
    while position + RECORD_SIZE_MIN <= end:
        start = file.start + position
        part = checksummed.part_at(start)
        size_max = min(_STRETCH_SIZE, part.end - start)
        count, last_timestamp, latest_timestamp, runs, delayed, position, fault = scan_runs(
            file.mapping, file.start, position, end, size_max, part.must_have
        )
        if count:
            yield Stretch(
                start,
                file.start + position,
                count,
                last_timestamp,
                latest_timestamp,
                [QueueRun(*run) for run in runs],
                [LogRecord(*head) for head in delayed],
            )
        if fault is not None:
            raise BadRecord(file.start + position, fault)
        if not count:
            if is_blank(file, position):
                return
            record = read_log_record(file.mapping, position, file.start, part.must_have)
            stored_at = record.store_timestamp
            yield Stretch(start, start + record.size, 1, stored_at, stored_at, (), (record,))
            position += record.size
    _check_rest(file, position, end)


def scan_file_places(
    file: MappedFile,
    position: int,
    end: int,
    count_max: int,
    checksummed: ChecksummedRanges = NOTHING_KNOWN,
) -> Iterator[RecordPlaces]:
    """The records that `scan_file` finds, up to `count_max` at a time; raises as it does.

    Records of a file that is verified are not compared with their checksums once more.
    """
    while position + RECORD_SIZE_MIN <= end:
        part = checksummed.part_at(file.start + position)
        size_max = part.end - file.start - position
        offsets, position, fault = scan_places(
            file.mapping,
            file.start,
            position,
            end,
            size_max,
            count_max,
            not file.is_verified,
            part.must_have,
        )
        if offsets:
            yield RecordPlaces(offsets, file.start + position)
        if fault is not None:
            raise BadRecord(file.start + position, fault)
        if not offsets:
            if is_blank(file, position):
                return
            record = read_log_record(file.mapping, position, file.start, part.must_have)
            position += record.size
            yield RecordPlaces([record.physical_offset], file.start + position)
    _check_rest(file, position, end)


def _check_rest(file: MappedFile, position: int, end: int) -> None:
    if position < end and not is_blank(file, position):
        raise BadRecord(file.start + position, "no record fits before the end of the file")


def _lacks_checksum(properties: bytes) -> bool:
    """Whether a record has no checksum though there was room for one, which our broker uses."""
    ending = (b"\x02" + properties)[-CHECKSUM_SIZE - 1 :]
    return (
        not ending.startswith(b"\x02" + CHECKSUM_MARK)
        and len(properties) + CHECKSUM_SIZE < PROPERTIES_SIZE_MAX
    )


def _has_lost_checksum(mapping: mmap, position: int, end: int, properties: bytes) -> bool:
    """Whether a record that seems to have no checksum is one that had one.

    Damage in its name, or in the separator before it, must not turn it into a property like any
    other. And its digits may never have been written: because the writer was killed, or because
    their sector was lost.
    """
    if properties[-CHECKSUM_SIZE:].startswith(CHECKSUM_MARK):
        return properties[:-CHECKSUM_SIZE][-1:] not in (b"", b"\x02")
    in_last_sector = properties[-((end - 1) % _SECTOR_SIZE + 1) :]
    last_written = in_last_sector[-_CHECKSUM_TAIL_SIZE:]
    if last_written and not any(last_written):
        return True
    digits = mapping[end - _CHECKSUM_TAIL_SIZE : end - 1]
    if not digits.isdigit():
        return False
    checksum = crc32(mapping[position : end - CHECKSUM_SIZE]) & CRC_MASK
    return digits[::-1] == b"%010d" % checksum


def is_blank(file: MappedFile, position: int) -> bool:
    """Whether the rest of the file is the blank that a log file ends with."""
    if position + BLANK_SIZE_MIN > file.size:
        return False
    size, magic = _unpack_blank(file.mapping, position)
    return bool(magic == MAGIC_BLANK and position + size == file.size)


def read_log_record(
    mapping: mmap,
    position: int,
    base: int,
    must_have_checksum: bool = False,
) -> LogRecord:
    """The record at byte `position` of a file that starts at `base`. Raises BadRecord."""
    physical_offset = base + position
    try:
        head = peek_record(mapping, position)
        if head.magic == MAGIC_BLANK:
            raise BadRecord(physical_offset, "is a blank")
        if head.physical_offset != physical_offset:
            raise BadRecord(physical_offset, f"claims to lie at {head.physical_offset}")
        verify_record(mapping, head)
    except BadMessage as error:
        raise BadRecord(physical_offset, str(error)) from None
    properties = mapping[head.properties_start : head.properties_end]
    is_missing = must_have_checksum and _lacks_checksum(properties)
    if is_missing or _has_lost_checksum(mapping, position, head.properties_end, properties):
        raise BadRecord(physical_offset, _LOST_CHECKSUM)
    return LogRecord(
        physical_offset,
        head.size,
        head.topic,
        head.queue_id,
        head.queue_offset,
        head.sys_flag,
        head.store_timestamp,
        properties,
    )


def find_record(
    file: MappedFile, position: int, checksummed: ChecksummedRanges = NOTHING_KNOWN
) -> LogRecord | None:
    """The first good record at or after byte `position` of the file."""
    mapping = file.mapping
    for chunk_start, end in file.written_chunks(position):
        # A magic may lie across the border of two chunks.
        first = max(chunk_start - 2, position + _MAGIC_POSITION)
        found = mapping.find(_MAGIC_PREFIX, first, end + 2)
        while found >= 0:
            start = found - _MAGIC_POSITION
            must_have_checksum = checksummed.part_at(file.start + start).must_have
            try:
                return read_log_record(mapping, start, file.start, must_have_checksum)
            except BadRecord:
                found = mapping.find(_MAGIC_PREFIX, found + 1, end + 2)
    return None

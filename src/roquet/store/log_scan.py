"""Walking the records of a commit log file, each one checked before it is believed.

A record is good when its sizes add up, its own physical offset is the place where it lies,
and its checksum (or, if it carries none, the CRC of its body) is right. How a record is laid
out is said in `protocol/record.py`; this is a second reader of the common case, because
recovery and the key index read millions of them and want few of their members.
"""

from collections.abc import Iterator
from mmap import mmap
from struct import Struct
from typing import Final, final
from zlib import crc32

import msgspec

from roquet.protocol.errors import BadMessage
from roquet.protocol.record import (
    CHECKSUM_SIZE,
    CRC_MASK,
    LAYOUTS,
    MAGIC_BLANK,
    MAGIC_V1,
    peek_record,
    verify_record,
)
from roquet.store.errors import BadRecord
from roquet.store.mapped_file import MappedFile

RECORD_SIZE_MIN: Final = LAYOUTS[0].size + 3
BLANK_SIZE_MIN: Final = 8

# The layout of a record with two IPv4 hosts, without what nobody here asks for.
_HEAD: Final = Struct(
    ">i"  # size
    "i"  # magic
    "i"  # body CRC
    "i"  # queue id
    "4x"
    "q"  # queue offset
    "q"  # physical offset
    "i"  # system flag
    "16x"
    "q"  # store timestamp
    "20x"
    "i"  # body size
)
_HEAD_SIZE: Final = LAYOUTS[0].size
assert _HEAD.size == _HEAD_SIZE
_unpack_head = _HEAD.unpack_from
_unpack_blank = Struct(">ii").unpack_from
_ADDRESS_BITS: Final = 0x30
_CHECKSUM_MARK: Final = b"__CRC32#\x01"
_CHECKSUM_TAIL_SIZE: Final = CHECKSUM_SIZE - len(_CHECKSUM_MARK)
# What both kinds of magic begin with.
_MAGIC_PREFIX: Final = MAGIC_V1.to_bytes(4, signed=True)[:3]
_MAGIC_POSITION: Final = 4
# A disk writes a sector as a whole or not at all.
_SECTOR_SIZE: Final = 512
_WRONG_SIZES: Final = "its sizes do not add up"
_LOST_CHECKSUM: Final = "its checksum is damaged"


@final
class LogRecord(msgspec.Struct, gc=False):
    """What dispatch wants to know of a record."""

    physical_offset: int
    size: int
    topic: bytes
    queue_id: int
    queue_offset: int
    sys_flag: int
    store_timestamp: int
    properties: bytes


def scan_file(file: MappedFile, position: int, end: int) -> Iterator[LogRecord]:
    """The records between two bytes of the file, up to the blank that ends it.

    Raises BadRecord at the first thing that is neither. Longer than other functions, because
    a call per step would double its time.
    """
    mapping = file.mapping
    base = file.start
    unpack_head = _unpack_head
    while position + RECORD_SIZE_MIN <= end:
        (
            size,
            magic,
            body_crc,
            queue_id,
            queue_offset,
            physical_offset,
            sys_flag,
            store_timestamp,
            body_size,
        ) = unpack_head(mapping, position)
        if magic != MAGIC_V1 or sys_flag & _ADDRESS_BITS:
            if is_blank(file, position):
                return
            record = read_log_record(mapping, position, base)
            yield record
            position += record.size
            continue
        if physical_offset != base + position:
            raise BadRecord(base + position, f"claims to lie at {physical_offset}")
        next_position = position + size
        body_end = position + _HEAD_SIZE + body_size
        if body_size < 0 or not body_end + 3 <= next_position <= end:
            raise BadRecord(base + position, _WRONG_SIZES)
        topic_end = body_end + 1 + mapping[body_end]
        properties = mapping[topic_end + 2 : next_position]
        if topic_end + 2 > next_position or mapping[topic_end : topic_end + 2] != len(
            properties
        ).to_bytes(2):
            raise BadRecord(base + position, _WRONG_SIZES)
        if properties[-CHECKSUM_SIZE:-_CHECKSUM_TAIL_SIZE] == _CHECKSUM_MARK:
            # It covers the body, so the CRC of the body need not be made.
            checksum = crc32(mapping[position : next_position - CHECKSUM_SIZE]) & CRC_MASK
            # The digits lie back to front.
            if properties[: -_CHECKSUM_TAIL_SIZE - 1 : -1] != b"\x02%010d" % checksum:
                raise BadRecord(base + position, "breaks its checksum")
        elif crc32(mapping[position + _HEAD_SIZE : body_end]) & CRC_MASK != body_crc:
            raise BadRecord(base + position, "its body breaks its CRC")
        elif _has_lost_checksum(mapping, position, next_position, properties):
            raise BadRecord(base + position, _LOST_CHECKSUM)
        yield LogRecord(
            physical_offset,
            size,
            mapping[body_end + 1 : topic_end],
            queue_id,
            queue_offset,
            sys_flag,
            store_timestamp,
            properties,
        )
        position = next_position
    if position < end and not is_blank(file, position):
        raise BadRecord(base + position, "no record fits before the end of the file")


def _has_lost_checksum(mapping: mmap, position: int, end: int, properties: bytes) -> bool:
    """Whether a record that seems to have no checksum is one that had one.

    Damage in its name, or in what sets it apart from the property before it, must not turn it
    into a property like any other. And the sector in which it lay may never have been written.
    """
    if properties[-CHECKSUM_SIZE:].startswith(_CHECKSUM_MARK):
        return properties[:-CHECKSUM_SIZE][-1:] not in (b"", b"\x02")
    in_last_sector = properties[-((end - 1) % _SECTOR_SIZE + 1) :]
    if in_last_sector and not any(in_last_sector):
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


def read_log_record(mapping: mmap, position: int, base: int) -> LogRecord:
    """The record at byte `position` of a file that begins at `base`. Raises BadRecord."""
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
    if _has_lost_checksum(mapping, position, head.properties_end, properties):
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


def find_record(file: MappedFile, position: int) -> LogRecord | None:
    """The first good record at or behind byte `position` of the file."""
    mapping = file.mapping
    for start, end in file.written_chunks(position):
        # A magic may lie across the border of two chunks.
        found = mapping.find(_MAGIC_PREFIX, max(start - 2, position + _MAGIC_POSITION), end + 2)
        while found >= 0:
            try:
                return read_log_record(mapping, found - _MAGIC_POSITION, file.start)
            except BadRecord:
                found = mapping.find(_MAGIC_PREFIX, found + 1, end + 2)
    return None

"""A stored message: the same bytes in the commit log, in a pull reply and between replicas.

      0  int32   total size, itself included
      4  int32   magic: what follows is a message, or the blank end of a log file
      8  int32   CRC-32 of the body, 31 bits
     12  int32   queue id
     16  int32   flag, the user's
     20  int64   offset in the queue
     28  int64   physical offset: the position of byte 0 in the log
     36  int32   system flag
     40  int64   born timestamp, ms
     48  8 | 20  born host (`host.py`): 20 bytes if system flag & 0x10
     56  int64   store timestamp, ms
     64  8 | 20  store host: 20 bytes if system flag & 0x20
     72  int32   reconsume times
     76  int64   prepared transaction offset
     84  int32   size, body
         int8    size, topic (int16 with magic V2)
         int16   size, properties (`properties.py`)

The CRC covers the body alone. So the last property may be a checksum of all bytes before
it, in 31 bits: `__CRC32#` 0x01, ten decimal digits, the least significant one first, 0x02.
That is what 5.x writes with `enabledAppendPropCRC`.
"""

import struct
from mmap import mmap
from struct import Struct
from typing import Any, Final, TypeAlias, final
from zlib import crc32

import msgspec

from roquet.protocol.errors import BadMessage
from roquet.protocol.host import HOST_SIZE_V4, HOST_SIZE_V6
from roquet.protocol.messages.message import StoredMessage

MAGIC_V1: Final = -626843481  # 0xDAA320A7
MAGIC_V2: Final = -626843477  # 0xDAA320AB, written by 5.x for topics over 127 bytes
MAGIC_BLANK: Final = -875286124  # 0xCBD43194, fills the end of a log file

TOPIC_SIZE_MAX_V1: Final = 127
TOPIC_SIZE_MAX_V2: Final = 32767
# By magic. All sizes are signed, so half of the range is not a size.
_TOPIC_SIZES: Final = {MAGIC_V1: Struct(">b"), MAGIC_V2: Struct(">h")}
_INT16: Final = Struct(">h")
_unpack_int16 = _INT16.unpack_from
# No log file is larger, and every size is an int32. Brokers allow far less.
BODY_SIZE_MAX: Final = 2**30

ReadBuffer: TypeAlias = bytes | bytearray | memoryview | mmap


def _layout(born_host_size: int, store_host_size: int) -> Struct:
    return Struct(
        ">i"  # total size
        "i"  # magic
        "i"  # body CRC
        "i"  # queue id
        "i"  # flag
        "q"  # queue offset
        "q"  # physical offset
        "i"  # system flag
        "q"  # born timestamp
        f"{born_host_size}s"
        "q"  # store timestamp
        f"{store_host_size}s"
        "i"  # reconsume times
        "q"  # prepared transaction offset
        "i"  # body size
    )


_HOST_SIZES: Final = (
    (HOST_SIZE_V4, HOST_SIZE_V4),
    (HOST_SIZE_V6, HOST_SIZE_V4),
    (HOST_SIZE_V4, HOST_SIZE_V6),
    (HOST_SIZE_V6, HOST_SIZE_V6),
)
# Indexed by the two address bits of the system flag, so no field needs a branch.
LAYOUTS: Final[tuple[Struct, ...]] = tuple(_layout(*host_sizes) for host_sizes in _HOST_SIZES)
assert [layout.size for layout in LAYOUTS] == [88, 100, 100, 112]
_ADDRESS_SHIFT: Final = 4
_ADDRESS_BITS: Final = 0x30
_PREFIX: Final = Struct(">ii")  # total size and magic: all that a blank has

CRC_MASK: Final = 0x7FFFFFFF
CHECKSUM_NAME: Final = b"__CRC32#"
_CHECKSUM_MARK: Final = CHECKSUM_NAME + b"\x01"
CHECKSUM_SIZE: Final = len(_CHECKSUM_MARK) + 11  # ... ten digits and a separator


@final
class RecordHead(msgspec.Struct, gc=False):
    """What recovery and dispatch want to know of a record. A blank has only size and magic."""

    size: int
    magic: int
    body_crc: int = 0
    queue_id: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    store_timestamp: int = 0
    prepared_transaction_offset: int = 0
    topic: bytes = b""
    # Positions in the buffer. The properties are the end of the record.
    body_start: int = 0
    body_end: int = 0
    properties_start: int = 0
    properties_end: int = 0


def peek_record(buffer: ReadBuffer, position: int = 0) -> RecordHead:
    """The record or blank at `position`, its sizes checked, its body not touched.

    Raises BadMessage when there is neither.
    """
    if position + _PREFIX.size > len(buffer):
        raise BadMessage(f"no record starts at byte {position} of {len(buffer)}")
    size, magic = _PREFIX.unpack_from(buffer, position)
    if magic == MAGIC_BLANK:
        if not _PREFIX.size <= size <= len(buffer) - position:
            raise BadMessage(f"a blank of {size} bytes does not fit at byte {position}")
        return RecordHead(size, magic)
    (
        _,
        _,
        body_crc,
        queue_id,
        _flag,
        queue_offset,
        physical_offset,
        sys_flag,
        _born_timestamp,
        _born_host,
        store_timestamp,
        _store_host,
        _reconsume_times,
        prepared_transaction_offset,
        body_size,
    ) = _unpack_fixed(buffer, position)
    body_start = position + LAYOUTS[(sys_flag & _ADDRESS_BITS) >> _ADDRESS_SHIFT].size
    topic_start, topic_end = _check_sizes(buffer, position, size, magic, body_start, body_size)
    return RecordHead(
        size,
        magic,
        body_crc,
        queue_id,
        queue_offset,
        physical_offset,
        sys_flag,
        store_timestamp,
        prepared_transaction_offset,
        bytes(buffer[topic_start:topic_end]),
        body_start,
        body_start + body_size,
        topic_end + 2,
        position + size,
    )


def verify_record(buffer: ReadBuffer, head: RecordHead) -> None:
    """Compares the body with its CRC and the record with its checksum, if it ends in one.

    `head` is the result of `peek_record` for the same buffer. Raises BadMessage.
    """
    if crc32(buffer[head.body_start : head.body_end]) & CRC_MASK != head.body_crc:
        raise BadMessage(f"the body of the message at {head.physical_offset} breaks its CRC")
    end = head.properties_end
    # With the separator before it, for only a property of its own is a checksum.
    properties = b"\x02" + buffer[head.properties_start : end]
    if properties[-CHECKSUM_SIZE - 1 :].startswith(b"\x02" + _CHECKSUM_MARK):
        covered = buffer[end - head.size : end - CHECKSUM_SIZE]
        if not properties.endswith(checksum_of(covered)):
            raise BadMessage(f"the message at {head.physical_offset} breaks its checksum")


def read_record(buffer: ReadBuffer, position: int = 0) -> StoredMessage:
    """The message at `position`, its sizes and the CRC of its body checked. Raises BadMessage.

    The checksum is left to `verify_record`: when a broker that knows nothing of it copies a
    message with all properties, the copy carries an outdated one and is no worse for that.
    """
    (
        size,
        magic,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body_size,
    ) = _unpack_fixed(buffer, position)
    body_start = position + LAYOUTS[(sys_flag & _ADDRESS_BITS) >> _ADDRESS_SHIFT].size
    topic_start, topic_end = _check_sizes(buffer, position, size, magic, body_start, body_size)
    body = bytes(buffer[body_start : body_start + body_size])
    if crc32(body) & CRC_MASK != body_crc:
        raise BadMessage(f"the body of the message at {physical_offset} breaks its CRC")
    return StoredMessage(
        size,
        magic,
        body_crc,
        queue_id,
        flag,
        queue_offset,
        physical_offset,
        sys_flag,
        born_timestamp,
        born_host,
        store_timestamp,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
        body,
        str(buffer[topic_start:topic_end], "utf-8", "replace"),
        bytes(buffer[topic_end + 2 : position + size]),
    )


def split_records(body: bytes) -> list[StoredMessage]:
    """The messages of a pull reply, which is records and nothing else. Raises BadMessage."""
    messages: list[StoredMessage] = []
    position = 0
    while position < len(body):
        message = read_record(body, position)
        messages.append(message)
        position += message.size
    return messages


def _unpack_fixed(buffer: ReadBuffer, position: int) -> tuple[Any, ...]:
    """The values of the layout. None of them can be believed yet."""
    try:
        fixed = LAYOUTS[0].unpack_from(buffer, position)
        addresses: int = (fixed[7] & _ADDRESS_BITS) >> _ADDRESS_SHIFT
        if addresses:
            return LAYOUTS[addresses].unpack_from(buffer, position)
    except struct.error:
        raise BadMessage(f"no record fits between bytes {position} and {len(buffer)}") from None
    return fixed


def _check_sizes(
    buffer: ReadBuffer, position: int, size: int, magic: int, body_start: int, body_size: int
) -> tuple[int, int]:
    """Makes sure that the parts add up to the record; returns start and end of the topic."""
    topic_size_layout = _TOPIC_SIZES.get(magic)
    if topic_size_layout is None:
        raise BadMessage(f"no record starts with magic {magic:#x}")
    body_end = body_start + body_size
    topic_start = body_end + topic_size_layout.size
    end = position + size
    if body_size < 0 or end > len(buffer) or topic_start + 2 > end:
        raise BadMessage(f"a body of {body_size} bytes does not fit a record of {size}")
    (topic_size,) = topic_size_layout.unpack_from(buffer, body_end)
    topic_end = topic_start + topic_size
    if topic_size < 0 or topic_end + 2 > end:
        raise BadMessage(f"a topic of {topic_size} bytes does not fit a record of {size}")
    (properties_size,) = _unpack_int16(buffer, topic_end)
    if properties_size < 0 or topic_end + 2 + properties_size != end:
        raise BadMessage(f"properties of {properties_size} bytes do not fit a record of {size}")
    return topic_start, topic_end


def checksum_of(covered: bytes | bytearray | memoryview) -> bytes:
    """The property that a record of these bytes ends with."""
    # Formatted back to front, because the digits are.
    return (b"\x02%010d\x01#23CRC__" % (crc32(covered) & CRC_MASK))[::-1]

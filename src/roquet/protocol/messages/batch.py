"""Many messages in one body, as a batch send carries them.

    per message: int32 size, itself included | int32 0 | int32 0 | int32 flag
                 int32 size, body | int16 size, properties

The two zeros stand where a record has magic and CRC. All messages go to one queue of one
topic. A batch topic of 5.x stores such a body as one record, and its readers unwrap it.
`batch_writing` writes them.
"""

import struct
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

import msgspec

from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.message import StoredMessage, SysFlag
from roquet.protocol.messages.record import CRC_MASK

BATCH_COUNT_MAX: Final = 65536

_FIXED: Final = Struct(">iiiii")  # size, 0, 0, flag, size of the body
_FIXED_SIZE: Final = _FIXED.size
_INT16: Final = Struct(">h")
_unpack_fixed = _FIXED.unpack_from
_unpack_int16 = _INT16.unpack_from
_WRAPPING: Final = (
    SysFlag.COMPRESSED | SysFlag.COMPRESSION_MASK | SysFlag.NEED_UNWRAP | SysFlag.INNER_BATCH
).value


class BatchItem(NamedTuple):
    flag: int
    body: bytes
    properties: bytes


def decode_batch(data: bytes, count_max: int = BATCH_COUNT_MAX) -> list[BatchItem]:
    """Raises TooLarge for more than `count_max` messages, BadMessage when sizes do not add up."""
    return [BatchItem(*item) for item in split_batch(data, count_max)]


def split_batch(data: bytes, count_max: int = BATCH_COUNT_MAX) -> list[tuple[int, bytes, bytes]]:
    """The same as tuples, which are faster: flag, body and properties."""
    items: list[tuple[int, bytes, bytes]] = []
    position = 0
    end = len(data)
    try:
        while position < end:
            size, _, _, flag, body_size = _unpack_fixed(data, position)
            if body_size < 0:
                raise BadMessage(f"batch item with a body of {body_size} bytes")
            body_start = position + _FIXED_SIZE
            body_end = body_start + body_size
            (properties_size,) = _unpack_int16(data, body_end)
            position += size
            parts_end = body_end + 2 + properties_size
            if properties_size < 0 or parts_end != position or parts_end > end:
                raise BadMessage(f"the parts of a batch item do not add up to its {size} bytes")
            items.append((flag, data[body_start:body_end], data[body_end + 2 : position]))
            if len(items) > count_max:
                raise TooLarge("batch", len(items), count_max)
    except struct.error:
        raise BadMessage(f"a batch of {len(data)} bytes ends within an item") from None
    return items


def unwrap(message: StoredMessage) -> list[StoredMessage]:
    """The messages of an inner batch, at consecutive queue offsets. Raises as above."""
    sys_flag = message.sys_flag & ~_WRAPPING
    return [
        msgspec.structs.replace(
            message,
            queue_offset=message.queue_offset + index,
            sys_flag=sys_flag,
            flag=item.flag,
            body_crc=crc32(item.body) & CRC_MASK,
            body=item.body,
            raw_properties=item.properties,
        )
        for index, item in enumerate(decode_batch(message.decompressed_body()))
    ]

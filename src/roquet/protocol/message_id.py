"""Message ids: where a message lies, and who made it when.

    offset id   store host (8 or 20) | int64 physical offset
    unique id   IP (4 or 16) | uint16 pid | uint32 salt | uint32 ms of the month | uint16 counter

Both are written as upper-case hex: 32 or 56 characters. The month begins in the local
time zone of the producer; clock, counter and process are handed in.
"""

from struct import Struct
from typing import Final, NamedTuple

from roquet.protocol.errors import BadMessage
from roquet.protocol.host import HOST_SIZE_V4, HOST_SIZE_V6, Address, unpack_host

_OFFSET: Final = Struct(">q")


class OffsetId(NamedTuple):
    store_address: Address
    physical_offset: int


def offset_id(store_host: bytes, physical_offset: int) -> str:
    """`store_host` in its packed form."""
    return (store_host + _OFFSET.pack(physical_offset)).hex().upper()


def parse_offset_id(text: str) -> OffsetId:
    """Raises BadMessage."""
    data = _bytes_of(text)
    if len(data) not in (HOST_SIZE_V4 + _OFFSET.size, HOST_SIZE_V6 + _OFFSET.size):
        raise BadMessage(f"{text[:100]!r} is not an offset id")
    (physical_offset,) = _OFFSET.unpack_from(data, len(data) - _OFFSET.size)
    return OffsetId(unpack_host(data[: -_OFFSET.size]), physical_offset)


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise BadMessage(f"{text[:100]!r} is not hexadecimal") from None

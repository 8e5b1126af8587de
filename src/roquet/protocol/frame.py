"""The frames that a byte stream consists of. They are cut from it in `frame_decoder.pyx`.

    0        4            5             8               8 + header size
    +--------+------------+-------------+---------------+------+
    | length | serializer | header size | header        | body |
    +--------+------------+-------------+---------------+------+
      int32      uint8        uint24

`length` counts everything after itself. `command.py` reads the
header; nothing here knows a socket.
"""

from struct import Struct
from typing import Final, NamedTuple

SERIALIZER_JSON: Final = 0
SERIALIZER_BINARY: Final = 1

FRAME_SIZE_MAX: Final = 16 * 1024 * 1024
# Properties fill 32 KiB at most and JSON can grow them six-fold; the reply to a large
# batch names every message id. Nothing honest comes near this.
HEADER_SIZE_MAX: Final = 8 * 1024 * 1024

PREFIX_SIZE: Final = 8
_PREFIX: Final = Struct(">iI")
_pack_prefix = _PREFIX.pack


class Frame(NamedTuple):
    serializer: int
    header: bytes
    body: bytes


def encode_frame(serializer: int, header: bytes, body: bytes = b"") -> bytes:
    header_size = len(header)
    return b"".join(
        (
            _pack_prefix(4 + header_size + len(body), serializer << 24 | header_size),
            header,
            body,
        )
    )

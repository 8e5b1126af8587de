"""Compressed bodies: zlib streams, LZ4 frames and Zstandard frames.

The bits 0x700 of `sys_flag` say which one it is. Only clients compress and
decompress; a broker stores bodies as they come. Decompression is bounded, because
half a megabyte of zlib can grow a thousandfold.
"""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final, Protocol

from roquet.protocol.errors import BadMessage, TooLarge

DECOMPRESSED_SIZE_MAX: Final = 32 * 1024 * 1024
LEVEL_DEFAULT: Final = 5

_COMPRESSED: Final = 0x1
_KIND_MASK: Final = 0x700
_KIND_SHIFT: Final = 8


class Compression(IntEnum):
    """How a producer packs large bodies. ZLIB is read by everybody, the others from 5.0 on.

    For example:

        Producer("127.0.0.1:9876", "shop", compression=Compression.ZSTD, compress_over=1024)
    """

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """The bits that say: compressed, in this way."""
        return _COMPRESSED | self << _KIND_SHIFT


def compression_of(sys_flag: int) -> Compression:
    """Raises BadMessage for a kind nobody has defined."""
    # Before 4.9.4 there was only zlib and no bits to say so.
    kind = (sys_flag & _KIND_MASK) >> _KIND_SHIFT or Compression.ZLIB
    try:
        return Compression(kind)
    except ValueError:
        raise BadMessage(f"compression {kind} is unknown") from None


def compress(body: bytes, compression: Compression, level: int = LEVEL_DEFAULT) -> bytes:
    return _codec(compression).compress(body, level)


def decompress(body: bytes, sys_flag: int, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Raises TooLarge when more than `size_max` bytes come out, BadMessage for garbage."""
    codec = _codec(compression_of(sys_flag))
    parts: list[bytes] = []
    size = 0
    try:
        for part in codec.parts(body, size_max):
            parts.append(part)
            size += len(part)
            if size > size_max:
                raise TooLarge("decompressed body", size, size_max)
    except (codec.ERROR, EOFError) as error:
        raise BadMessage(f"body cannot be decompressed: {error}") from None
    return b"".join(parts)


class _Codec(Protocol):
    """A module for one kind."""

    ERROR: type[Exception]

    def compress(self, body: bytes, level: int) -> bytes: ...

    def parts(self, body: bytes, size_max: int) -> Iterator[bytes]:
        """Yields at most about `size_max` bytes at once.

        Raises ERROR for garbage, and EOFError when the body ends too early. What follows a
        complete stream or frame is ignored, as Java does.
        """
        ...


def _codec(compression: Compression) -> _Codec:
    # Loaded when a body is compressed that way: a server that never unpacks one needs no library.
    match compression:
        case Compression.LZ4:
            from roquet.protocol.compression import lz4_frames  # noqa: PLC0415

            return lz4_frames
        case Compression.ZSTD:
            from roquet.protocol.compression import zstd_frames  # noqa: PLC0415

            return zstd_frames
        case Compression.ZLIB:
            from roquet.protocol.compression import zlib_streams  # noqa: PLC0415

            return zlib_streams

"""Compressed bodies: zlib streams, LZ4 frames and Zstandard frames.

Which one it is stands in the bits 0x700 of `sys_flag`. Only clients compress and
decompress; a broker stores bodies as they come. Decompression is bounded, because
half a megabyte of zlib can grow a thousandfold.
"""

import zlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Final

import lz4.frame
import zstandard

from roquet.protocol.errors import BadMessage, TooLarge

DECOMPRESSED_SIZE_MAX: Final = 32 * 1024 * 1024
LEVEL_DEFAULT: Final = 5

_PART_SIZE_MAX: Final = 64 * 1024
# A frame names its window, and that is allocated before anything else is looked at.
_ZSTD_WINDOW_SIZE_MAX: Final = 32 * 1024 * 1024
# The most is a block of 128 KiB that says in four bytes: the same byte all over.
_ZSTD_GROWTH_MAX: Final = 32 * 1024
_COMPRESSED: Final = 0x1
_KIND_MASK: Final = 0x700
_KIND_SHIFT: Final = 8


class Compression(IntEnum):
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
    match compression:
        case Compression.LZ4:
            # Java reads frames of independent blocks only.
            return bytes(lz4.frame.compress(body, compression_level=level, block_linked=False))
        case Compression.ZSTD:
            return zstandard.ZstdCompressor(level).compress(body)
        case Compression.ZLIB:
            return zlib.compress(body, level)


def decompress(body: bytes, sys_flag: int, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Raises TooLarge when more than `size_max` bytes come out, BadMessage for garbage."""
    parts: list[bytes] = []
    size = 0
    try:
        for part in _PARTS[compression_of(sys_flag)](body, size_max):
            parts.append(part)
            size += len(part)
            if size > size_max:
                raise TooLarge("decompressed body", size, size_max)
    # The LZ4 library has no error of its own and raises RuntimeError.
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError) as error:
        raise BadMessage(f"body cannot be decompressed: {error}") from None
    return b"".join(parts)


# Each yields at most about `size_max` bytes at once and raises EOFError when the body ends too
# early. What follows a complete stream or frame is ignored, as Java does.


def _zlib_parts(body: bytes, size_max: int) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    while not stream.eof:
        yield (part := stream.decompress(body, min(size_max + 1, _PART_SIZE_MAX)))
        body = stream.unconsumed_tail
        if not part and not body and not stream.eof:
            raise EOFError("the zlib stream ends too early")


def _lz4_parts(body: bytes, size_max: int) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    while not frame.eof:
        if frame.needs_input and not body:
            raise EOFError("the LZ4 frame ends too early")
        yield frame.decompress(body, min(size_max + 1, _PART_SIZE_MAX))
        body = b""


def _zstd_parts(body: bytes, size_max: int) -> Iterator[bytes]:
    frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_SIZE_MAX).decompressobj()
    # There is no way to limit what comes out, so what goes in is limited.
    piece_size = max(1, size_max // _ZSTD_GROWTH_MAX)
    for start in range(0, len(body), piece_size):
        yield frame.decompress(body[start : start + piece_size])
        if frame.eof:
            return
    raise EOFError("the Zstandard frame ends too early")


_PARTS: Final = {
    Compression.LZ4: _lz4_parts,
    Compression.ZSTD: _zstd_parts,
    Compression.ZLIB: _zlib_parts,
}

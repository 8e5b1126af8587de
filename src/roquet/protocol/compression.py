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

_CHUNK_SIZE: Final = 256 * 1024
# A frame names the window it wants to be given before a byte of it is decompressed.
_ZSTD_WINDOW_SIZE_MAX: Final = 32 * 1024 * 1024
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
            return bytes(lz4.frame.compress(body, compression_level=level))
        case Compression.ZSTD:
            return zstandard.ZstdCompressor(level).compress(body)
        case Compression.ZLIB:
            return zlib.compress(body, level)


def decompress(body: bytes, sys_flag: int, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Raises TooLarge when more than `size_max` bytes would come out, BadMessage for garbage."""
    chunks = _CHUNKS[compression_of(sys_flag)](body)
    parts: list[bytes] = []
    size = 0
    try:
        for chunk in chunks:
            parts.append(chunk)
            size += len(chunk)
            if size > size_max:
                raise TooLarge("decompressed body", size, size_max)
    except (zlib.error, zstandard.ZstdError, RuntimeError, EOFError) as error:
        raise BadMessage(f"body cannot be decompressed: {error}") from None
    return b"".join(parts)


def _zlib_chunks(body: bytes) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    rest = body
    while not stream.eof:
        chunk = stream.decompress(rest, _CHUNK_SIZE)
        rest = stream.unconsumed_tail
        if not chunk and not rest and not stream.eof:
            raise EOFError("the zlib stream ends too early")
        yield chunk


def _lz4_chunks(body: bytes) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    rest = body
    while not frame.eof:
        if frame.needs_input and not rest:
            raise EOFError("the LZ4 frame ends too early")
        yield frame.decompress(rest, _CHUNK_SIZE)
        rest = b""


def _zstd_chunks(body: bytes) -> Iterator[bytes]:
    frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_SIZE_MAX)
    return frame.read_to_iter(body, write_size=_CHUNK_SIZE)


_CHUNKS: Final = {
    Compression.LZ4: _lz4_chunks,
    Compression.ZSTD: _zstd_chunks,
    Compression.ZLIB: _zlib_chunks,
}

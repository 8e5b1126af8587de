"""Compressed bodies: zlib streams, LZ4 frames and Zstandard frames.

The bits 0x700 of `sys_flag` select it. Only clients compress and
decompress; a broker stores bodies as they come. Decompression is bounded, because
half a megabyte of zlib can grow a thousandfold. Each library is imported when a body needs it: a
server that never decompresses one needs none of them.
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Final, Protocol, final

from roquet.protocol.errors import BadMessage, TooLarge

DECOMPRESSED_SIZE_MAX: Final = 32 * 1024 * 1024
LEVEL_DEFAULT: Final = 5

_PART_SIZE_MAX: Final = 64 * 1024
# A Zstandard frame names its window, and that is allocated before anything else is looked at.
# 32 MiB, as a power of 2.
_ZSTD_WINDOW_LOG_MAX: Final = 25

_COMPRESSED: Final = 0x1
_KIND_MASK: Final = 0x700
_KIND_SHIFT: Final = 8


class Compression(IntEnum):
    """How a producer compresses large bodies. All peers read ZLIB, the others need 5.0.

    For example:

        Producer("127.0.0.1:9876", "shop", compression=Compression.ZSTD, compress_over=1024)
    """

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """The bits of a body compressed this way."""
        return _COMPRESSED | self << _KIND_SHIFT


def compression_of(sys_flag: int) -> Compression:
    """Raises BadMessage for an unknown kind."""
    # Before 4.9.4 there was only zlib, and no bits for it.
    kind = (sys_flag & _KIND_MASK) >> _KIND_SHIFT or Compression.ZLIB
    try:
        return Compression(kind)
    except ValueError:
        raise BadMessage(f"compression {kind} is unknown") from None


def compress(body: bytes, compression: Compression, level: int = LEVEL_DEFAULT) -> bytes:
    return _CODECS[compression].compress(body, level)


def decompress(body: bytes, sys_flag: int, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Raises TooLarge when more than `size_max` bytes come out, BadMessage for garbage."""
    codec = _CODECS[compression_of(sys_flag)]
    parts: list[bytes] = []
    size = 0
    try:
        for part in codec.parts(body, size_max):
            parts.append(part)
            size += len(part)
            if size > size_max:
                raise TooLarge("decompressed body", size, size_max)
    except (codec.error_type(), EOFError) as error:
        raise BadMessage(f"body cannot be decompressed: {error}") from None
    return b"".join(parts)


class _Codec(Protocol):
    """One kind of compression."""

    def compress(self, body: bytes, level: int) -> bytes: ...

    def parts(self, body: bytes, size_max: int) -> Iterator[bytes]:
        """Yields at most about `size_max` bytes at once.

        Raises `error_type()` for garbage, and EOFError when the body ends too early. What follows
        a complete stream or frame is ignored, as Java does.
        """
        ...

    def error_type(self) -> type[Exception]: ...


@final
class _Lz4Frames:
    def compress(self, body: bytes, level: int) -> bytes:
        import lz4.frame  # noqa: PLC0415

        # Java reads frames of independent blocks only.
        return bytes(lz4.frame.compress(body, compression_level=level, block_linked=False))

    def parts(self, body: bytes, size_max: int) -> Iterator[bytes]:
        import lz4.frame  # noqa: PLC0415

        frame = lz4.frame.LZ4FrameDecompressor()
        while not frame.eof:
            if frame.needs_input and not body:
                raise EOFError("the LZ4 frame ends too early")
            yield frame.decompress(body, min(size_max + 1, _PART_SIZE_MAX))
            body = b""

    def error_type(self) -> type[Exception]:
        return RuntimeError  # The library has no error of its own.


@final
class _ZstandardFrames:
    def compress(self, body: bytes, level: int) -> bytes:
        from backports import zstd  # noqa: PLC0415

        return zstd.compress(body, level)

    def parts(self, body: bytes, size_max: int) -> Iterator[bytes]:
        from backports import zstd  # noqa: PLC0415

        limit: Mapping[int, int] = {
            zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG_MAX
        }
        frame = zstd.ZstdDecompressor(options=limit)
        while not frame.eof:
            if frame.needs_input and not body:
                raise EOFError("the Zstandard frame ends too early")
            yield frame.decompress(body, min(size_max + 1, _PART_SIZE_MAX))
            body = b""

    def error_type(self) -> type[Exception]:
        from backports import zstd  # noqa: PLC0415

        return zstd.ZstdError


@final
class _ZlibStreams:
    def compress(self, body: bytes, level: int) -> bytes:
        import zlib  # noqa: PLC0415

        return zlib.compress(body, level)

    def parts(self, body: bytes, size_max: int) -> Iterator[bytes]:
        import zlib  # noqa: PLC0415

        stream = zlib.decompressobj()
        while not stream.eof:
            yield (part := stream.decompress(body, min(size_max + 1, _PART_SIZE_MAX)))
            body = stream.unconsumed_tail
            if not part and not body and not stream.eof:
                raise EOFError("the zlib stream ends too early")

    def error_type(self) -> type[Exception]:
        import zlib  # noqa: PLC0415

        return zlib.error


_CODECS: Final[dict[Compression, _Codec]] = {
    Compression.LZ4: _Lz4Frames(),
    Compression.ZSTD: _ZstandardFrames(),
    Compression.ZLIB: _ZlibStreams(),
}

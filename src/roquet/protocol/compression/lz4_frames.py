"""Bodies as LZ4 frames; what is asked of this module is said in `_Codec`."""

from collections.abc import Iterator
from typing import Final

import lz4.frame

# The library has no error of its own.
ERROR: type[Exception] = RuntimeError

_PART_SIZE_MAX: Final = 64 * 1024


def compress(body: bytes, level: int) -> bytes:
    # Java reads frames of independent blocks only.
    return bytes(lz4.frame.compress(body, compression_level=level, block_linked=False))


def parts(body: bytes, size_max: int) -> Iterator[bytes]:
    frame = lz4.frame.LZ4FrameDecompressor()
    while not frame.eof:
        if frame.needs_input and not body:
            raise EOFError("the LZ4 frame ends too early")
        yield frame.decompress(body, min(size_max + 1, _PART_SIZE_MAX))
        body = b""

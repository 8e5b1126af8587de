"""Bodies as Zstandard frames; what is asked of this module is said in `_Codec`."""

from collections.abc import Iterator
from typing import Final

import zstandard

ERROR: type[Exception] = zstandard.ZstdError

# A frame names its window, and that is allocated before anything else is looked at.
_WINDOW_SIZE_MAX: Final = 32 * 1024 * 1024
# At worst, four bytes are a block of 128 KiB that is one byte repeated.
_GROWTH_MAX: Final = 32 * 1024


def compress(body: bytes, level: int) -> bytes:
    return zstandard.ZstdCompressor(level).compress(body)


def parts(body: bytes, size_max: int) -> Iterator[bytes]:
    frame = zstandard.ZstdDecompressor(max_window_size=_WINDOW_SIZE_MAX).decompressobj()
    # There is no way to limit what comes out, so what goes in is limited.
    piece_size = max(1, size_max // _GROWTH_MAX)
    for start in range(0, len(body), piece_size):
        yield frame.decompress(body[start : start + piece_size])
        if frame.eof:
            return
    raise EOFError("the Zstandard frame ends too early")

"""Bodies as zlib streams; what is asked of this module is said in `_Codec`."""

import zlib
from collections.abc import Iterator
from typing import Final

ERROR: type[Exception] = zlib.error

_PART_SIZE_MAX: Final = 64 * 1024


def compress(body: bytes, level: int) -> bytes:
    return zlib.compress(body, level)


def parts(body: bytes, size_max: int) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    while not stream.eof:
        yield (part := stream.decompress(body, min(size_max + 1, _PART_SIZE_MAX)))
        body = stream.unconsumed_tail
        if not part and not body and not stream.eof:
            raise EOFError("the zlib stream ends too early")

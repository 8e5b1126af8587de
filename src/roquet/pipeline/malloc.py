"""Memory that a task gives back stays with its process, and the next batch takes it.

Batches are megabytes. As soon as that much is free, glibc returns it to the kernel, and gets it
again page by page: that was a sixth of the time of a task that reads. How much is in use at once
does not change by this; only what is kept while nothing is read does, by `KEPT_SIZE`.
"""

import ctypes
from functools import cache
from typing import Final

KEPT_SIZE: Final = 64 << 20
# The most that glibc takes; larger pieces are always the kernel's.
_PIECE_SIZE: Final = 32 << 20
# Parameters of mallopt, as malloc.h numbers them.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


@cache
def keep_freed_memory() -> bool:
    """Once a process, which is one of Spark's. False where there is another libc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_SIZE) and mallopt(_MMAP_THRESHOLD, _PIECE_SIZE))

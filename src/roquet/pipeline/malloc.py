"""Settings of malloc: memory that a task frees stays with its process, for the next batch.

Batches are megabytes. As soon as that much is free, glibc returns it to the kernel, and gets it
back page by page: that was a sixth of the time of a task that reads. Peak use does not change; an
idle process keeps up to `KEPT_SIZE`. Apart from the other modules, because tasks of every format
need it and should load nothing else for it.
"""

import ctypes
from functools import cache
from typing import Final

KEPT_SIZE: Final = 64 << 20
# The most that glibc allows; larger blocks always go back to the kernel.
_PIECE_SIZE: Final = 32 << 20
# Parameters of mallopt, as malloc.h numbers them.
_TRIM_THRESHOLD: Final = -1
_MMAP_THRESHOLD: Final = -3


@cache
def keep_freed_memory() -> bool:
    """Once per process. False with another libc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_TRIM_THRESHOLD, KEPT_SIZE) and mallopt(_MMAP_THRESHOLD, _PIECE_SIZE))

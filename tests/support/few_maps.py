"""A program of ours in a process that has hardly any mappings left.

`python few_maps.py LEFT PROGRAM ...` takes all mappings that the system allows but LEFT, by
protecting every other page of a range, and then runs the program in the same process. Nobody else
on the machine notices: the limit is one of each process.
"""

import ctypes
import mmap
import runpy
import sys
from pathlib import Path
from typing import Final

_MAPS: Final = Path("/proc/self/maps")
_LIMIT: Final = Path("/proc/sys/vm/max_map_count")
_PRIVATE_ANONYMOUS: Final = 0x22


def few_maps_left(count: int) -> tuple[str, ...]:
    """What a server is to run under."""
    return sys.executable, __file__, str(count)


def map_limit() -> int:
    return int(_LIMIT.read_text())


def map_count(process: int | str = "self") -> int:
    return Path(f"/proc/{process}/maps").read_bytes().count(b"\n")


def _take_all_but(left: int) -> None:
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    count = map_limit() - left - map_count()
    size = (count + 1) * mmap.PAGESIZE
    start = libc.mmap(None, size, 0, _PRIVATE_ANONYMOUS, -1, 0)
    for page in range(0, count, 2):
        libc.mprotect(start + page * mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_READ)


if __name__ == "__main__":
    _take_all_but(int(sys.argv[1]))
    del sys.argv[:2]
    runpy.run_path(sys.argv[0], run_name="__main__")

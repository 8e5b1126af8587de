"""Two directories change places at once: nobody finds one of them missing, or both the same.

Linux can do that; Python does not offer it.
"""

import ctypes
import errno
import os
from pathlib import Path
from typing import Final

from roquet.pipeline.errors import BadLake

_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2
# What systems say that have no such thing, or not on this file system.
_UNABLE: Final = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EXDEV)


def exchange(first: Path, second: Path) -> None:
    """Raises BadLake where the file system cannot do it, and OSError."""
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "renameat2"):
        raise _unable(second)
    paths = os.fsencode(first), os.fsencode(second)
    if library.renameat2(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        if number in _UNABLE:
            raise _unable(second)
        raise OSError(number, os.strerror(number), str(second))


def _unable(path: Path) -> BadLake:
    return BadLake(
        f"the file system of {path} cannot exchange two directories at once, so files cannot be"
        " joined there without readers seeing too little or too much; ext4, XFS and Btrfs can"
    )

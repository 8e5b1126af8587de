"""A disk that has no room for another file of one kind, for as long as a test says."""

import errno
import os
from pathlib import Path

from tests.support.quick_disk import QuickDisk


class FullDisk(QuickDisk):
    """`directory` is where there is no room: "commitlog" or "index"."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.is_full = False

    def create(self, path: Path, size: int) -> int:
        # Files are made aside, under the name of their directory.
        if self.is_full and path.name.startswith(self._directory):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().create(path, size)

"""A disk that has no room for another file of the log, for as long as a test says."""

import errno
import os
from pathlib import Path

from tests.support.quick_disk import QuickDisk


class FullLogDisk(QuickDisk):
    def __init__(self) -> None:
        self.is_full = False

    def create(self, path: Path, size: int) -> int:
        if self.is_full and path.name.startswith("commitlog"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().create(path, size)

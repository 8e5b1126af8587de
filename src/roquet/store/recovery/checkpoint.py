"""How far everything is known to be on disk: three store timestamps.

      0  int64  commit log: records up to this time are synced
      8  int64  consume queues
     16  int64  key index
     24  ...    4096 bytes in all; 5.x keeps more here, which is left as it is

A value is written after the sync it speaks of, never before.
"""

from pathlib import Path
from struct import Struct
from typing import Final

import msgspec

from roquet.disk import Disk

FILE_SIZE: Final = 4096
# Store timestamps and syncs are not exactly in step; Apache allows the same.
MARGIN_MS: Final = 3_000
_LAYOUT: Final = Struct(">qqq")


class Checkpoint(msgspec.Struct, frozen=True):
    log_timestamp: int = 0
    queue_timestamp: int = 0
    index_timestamp: int = 0

    @property
    def recovery_timestamp(self) -> int:
        """Everything stored up to here is complete in the log and in the queues."""
        return max(0, min(self.log_timestamp, self.queue_timestamp) - MARGIN_MS)


def load_checkpoint(disk: Disk, path: Path) -> Checkpoint:
    """Zeros, which stand for "nothing is known", if there is none, or only a part of one."""
    if not disk.exists(path):
        return Checkpoint()
    descriptor = disk.open(path, writable=False)
    try:
        content = disk.read(descriptor, 0, _LAYOUT.size)
    finally:
        disk.close(descriptor)
    return Checkpoint(*_LAYOUT.unpack(content)) if len(content) == _LAYOUT.size else Checkpoint()


def save_checkpoint(disk: Disk, path: Path, checkpoint: Checkpoint) -> None:
    """Return when it survives a power cut. Raises OSError."""
    is_new = not disk.exists(path)
    descriptor = disk.create(path, FILE_SIZE) if is_new else disk.open(path, writable=True)
    try:
        # One sector, so it is written as a whole or not at all.
        disk.write(
            descriptor,
            0,
            _LAYOUT.pack(
                checkpoint.log_timestamp, checkpoint.queue_timestamp, checkpoint.index_timestamp
            ),
        )
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)
    if is_new:
        disk.sync_directory(path.parent)

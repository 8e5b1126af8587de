"""The lock of a store directory, and whether its last owner closed it.

`lock` is locked by the owner while its process runs. `abort` exists while the store is open: an
owner that finds it knows that the one before did not close the store.
"""

from typing import Final, final

from roquet.disk import Disk, make_safe_directory
from roquet.store.errors import StoreInUse
from roquet.store.files.layout import StoreLayout

# As many bytes as Apache writes there, which it never reads.
_OUR_CONTENT: Final = b"ours"


@final
class StoreLock:
    """Locked by the constructor. Raises StoreInUse, or OSError."""

    def __init__(self, disk: Disk, layout: StoreLayout) -> None:
        self._disk = disk
        self._layout = layout
        make_safe_directory(disk, layout.root)
        self._descriptor: int | None = self._locked()
        # Whether the last owner that wrote to the store was a Roquet broker; see `mark_ours`.
        self.was_ours = disk.read(self._descriptor, 0, len(_OUR_CONTENT)) == _OUR_CONTENT
        self.was_clean = not disk.exists(layout.abort)

    def mark_open(self) -> None:
        """From now on, the next owner can detect a crash."""
        if not self._disk.exists(self._layout.abort):
            self._disk.close(self._disk.create(self._layout.abort, 0))
            self._disk.sync_directory(self._layout.root)

    def mark_ours(self) -> None:
        """Mark the store as ours: Apache writes four bytes of its own there when it starts.

        To be called when everything recorded about the log holds for what is appended now.
        """
        if self._descriptor is not None and not self.was_ours:
            self._disk.write(self._descriptor, 0, _OUR_CONTENT)
            self._disk.sync(self._descriptor)
            self.was_ours = True

    def mark_clean(self) -> None:
        """Everything is synced and complete: the next owner may rely on it."""
        self._disk.remove(self._layout.abort)
        self._disk.sync_directory(self._layout.root)

    def release(self) -> None:
        if self._descriptor is not None:
            self._disk.close(self._descriptor)
            self._descriptor = None

    def _locked(self) -> int:
        disk = self._disk
        path = self._layout.lock
        # Opened, not created again: a file that another owner has locked must stay as it is.
        exists = disk.exists(path)
        descriptor = disk.open(path, writable=True) if exists else disk.create(path, 0)
        if not disk.lock(descriptor):
            disk.close(descriptor)
            raise StoreInUse(path)
        return descriptor


def is_ours(disk: Disk, layout: StoreLayout) -> bool:
    """Whether the last broker that wrote to the store was a Roquet broker."""
    if not disk.exists(layout.lock):
        return False
    descriptor = disk.open(layout.lock, writable=False)
    try:
        return disk.read(descriptor, 0, len(_OUR_CONTENT)) == _OUR_CONTENT
    finally:
        disk.close(descriptor)

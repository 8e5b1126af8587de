"""How a store is made where there is none: its names become safe together.

Each step of opening a store waits for the disk before the next one, because what lies there may be
worth something. Where nothing lies there, the order of the steps means nothing: whatever a power
cut leaves of them is an empty store. All of it has to be safe before the first message is, so each
directory is synced once, at the end.
"""

from pathlib import Path
from typing import final

from roquet.disk import Disk
from roquet.store.files.layout import StoreLayout


def is_new(disk: Disk, layout: StoreLayout) -> bool:
    """Whether there is nothing yet, but the state of a broker at most."""
    names = {entry.name for entry in disk.entries(layout.root)}
    return not disk.exists(layout.commit_log) and names <= {layout.config.name}


@final
class NamesLater:
    """A disk that does not sync directories before `settle` is called, and then each one once."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        # In the order in which they were to be synced.
        self._unsynced: dict[Path, None] | None = {}
        self.create = disk.create
        self.open = disk.open
        self.close = disk.close
        self.allocate = disk.allocate
        self.map = disk.map
        self.read = disk.read
        self.data_ranges = disk.data_ranges
        self.write = disk.write
        self.write_parts = disk.write_parts
        self.sync = disk.sync
        self.lock = disk.lock
        self.rename = disk.rename
        self.remove = disk.remove
        self.make_directory = disk.make_directory
        self.remove_directory = disk.remove_directory
        self.entries = disk.entries
        self.exists = disk.exists
        self.space = disk.space

    def sync_directory(self, path: Path) -> None:
        if self._unsynced is None:
            self._disk.sync_directory(path)
        else:
            self._unsynced[path] = None

    def settle(self) -> None:
        """Raises OSError; then nothing of the store is safe."""
        unsynced, self._unsynced = self._unsynced or {}, None
        for path in unsynced:
            self._disk.sync_directory(path)

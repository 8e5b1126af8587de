"""A disk without a disk: files are anonymous memory, and nothing is left of them.

For tests that make a store tens of thousands of times; making, opening and removing files
would be most of their time.
"""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from roquet.disk import DirectoryEntry, Space, SystemDisk


class RamDisk(SystemDisk):
    def __init__(self) -> None:
        # Names by directory, as texts: paths are slow keys. None is a directory.
        self._directories: dict[str, dict[str, int | None]] = {}

    def put(self, path: Path, content: bytes) -> None:
        self.make_directory(path.parent)
        descriptor = self.create(path, len(content))
        self.write(descriptor, 0, content)
        self.close(descriptor)

    def files(self) -> dict[Path, bytes]:
        """All there is."""
        return {
            Path(directory, name): self.read(descriptor, 0, os.fstat(descriptor).st_size)
            for directory, names in self._directories.items()
            for name, descriptor in names.items()
            if descriptor is not None
        }

    def create(self, path: Path, size: int) -> int:
        descriptor = os.memfd_create(path.name)
        os.ftruncate(descriptor, size)
        self._name(path, descriptor)
        return os.dup(descriptor)

    def open(self, path: Path, *, writable: bool) -> int:  # noqa: ARG002
        return os.dup(self._find(path))

    def sync(self, descriptor: int) -> None:
        pass

    def rename(self, source: Path, target: Path) -> None:
        descriptor = self._find(source)
        del self._directories[str(source.parent)][source.name]
        self._name(target, descriptor)

    def remove(self, path: Path) -> None:
        os.close(self._find(path))
        del self._directories[str(path.parent)][path.name]

    def make_directory(self, path: Path) -> None:
        if str(path) not in self._directories:
            self._directories[str(path)] = {}
            if path != path.parent:
                self.make_directory(path.parent)
                self._directories[str(path.parent)][path.name] = None

    def remove_directory(self, path: Path) -> None:
        if self._directories[str(path)]:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
        del self._directories[str(path)]
        del self._directories[str(path.parent)][path.name]

    def sync_directory(self, path: Path) -> None:
        pass

    def entries(self, path: Path) -> list[DirectoryEntry]:
        return sorted(
            DirectoryEntry(name, 0, 0, is_directory=True)
            if descriptor is None
            else DirectoryEntry(name, os.fstat(descriptor).st_size, 0, is_directory=False)
            for name, descriptor in self._directories.get(str(path), {}).items()
        )

    def exists(self, path: Path) -> bool:
        return path.name in self._directories.get(str(path.parent), ())

    def space(self, path: Path) -> Space:  # noqa: ARG002
        return Space(50, 50)

    def wipe(self) -> None:
        """Give back the memory; mappings and descriptors of others stay valid."""
        for names in self._directories.values():
            for descriptor in names.values():
                if descriptor is not None:
                    os.close(descriptor)
        self._directories.clear()

    def _find(self, path: Path) -> int:
        descriptor = self._directories.get(str(path.parent), {}).get(path.name)
        if descriptor is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return descriptor

    def _name(self, path: Path, descriptor: int) -> None:
        names = self._directories[str(path.parent)]
        replaced = names.get(path.name)
        if replaced is not None:
            os.close(replaced)
        names[path.name] = descriptor


@contextmanager
def ram_disk(files: Mapping[Path, bytes]) -> Iterator[RamDisk]:
    """With these files on it."""
    disk = RamDisk()
    try:
        for path, content in files.items():
            disk.put(path, content)
        yield disk
    finally:
        disk.wipe()

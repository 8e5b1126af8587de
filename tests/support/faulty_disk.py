"""A disk that loses power, fails syncs and runs full, on top of a real directory.

Programs work on the real files and mappings below `root`. Next to them the disk keeps what
would survive a power cut: contents as of the last `sync`, names as of the last
`sync_directory`. `cut_power` writes one possible outcome of a cut to another directory:
every page and every name that was not synced has made it, or has not, as `chance` decides.
"""

import errno
import mmap
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from roquet.disk import PAGE_SIZE, DirectoryEntry, Space, SystemDisk

SECTOR_SIZE = 512


class PowerCut(Exception):
    """Raised by every call after the moment chosen with `cut_after`."""


@dataclass
class _Contents:
    """What the platter has of one file."""

    durable: bytes = b""
    # By position, what the kernel dropped after a failed sync: it takes these pages for clean.
    dropped: dict[int, bytes] = field(default_factory=dict)
    was_synced: bool = False


@dataclass
class _Change:
    """A change of names that is not durable yet; None removes the name."""

    directories: set[Path]
    names: dict[Path, int | None]


@dataclass
class FaultyDisk:
    root: Path
    system: SystemDisk = field(default_factory=SystemDisk)
    is_full: bool = False
    has_no_descriptors: bool = False
    free_space: Space = field(default_factory=lambda: Space(50, 50))
    syncs: int = 0
    calls: int = 0
    directory_syncs_work: bool = True
    syncs_work: bool = True
    _sync_failures: int = 0
    _calls_left: int | None = None
    # Files and directories are numbered by us: the kernel gives the number of a removed file
    # to a new one, while the old one may still come back.
    _numbers: dict[int, int] = field(default_factory=dict)  # by the kernel's
    _contents: dict[int, _Contents] = field(default_factory=dict)
    _names: dict[Path, int] = field(default_factory=dict)
    _changes: list[_Change] = field(default_factory=list)
    _new_numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        """What is there already is as safe as it can be."""
        for path in self.root.rglob("*"):
            number = self._names[path] = self._new_number(path)
            if path.is_file():
                self._contents[number] = _Contents(path.read_bytes(), was_synced=True)

    # What tests do to it.

    def fail_next_sync(self, count: int = 1) -> None:
        self._sync_failures = count

    def cut_after(self, calls: int) -> None:
        """Let `calls` more calls pass, then raise PowerCut for ever."""
        self._calls_left = calls

    def cut_power(self, target: Path, chance: Random) -> None:
        """Write to `target` what might be found under `root` when power is back."""
        names = self._surviving_names(chance)
        paths = {self._number(path): path for path in self.root.rglob("*")}
        for path, number in sorted(names.items()):
            if not all(parent in names for parent in _parents(path, self.root)):
                continue
            survivor = target / path.relative_to(self.root)
            if number in self._contents:
                survivor.write_bytes(self._surviving_content(number, paths.get(number), chance))
            else:
                survivor.mkdir(exist_ok=True)

    def unsynced(self) -> list[Path]:
        """Files whose content or name could be lost by a power cut now."""
        unsafe = [path for change in self._changes for path in change.names]
        for path, number in self._names.items():
            contents = self._contents.get(number)
            if contents is not None and path.is_file() and path.read_bytes() != contents.durable:
                unsafe.append(path)
        return sorted({path for path in unsafe if path.is_file()})

    def surviving_names(self) -> set[Path]:
        """The names that are there after a power cut that loses all it can."""
        return set(self._names)

    # What programs call.

    def create(self, path: Path, size: int) -> int:
        self._step()
        self._take_descriptor()
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        existed = path.exists()
        descriptor = self.system.create(path, size)
        if not existed:
            number = self._new_number(path)
            self._contents[number] = _Contents()
            self._change({path: number})
        return descriptor

    def open(self, path: Path, *, writable: bool) -> int:
        self._step()
        self._take_descriptor()
        return self.system.open(path, writable=writable)

    def open_kept(self, path: Path, *, writable: bool) -> int:
        self._step()
        self._take_descriptor()
        return self.system.open_kept(path, writable=writable)

    def close(self, descriptor: int) -> None:
        # Closing must work after a cut too, or tests would leak descriptors.
        self.system.close(descriptor)

    def allocate(self, descriptor: int, position: int, size: int) -> None:
        self._step()
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.system.allocate(descriptor, position, size)

    def map(self, descriptor: int, size: int, *, writable: bool) -> mmap.mmap:
        return self.system.map(descriptor, size, writable=writable)

    def read(self, descriptor: int, position: int, size: int) -> bytes:
        return self.system.read(descriptor, position, size)

    def fetch(self, descriptor: int, position: int, size: int) -> None:
        self.system.fetch(descriptor, position, size)

    def data_ranges(self, descriptor: int, position: int) -> list[tuple[int, int]]:
        return self.system.data_ranges(descriptor, position)

    def write(self, descriptor: int, position: int, data: bytes) -> None:
        self._step()
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.system.write(descriptor, position, data)
        contents = self._contents_of(descriptor)
        first_page = position - position % PAGE_SIZE
        for page in range(first_page, position + len(data), PAGE_SIZE):
            contents.dropped.pop(page, None)

    def write_parts(self, descriptor: int, position: int, parts: Sequence[memoryview]) -> None:
        self.write(descriptor, position, b"".join(parts))

    def sync(self, descriptor: int) -> None:
        self._step()
        self.syncs += 1
        contents = self._contents_of(descriptor)
        current = _content(descriptor)
        if self._sync_failures:
            self._sync_failures -= 1
            contents.dropped = dict(_pages(current))
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        if self.syncs_work:
            contents.durable = b"".join(_synced_pages(contents, current))
            contents.was_synced = True

    def lock(self, descriptor: int) -> bool:
        return self.system.lock(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        self.system.rename(source, target)
        self._change({source: None, target: self._number(target)})

    def remove(self, path: Path) -> None:
        self._step()
        self.system.remove(path)
        self._change({path: None})

    def make_directory(self, path: Path) -> None:
        self._step()
        missing = [path, *path.parents]
        missing = [each for each in missing if not each.exists()]
        self.system.make_directory(path)
        for each in reversed(missing):
            self._change({each: self._new_number(each)})

    def remove_directory(self, path: Path) -> None:
        self._step()
        self.system.remove_directory(path)
        self._change({path: None})

    def sync_directory(self, path: Path) -> None:
        self._step()
        self._take_descriptor()
        path.stat()  # as the real one, it knows nothing of what is not there
        if not self.directory_syncs_work:
            return
        touched: set[Path] = set()
        pending: list[_Change] = []
        durable: list[_Change] = []
        for change in reversed(self._changes):
            # What happened to a name before goes with what happened to it last.
            if path in change.directories or touched & change.names.keys():
                touched |= change.names.keys()
                durable.append(change)
            else:
                pending.append(change)
        for change in reversed(durable):
            self._names = _changed(self._names, change)
        self._changes = pending[::-1]

    def entries(self, path: Path) -> list[DirectoryEntry]:
        return self.system.entries(path)

    def exists(self, path: Path) -> bool:
        return self.system.exists(path)

    def space(self, path: Path) -> Space:
        path.stat()  # as the real one, it knows nothing of what is not there
        return Space(95, 5) if self.is_full else self.free_space

    # How it works.

    def _take_descriptor(self) -> None:
        if self.has_no_descriptors:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def _step(self) -> None:
        self.calls += 1
        if self._calls_left is not None:
            self._calls_left -= 1
            if self._calls_left < 0:
                raise PowerCut

    def _change(self, names: dict[Path, int | None]) -> None:
        self._changes.append(_Change({path.parent for path in names}, names))

    def _surviving_names(self, chance: Random) -> dict[Path, int]:
        names = self._names
        # A journal keeps the order: what survives of the changes is the beginning.
        for change in self._changes[: chance.randint(0, len(self._changes))]:
            names = _changed(names, change)
        return names

    def _surviving_content(self, number: int, path: Path | None, chance: Random) -> bytes:
        contents = self._contents[number]
        if path is None:
            return contents.durable
        current = path.read_bytes()
        if not contents.was_synced and chance.random() < 0.2:
            return b""
        pages = []
        for position, new in _pages(current):
            old = _page(contents.durable, position, len(new))
            pages.append(new if new == old else _surviving_page(old, new, chance))
        return b"".join(pages)

    def _contents_of(self, descriptor: int) -> _Contents:
        return self._contents[self._numbers[os.fstat(descriptor).st_ino]]

    def _number(self, path: Path) -> int:
        return self._numbers[path.stat().st_ino]

    def _new_number(self, path: Path) -> int:
        number = self._numbers[path.stat().st_ino] = next(self._new_numbers)
        return number


def _changed(names: dict[Path, int], change: _Change) -> dict[Path, int]:
    changed = names | {path: number for path, number in change.names.items() if number is not None}
    for path, number in change.names.items():
        if number is None:
            changed.pop(path, None)
    return changed


def _parents(path: Path, root: Path) -> Iterator[Path]:
    for parent in path.parents:
        if parent == root:
            return
        yield parent


def _content(descriptor: int) -> bytes:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def _page(content: bytes, position: int, size: int) -> bytes:
    return content[position : position + size].ljust(size, b"\0")


def _pages(content: bytes) -> Iterator[tuple[int, bytes]]:
    for position in range(0, len(content), PAGE_SIZE):
        yield position, content[position : position + PAGE_SIZE]


def _synced_pages(contents: _Contents, current: bytes) -> Iterator[bytes]:
    for position, page in _pages(current):
        if contents.dropped.get(position) == page:
            yield _page(contents.durable, position, len(page))
        else:
            yield page


def _surviving_page(old: bytes, new: bytes, chance: Random) -> bytes:
    """The old page, the new one, or some sectors of each."""
    fate = chance.random()
    if fate < 0.4:
        return old
    if fate < 0.8:
        return new
    return b"".join(
        (new if chance.random() < 0.5 else old)[position : position + SECTOR_SIZE]
        for position in range(0, len(new), SECTOR_SIZE)
    )

"""The file system, in one place: the seam at which tests lose power, fill disks and fail syncs.

Everything that reads, writes or syncs a file gets a `Disk`. It raises nothing but OSError; the
packages above turn that into their own errors. Descriptors are integers.
"""

import errno
import fcntl
import mmap
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from pathlib import Path
from threading import Lock
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from roquet.process_limits import KEPT_FILES, is_short_of_descriptors

PAGE_SIZE: Final = 4096
# What is fetched and not looked at is read into so much memory.
_FETCHED_SIZE: Final = 64 << 10
DIRECTORY_MODE: Final = 0o700
FILE_MODE: Final = 0o600
# The system takes no more in one call: IOV_MAX.
_PARTS_MAX: Final = 1024
_DIRECTORY_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class DirectoryEntry(NamedTuple):
    """One entry of a directory."""

    name: str
    size: int
    modified_ms: int
    is_directory: bool


class Space(msgspec.Struct, frozen=True):
    used: int
    usable: int

    @property
    def used_percent(self) -> int:
        """Rounded up, of what this user could have, as `df` and Apache count it."""
        whole = self.used + self.usable
        return ceil(100 * self.used / whole) if whole else 100


class Disk(Protocol):
    def create(self, path: Path, size: int) -> int:
        """A descriptor of a file of `size` zero bytes; an existing file is replaced."""

    def open(self, path: Path, *, writable: bool) -> int: ...

    def open_kept(self, path: Path, *, writable: bool) -> int:
        """The same for one of many files that stay open and are mapped.

        Such files are bounded: they raise OSError while others still find descriptors and mappings;
        see `process_limits`.
        """

    def close(self, descriptor: int) -> None: ...

    def allocate(self, descriptor: int, position: int, size: int) -> None:
        """Allocate this range: later writes to it cannot run out of space."""

    def map(self, descriptor: int, size: int, *, writable: bool) -> mmap.mmap: ...

    def read(self, descriptor: int, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer at the end of the file."""

    def fetch(self, descriptor: int, position: int, size: int) -> None:
        """Bring these bytes into the page cache."""

    def data_ranges(self, descriptor: int, position: int) -> list[tuple[int, int]]:
        """Where, from `position` on, there may be something other than zeros.

        Space that was allocated but never written takes seconds to read, and no time to skip.
        """

    def write(self, descriptor: int, position: int, data: bytes) -> None: ...

    def write_parts(self, descriptor: int, position: int, parts: Sequence[memoryview]) -> None:
        """One after the other. Large writes are cheap: the kernel takes many pages at once."""

    def sync(self, descriptor: int) -> None:
        """Return when content and size of the file survive a power cut."""

    def lock(self, descriptor: int) -> bool:
        """Lock the file for this process until the descriptor is closed; False if it is locked."""

    def rename(self, source: Path, target: Path) -> None: ...

    def remove(self, path: Path) -> None: ...

    def make_directory(self, path: Path) -> None:
        """With its parents; it may exist."""

    def remove_directory(self, path: Path) -> None: ...

    def sync_directory(self, path: Path) -> None:
        """Return when the names in the directory survive a power cut."""

    def entries(self, path: Path) -> list[DirectoryEntry]:
        """Sorted by name; empty for a directory that does not exist."""

    def exists(self, path: Path) -> bool: ...

    def space(self, path: Path) -> Space: ...


def make_safe_directory(disk: Disk, path: Path) -> None:
    """Make a directory, with its parents, that survives a power cut."""
    missing = [each for each in (path, *path.parents) if not disk.exists(each)]
    disk.make_directory(path)
    for each in reversed(missing):
        disk.sync_directory(each.parent)


def write_file(disk: Disk, path: Path, content: bytes) -> None:
    """Create a file; return when its content, but not yet its name, survives a power cut."""
    descriptor = disk.create(path, 0)
    try:
        disk.write(descriptor, 0, content)
        disk.sync(descriptor)
    finally:
        disk.close(descriptor)


def replace_file(disk: Disk, path: Path, content: bytes, *, backup: Path | None = None) -> None:
    """Write a file atomically; return when it survives a power cut.

    A power cut meanwhile leaves the old content, or the new one. With `backup`, the old file gets
    that name, and is the only one between the two renames. Raises OSError.
    """
    temporary = path.with_name(path.name + ".tmp")
    make_safe_directory(disk, path.parent)
    write_file(disk, temporary, content)
    if backup is not None and disk.exists(path):
        disk.rename(path, backup)
    disk.rename(temporary, path)
    disk.sync_directory(path.parent)


def is_full(error: OSError) -> bool:
    """Whether `error` means that the disk, or this user's quota on it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


# The mapping outlives our descriptor without a copy of it; older Pythons always make one.
_MAP_OPTIONS: Final[dict[str, Any]] = {"trackfd": False} if sys.version_info >= (3, 13) else {}


class SystemDisk:
    """The real one.

    One descriptor is reserved for directories: they are opened only to be synced, and a process
    without descriptors must not have to choose between losing names and ending.
    """

    _spare: int | None = None
    _spare_lock: Final = Lock()

    def __del__(self) -> None:
        if self._spare is not None:
            os.close(self._spare)

    def create(self, path: Path, size: int) -> int:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            os.ftruncate(descriptor, size)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def open(self, path: Path, *, writable: bool) -> int:
        return os.open(path, (os.O_RDWR if writable else os.O_RDONLY) | os.O_CLOEXEC)

    def open_kept(self, path: Path, *, writable: bool) -> int:
        descriptor = self.open(path, writable=writable)
        try:
            KEPT_FILES.add(descriptor)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor

    def close(self, descriptor: int) -> None:
        KEPT_FILES.discard(descriptor)
        os.close(descriptor)

    def allocate(self, descriptor: int, position: int, size: int) -> None:
        os.posix_fallocate(descriptor, position, size)

    def map(self, descriptor: int, size: int, *, writable: bool) -> mmap.mmap:
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        is_kept = descriptor in KEPT_FILES
        if is_kept:
            KEPT_FILES.check_mapping()
        try:
            mapping = mmap.mmap(descriptor, size, access=access, **_MAP_OPTIONS)
        except ValueError as error:
            # The file is shorter than that.
            raise OSError(errno.EINVAL, str(error)) from None
        if is_kept:
            KEPT_FILES.mapped(mapping)
        return mapping

    def read(self, descriptor: int, position: int, size: int) -> bytes:
        return os.pread(descriptor, size, position)

    def fetch(self, descriptor: int, position: int, size: int) -> None:
        # One call for all, into the same memory: it is not looked at, and between two calls this
        # thread would wait for the interpreter.
        parts = [bytearray(_FETCHED_SIZE)] * -(-size // _FETCHED_SIZE)
        os.preadv(descriptor, parts, position)

    def data_ranges(self, descriptor: int, position: int) -> list[tuple[int, int]]:
        found = []
        try:
            while True:
                start = os.lseek(descriptor, position, os.SEEK_DATA)
                position = os.lseek(descriptor, start, os.SEEK_HOLE)
                found.append((start, position))
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
        return found

    def write(self, descriptor: int, position: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.pwrite(descriptor, rest, position)
            position += written
            rest = rest[written:]

    def write_parts(self, descriptor: int, position: int, parts: Sequence[memoryview]) -> None:
        for first in range(0, len(parts), _PARTS_MAX):
            some = parts[first : first + _PARTS_MAX]
            size = sum(map(len, some))
            written = os.pwritev(descriptor, some, position)
            if written < size:
                self.write(descriptor, position + written, b"".join(some)[written:])
            position += size

    def sync(self, descriptor: int) -> None:
        # Not `mmap.flush`: that one keeps every other Python thread waiting.
        os.fdatasync(descriptor)

    def lock(self, descriptor: int) -> bool:
        try:
            # A JVM sees only the record lock on the first byte. That one does not keep out a
            # second owner in this very process, so a lock of the open file is taken too.
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink()

    def make_directory(self, path: Path) -> None:
        if not path.is_dir():
            self.make_directory(path.parent)
            path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)

    def remove_directory(self, path: Path) -> None:
        path.rmdir()

    def sync_directory(self, path: Path) -> None:
        descriptor = self._open_directory(path)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            self._open_spare()

    def _open_directory(self, path: Path) -> int:
        try:
            return os.open(path, _DIRECTORY_FLAGS)
        except OSError as error:
            if not is_short_of_descriptors(error):
                raise
            # Two threads may lack one at the same time.
            with self._spare_lock:
                if self._spare is None:
                    raise
                os.close(self._spare)
                self._spare = None
                return os.open(path, _DIRECTORY_FLAGS)

    def _open_spare(self) -> None:
        with self._spare_lock, suppress(OSError):
            if self._spare is None:
                self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def entries(self, path: Path) -> list[DirectoryEntry]:
        try:
            with os.scandir(path) as items:
                listed = list(items)
        except FileNotFoundError:
            return []
        return sorted(filter(None, map(_entry_of, listed)))

    def exists(self, path: Path) -> bool:
        return path.exists()

    def space(self, path: Path) -> Space:
        status = os.statvfs(path)
        return Space(
            used=(status.f_blocks - status.f_bfree) * status.f_frsize,
            usable=status.f_bavail * status.f_frsize,
        )


def _entry_of(item: os.DirEntry[str]) -> DirectoryEntry | None:
    """None for what was removed since it was listed.

    A broken link raises: maybe a disk is missing, and its files must not be mistaken for files that
    never existed.
    """
    try:
        status = item.stat()
    except FileNotFoundError:
        if item.is_symlink():
            raise
        return None
    return DirectoryEntry(item.name, status.st_size, status.st_mtime_ns // 1_000_000, item.is_dir())

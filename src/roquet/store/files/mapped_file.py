"""Files of fixed size in memory: written through a mapping, synced through their descriptors."""

import mmap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import attrgetter
from pathlib import Path
from typing import Final, final

from roquet.disk import DirectoryEntry, Disk
from roquet.store.errors import BadStoreDirectory
from roquet.store.files.layout import aside, file_name, start_of
from roquet.store.files.zeros import is_zero

_CHUNK_SIZE: Final = 1 << 20
_ZEROS: Final = bytes(_CHUNK_SIZE)
# At most this much is given back at a time: other threads have to wait meanwhile.
_GIVEN_BACK_SIZE: Final = 16 << 20
# At most this much is stripped of zeros byte by byte.
_STRIPPED_SIZE: Final = 64
# Offsets are int64 in records and entries, and in compiled code. Names have room for more.
_OFFSET_MAX: Final = 2**63 - 1


@final
class MappedFile:
    """The bytes `start` to `end` of the address space that its directory is.

    It is opened at its first use, and mapped at the first use of `mapping`. A view of the mapping
    must not outlive the call that made it, because a mapping with views cannot be closed.
    """

    __slots__ = (
        "_descriptor",
        "_disk",
        "_is_one_of_many",
        "_is_writable",
        "_mapping",
        "_rests",
        "checksums_from",
        "end",
        "is_touched",
        "is_verified",
        "path",
        "reserved_size",
        "size",
        "start",
    )

    def __init__(
        self,
        disk: Disk,
        path: Path,
        start: int,
        size: int,
        *,
        is_writable: bool = True,
        is_one_of_many: bool = False,
    ) -> None:
        self._disk = disk
        # Those are opened only while enough descriptors are left for everything else.
        self._is_one_of_many = is_one_of_many
        self._is_writable = is_writable
        self._descriptor: int | None = None
        self._mapping: mmap.mmap | None = None
        # Whether it replaces a synced one, until it is opened.
        self._rests = False
        self.path = path
        self.start = start
        self.end = start + size
        self.size = size
        # How much of it has its space allocated.
        self.reserved_size = 0
        # Whether all its records were checked, or written, since it was opened.
        self.is_verified = False
        # Records before this byte of the address space may have been written without checksums.
        self.checksums_from = self.end
        # Whether the mapping was used since memory was given back.
        self.is_touched = False

    @property
    def mapping(self) -> mmap.mmap:
        self.is_touched = True
        if self._mapping is None:
            descriptor = self._open()
            self._mapping = self._disk.map(descriptor, self.size, writable=self._is_writable)
        return self._mapping

    def peek(self, position: int, size: int) -> bytes:
        """Bytes of it, without mapping it.

        For callers that need little of many files: a page fault reads the pages around it, too,
        and a file that was hardly written becomes megabytes of zeros.
        """
        if self._mapping is not None:
            return self._mapping[position : position + size]
        return self._disk.read(self._open(), position, size)

    def reserve(self, size: int, step: int) -> None:
        """Allocate the first `size` bytes and, if they are not yet, `step` bytes more.

        Writing to a hole of a mapped file on a full disk kills the process; this raises OSError.
        """
        if size > self.reserved_size:
            wanted = min(self.size, size + step)
            descriptor = self._open()
            with _naming(self.path, wanted - self.reserved_size):
                self._disk.allocate(descriptor, self.reserved_size, wanted - self.reserved_size)
            self.reserved_size = wanted

    def write_parts(self, position: int, parts: Sequence[memoryview]) -> None:
        """Write to reserved space, not through the mapping. Raises OSError.

        Large amounts are cheaper this way: no page is zeroed, and faulted in, before it is written.
        """
        self._disk.write_parts(self._open(), position, parts)

    @property
    def is_open(self) -> bool:
        return self._descriptor is not None

    def sync(self) -> None:
        """Return when everything written before the call survives a power cut."""
        if self._descriptor is not None:
            self._disk.sync(self._descriptor)
        elif not self._rests:
            self._sync_unopened()

    def unopened(self) -> "MappedFile":
        """The same file again, to replace this one, which can be closed then.

        This one is synced, and not written any more.
        """
        file = MappedFile(
            self._disk,
            self.path,
            self.start,
            self.size,
            is_writable=self._is_writable,
            is_one_of_many=self._is_one_of_many,
        )
        file.reserved_size = self.reserved_size
        file._rests = True
        return file

    def give_back_memory(self, end: int, *, start: int = 0) -> None:
        """Release the bytes before `end` from the memory of this process.

        They stay in the page cache of the kernel, written to disk or not, and are mapped from
        there when they are read.
        """
        self.is_touched = False
        if self._mapping is not None:
            first = start + -start % mmap.PAGESIZE
            for each in range(first, end, _GIVEN_BACK_SIZE):
                size = min(_GIVEN_BACK_SIZE, end - each)
                self._mapping.madvise(mmap.MADV_DONTNEED, each, size)

    def load_around(self, start: int, end: int, *, is_wanted: bool) -> None:
        """Whether a page fault between these positions loads the pages around it, too.

        That is the default, and includes pages that were never written: megabytes of zeros.
        """
        first = start - start % mmap.PAGESIZE
        if self._mapping is not None and first < end:
            advice = mmap.MADV_NORMAL if is_wanted else mmap.MADV_RANDOM
            # Without a mapping to spare for one more part, everything works, only slower.
            with suppress(OSError):
                self._mapping.madvise(advice, first, end - first)

    def fetch(self, position: int, size: int) -> None:
        """Bring a part into the page cache, and not into the memory of this process.

        Raises OSError.
        """
        self._disk.fetch(self._open(), position, size)

    def is_zero_from(self, position: int) -> bool:
        return not any(True for _ in self.written_chunks(position))

    def written_end(self, position: int) -> int:
        """Just past the last byte that is not zero; `position` if only zeros follow."""
        for start, end in self.written_chunks(position):
            position = start + len(self.mapping[start:end].rstrip(b"\0"))
        return position

    def zero_from(self, position: int) -> None:
        """Raises OSError."""
        descriptor = self._open()
        for start, end in self.written_chunks(position):
            # Not through the mapping: the chunk may have holes, and writing to one needs space.
            self._disk.write(descriptor, start, _ZEROS[: end - start])

    def write_again(self, start: int, end: int) -> None:
        """Write the same bytes again, so that the next sync writes them. Raises OSError."""
        descriptor = self._open()
        for position in range(start, end, _CHUNK_SIZE):
            chunk = self.peek(position, min(_CHUNK_SIZE, end - position))
            self._disk.write_parts(descriptor, position, (memoryview(chunk),))

    def data_ranges(self) -> list[tuple[int, int]]:
        """Where there may be something other than zeros; see `Disk.data_ranges`."""
        return self._disk.data_ranges(self._open(), 0)

    def written_bytes(self) -> bytes:
        """All bytes up to the last one that is not zero, without mapping the file."""
        parts: list[bytes] = []
        end = 0
        for start, data_end in self.data_ranges():
            parts += bytes(start - end), self.peek(start, data_end - start)
            end = data_end
        found = b"".join(parts)
        # Most of it is space that was allocated ahead, and stripping it byte by byte is slow.
        size = len(found)
        while size > _STRIPPED_SIZE and is_zero(found, size // 2, size):
            size //= 2
        return found[:size].rstrip(b"\0")

    def written_chunks(self, position: int) -> Iterator[tuple[int, int]]:
        """The ranges from `position` on that are not all zero, in chunks."""
        # All ranges are listed before the first byte is read: read-ahead would turn unwritten
        # space into pages that look written.
        for range_start, range_end in self._disk.data_ranges(self._open(), position):
            for start in range(range_start, range_end, _CHUNK_SIZE):
                end = min(start + _CHUNK_SIZE, range_end)
                if not is_zero(self.mapping, start, end):
                    yield start, end

    def close(self) -> None:
        if self._mapping is not None:
            self._mapping.close()
            self._mapping = None
        if self._descriptor is not None:
            self._disk.close(self._descriptor)
            self._descriptor = None

    def let_go(self) -> None:
        """Like `close`, but views of the mapping stay valid until the last of them is gone."""
        self._mapping = None
        self.close()

    def remove(self) -> None:
        self.unlink()
        self.close()

    def unlink(self) -> None:
        """Remove the name. `close` frees the space, which may take long."""
        self._disk.remove(self.path)

    def _sync_unopened(self) -> None:
        """It is not kept open: the owner may be opening it in another thread."""
        try:
            descriptor = self._disk.open(self.path, writable=self._is_writable)
        except FileNotFoundError:
            # The owner has removed it: it will not be read again.
            return
        try:
            self._disk.sync(descriptor)
        finally:
            self._disk.close(descriptor)

    def _open(self) -> int:
        if self._descriptor is None:
            disk = self._disk
            open_file = disk.open_kept if self._is_one_of_many else disk.open
            self._descriptor = open_file(self.path, writable=self._is_writable)
            self._rests = False
        return self._descriptor


def create_file(
    disk: Disk,
    path: Path,
    start: int,
    size: int,
    *,
    allocated_size: int = 0,
    is_one_of_many: bool = False,
) -> MappedFile:
    """A new file of zeros, visible only in full size.

    It is not durable until it and its directory are synced. Raises OSError, leaving no file.
    """
    disk.make_directory(path.parent)
    unfinished = aside(path.parent)
    with _naming(path, allocated_size or size):
        descriptor = disk.create(unfinished, size)
    try:
        if allocated_size:
            with _naming(path, allocated_size):
                disk.allocate(descriptor, 0, allocated_size)
    except OSError:
        # What was allocated so far is exactly what a full disk is short of.
        disk.remove(unfinished)
        raise
    finally:
        disk.close(descriptor)
    disk.rename(unfinished, path)
    file = MappedFile(disk, path, start, size, is_one_of_many=is_one_of_many)
    file.reserved_size = allocated_size
    return file


@contextmanager
def _naming(path: Path, size: int) -> Iterator[None]:
    """Add the file and the size to an error of the block."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, f"{error.strerror}, {size} bytes wanted", str(path)) from None


_start_of_file = attrgetter("start")


@final
class MappedRun:
    """Consecutive mapped files of one directory as one growing address space.

    The owner of the run (commit log, consume queue) knows where the written part ends.
    """

    __slots__ = ("_disk", "_is_one_of_many", "directory", "file_size", "files")

    def __init__(
        self, disk: Disk, directory: Path, file_size: int, *, is_one_of_many: bool = False
    ) -> None:
        """Files of a run that is one of many are bounded; see `Disk.open_kept`."""
        self._disk = disk
        self._is_one_of_many = is_one_of_many
        self.directory = directory
        self.file_size = file_size
        # Sorted, and always the same list. Other threads may copy it at any time.
        self.files: Final[list[MappedFile]] = []

    def load(self, *, is_writable: bool = True) -> None:
        """Find the files. Raises BadStoreDirectory if one has another size or a strange name."""
        entries = [each for each in self._disk.entries(self.directory) if not each.is_directory]
        if entries and entries[-1].size == 0:
            # Apache crashed while creating a file, or is creating it now.
            empty = entries.pop()
            if is_writable:
                self._disk.remove(self.directory / empty.name)
        self.files[:] = [self._file(each, is_writable=is_writable) for each in entries]

    def file_at(self, offset: int) -> MappedFile | None:
        """The file that holds this byte; None if there is none."""
        files = self.files
        # Most reads are in the last one.
        if files and offset >= files[-1].start:
            file = files[-1]
        else:
            index = bisect_right(files, offset, key=_start_of_file) - 1
            if index < 0:
                return None
            file = files[index]
        return file if offset < file.end else None

    def files_between(self, start: int, end: int) -> list[MappedFile]:
        # A copy, because the owner may change the list while another thread syncs.
        return [file for file in tuple(self.files) if file.start < end and file.end > start]

    def create(self, start: int, allocated_size: int) -> MappedFile:
        """See `create_file`; the new file is not part of the run yet."""
        path = self.directory / file_name(start)
        return create_file(
            self._disk,
            path,
            start,
            self.file_size,
            allocated_size=allocated_size,
            is_one_of_many=self._is_one_of_many,
        )

    def cut(self, end: int, *, is_zero_behind: bool = False) -> None:
        """Remove the files from `end` on and zero what follows it in its file, unless it is.

        The tail is zeroed because records of equal size line up: old bytes could be taken for
        records after the next crash.
        """
        gone = [file for file in self.files if file.start >= end]
        del self.files[len(self.files) - len(gone) :]
        for file in reversed(gone):
            file.remove()
        if gone:
            # Files that reappear after a power cut would be taken for what follows.
            self._disk.sync_directory(self.directory)
        if self.files and end < self.files[-1].end and not is_zero_behind:
            self.files[-1].zero_from(end - self.files[-1].start)

    def sync(self, start: int, end: int) -> None:
        for file in self.files_between(start, end):
            file.sync()

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.files.clear()

    def _file(self, entry: DirectoryEntry, *, is_writable: bool) -> MappedFile:
        path = self.directory / entry.name
        start = start_of(entry.name)
        if start is None or start % self.file_size or start + self.file_size > _OFFSET_MAX:
            raise BadStoreDirectory(path, f"not the name of a file of {self.file_size} bytes")
        if entry.size != self.file_size:
            raise BadStoreDirectory(
                path, f"has {entry.size} bytes, but {self.file_size} are configured"
            )
        return MappedFile(
            self._disk,
            path,
            start,
            entry.size,
            is_writable=is_writable,
            is_one_of_many=self._is_one_of_many,
        )

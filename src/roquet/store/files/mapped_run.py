"""Consecutive mapped files of one directory as one growing address space.

The owner of the run (commit log, consume queue) knows where the written part ends.
"""

from bisect import bisect_right
from operator import attrgetter
from pathlib import Path
from typing import Final, final

from roquet.disk import DirectoryEntry, Disk
from roquet.store.errors import BadStoreDirectory
from roquet.store.files.layout import file_name, start_of
from roquet.store.files.mapped_file import MappedFile, create_file

_start_of_file = attrgetter("start")


@final
class MappedRun:
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
        if start is None or start % self.file_size:
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

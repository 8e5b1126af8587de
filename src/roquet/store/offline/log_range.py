"""A part of the log, read by a task of its own that has the files but not the queues.

It opens only the files of its segments. The result is whole good records as stored, many at once,
and damaged ranges. Both are found by compiled code, and neither depends on where the log was split
into parts.
"""

import errno
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from roquet.disk import Disk, SystemDisk
from roquet.store.errors import BadRecord, BadStoreDirectory, DamagedRange, FileGone
from roquet.store.files.mapped_file import MappedFile
from roquet.store.log_scan import (
    NOTHING_KNOWN,
    ChecksummedRanges,
    find_record,
    is_blank,
    read_log_record,
)
from roquet.store.record_scan import scan_whole

# About this many bytes are yielded at once.
RUN_SIZE: Final = 4 << 20

# The errors of a file that was removed meanwhile, on this host and on a shared disk.
_GONE: Final = frozenset((errno.ENOENT, errno.ESTALE))


class LogFile(NamedTuple):
    """One file of the commit log: its bytes are the physical offsets `start` to `end`."""

    path: Path
    start: int
    end: int


class Segment(NamedTuple):
    """A part of one file. A record starts at its start, and none crosses its end."""

    start: int
    end: int
    # Of its first record; None if that is damaged.
    store_time: int | None
    # None if the file of these offsets is missing, with others after it.
    file: LogFile | None

    @property
    def size(self) -> int:
        """How many bytes have to be read."""
        return 0 if self.file is None else self.end - self.start


class Run(msgspec.Struct, frozen=True):
    """Consecutive good records."""

    physical_offset: int  # of the first
    records: memoryview  # of the mapped file, which stays as long as the view is used
    count: int

    @property
    def end(self) -> int:
        return self.physical_offset + len(self.records)


class StoreRange(msgspec.Struct, frozen=True):
    """The records of a snapshot whose first byte is at `begin` or after it, and before `end`."""

    begin: int
    end: int
    segments: tuple[Segment, ...]
    # Where a record without a checksum is damaged.
    checksummed: ChecksummedRanges = NOTHING_KNOWN

    @property
    def files(self) -> list[LogFile]:
        """Those that are opened, one at a time."""
        return list(dict.fromkeys(each.file for each in self.segments if each.file is not None))

    def read(
        self, *, check: bool = True, run_size: int = RUN_SIZE, disk: Disk | None = None
    ) -> Generator[Run | DamagedRange, None, None]:
        """Everything in the order of the log; a damaged range belongs to where it starts.

        Without `check` no checksum is computed, which is three times as fast: then a record is good
        when its sizes add up and it lies where it claims to, and a flipped byte of a body goes
        unnoticed. Raises FileGone, BadStoreDirectory, or OSError.
        """
        disk = disk or SystemDisk()
        for file, segments in groupby(self.segments, attrgetter("file")):
            if file is None:
                for each in segments:
                    if self.begin <= each.start:
                        yield DamagedRange(each.start, each.end, "a file is missing")
                continue
            with _opened(disk, file) as mapped:
                found = (
                    part
                    for each in segments
                    for part in _Walk(
                        mapped, each, self.checksummed, run_size, check=check
                    ).between(self.begin, self.end)
                )
                yield from _joined(mapped, found, run_size)


class _Good(NamedTuple):
    """Bytes of a file that are good records."""

    start: int
    end: int
    record_count: int


class _Walk:
    """Walks through one segment, from its start on."""

    def __init__(
        self,
        file: MappedFile,
        segment: Segment,
        checksummed: ChecksummedRanges,
        run_size: int,
        *,
        check: bool,
    ) -> None:
        self._file = file
        self._checksummed = checksummed
        self._end = segment.end - file.start
        self._run_size = run_size
        self._check = check
        self._position = segment.start - file.start

    def between(self, begin: int, end: int) -> Iterator[_Good | DamagedRange]:
        file_start = self._file.start
        # Records before `begin` belong to another range; only their end is needed.
        for _ in self._up_to(min(begin - file_start, self._end)):
            pass
        yield from self._up_to(min(end - file_start, self._end))

    def _up_to(self, stop: int) -> Iterator[_Good | DamagedRange]:
        """All that starts before a byte of the file."""
        while self._position < stop:
            start = self._position
            count, fault = self._take_good(stop)
            if count:
                yield _Good(start, self._position, count)
            if fault is not None:
                yield self._pass_over(fault)
            elif not count:
                # Nothing follows the blank.
                self._position = self._end

    def _take_good(self, stop: int) -> tuple[int, str | None]:
        """Go past good records; their count, and what is wrong with what follows, if anything."""
        start = self._position
        count = 0
        while self._position < min(stop, start + self._run_size):
            part = self._checksummed.part_at(self._file.start + self._position)
            size_max = min(start + self._run_size, part.end - self._file.start) - self._position
            found, self._position, fault = scan_whole(
                self._file.mapping,
                self._file.start,
                self._position,
                stop,
                self._end,
                size_max,
                self._check,
                part.must_have,
            )
            count += found
            if fault is None and not found:
                found, fault = self._take_odd()
                count += found
            if not found:
                return count, fault
        return count, None

    def _take_odd(self) -> tuple[int, str | None]:
        """Go past one record of a rare kind; its count, which is 0 for the blank at the end."""
        file, position = self._file, self._position
        if is_blank(file, position):
            return 0, None
        try:
            must_have = self._checksummed.part_at(file.start + position).must_have
            record = read_log_record(file.mapping, position, file.start, must_have)
        except BadRecord as bad:
            return 0, bad.reason
        if position + record.size > self._end:
            return 0, "extends past the known start of the next record"
        self._position += record.size
        return 1, None

    def _pass_over(self, reason: str) -> DamagedRange:
        """Go to the next good record."""
        file, start = self._file, self._position
        after = find_record(file, start + 1, self._checksummed)
        self._position = self._end
        if after is not None:
            self._position = min(after.physical_offset - file.start, self._end)
        return DamagedRange(file.start + start, file.start + self._position, reason)


def _joined(
    file: MappedFile, found: Iterable[_Good | DamagedRange], run_size: int
) -> Iterator[Run | DamagedRange]:
    """Joins runs up to `run_size`: decoding is fast only for many records at once."""
    good: _Good | None = None
    for each in found:
        if isinstance(each, DamagedRange):
            if good is not None:
                yield _run(file, good)
                good = None
            yield each
        elif good is None:
            good = each
        elif good.end == each.start and each.end - good.start <= run_size:
            good = _Good(good.start, each.end, good.record_count + each.record_count)
        else:
            yield _run(file, good)
            good = each
    if good is not None:
        yield _run(file, good)


def _run(file: MappedFile, good: _Good) -> Run:
    records = memoryview(file.mapping)[good.start : good.end]
    return Run(file.start + good.start, records, good.record_count)


@contextmanager
def _opened(disk: Disk, file: LogFile) -> Iterator[MappedFile]:
    """Raises FileGone, BadStoreDirectory, or OSError."""
    size = file.end - file.start
    mapped = MappedFile(disk, file.path, file.start, size, is_writable=False)
    try:
        _ = mapped.mapping
    except OSError as error:
        if error.errno in _GONE:
            raise FileGone(file.path) from error
        if error.errno == errno.EINVAL:
            # No broker shortens a file: it is a copy, or being copied.
            reason = f"has fewer than the {size} bytes of the snapshot"
            raise BadStoreDirectory(file.path, reason) from error
        raise
    try:
        yield mapped
    finally:
        mapped.let_go()

"""All messages in the order of their arrival: records one after another in large files.

A record lies in one file. The last 8 bytes of a file are never used for records: they are
reserved for the blank that fills the space which was too small for the next record,

      0  int32  size of the blank, to the end of the file
      4  int32  magic of a blank

which is also what a file ends with if it is full to the last byte that may be used.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Final, final

from roquet.disk import Disk, make_safe_directory
from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record import MAGIC_BLANK
from roquet.protocol.messages.record_batches import RecordBatch
from roquet.store.errors import BadRecord, refusal_of
from roquet.store.files.mapped_file import MappedFile, MappedRun
from roquet.store.log_scan import (
    BLANK_SIZE_MIN,
    NOTHING_KNOWN,
    ChecksummedRanges,
    LogRecord,
    RecordPlaces,
    Stretch,
    find_record,
    read_log_record,
    scan_file,
    scan_file_places,
    scan_stretches,
)
from roquet.store.record_scan import scan_heads
from roquet.store.write_cursors import LogCursor

# How much of the end of the log is kept when memory is given back.
KEPT_SIZE: Final = 16 << 20

_NOTHING_HELD_BACK: Final = 2**63 - 1

_pack_blank_into = Struct(">ii").pack_into


@final
class CommitLog(LogCursor):
    """Written by one owner. `sync` and `make_next_file` are called by the flushing thread."""

    __slots__ = (
        "_disk",
        "_making",
        "_next_file",
        "_run",
        "checksummed",
    )

    def __init__(self, disk: Disk, directory: Path, file_size: int) -> None:
        self._disk = disk
        self._run = MappedRun(disk, directory, file_size)
        self.files = self._run.files
        self._next_file: MappedFile | None = None
        self._making = Lock()
        self.confirmed_end = _NOTHING_HELD_BACK
        # Where records must have checksums; see `expect_checksums`.
        self.checksummed = NOTHING_KNOWN

    @property
    def start(self) -> int:
        """The physical offset of the first byte."""
        return self._run.files[0].start if self._run.files else 0

    @property
    def file_size(self) -> int:
        return self._run.file_size

    @property
    def record_size_max(self) -> int:
        return self._run.file_size - BLANK_SIZE_MIN

    # Writing

    def append(
        self, draft: RecordDraft | RecordBatch, queue_offset: int, store_timestamp: int
    ) -> int:
        """Write one record, or several to one file; the physical offset of the first.

        Raises DiskFull or StoreUnavailable when a new file is needed and cannot be created, and
        TooLarge for what no file can hold. Then nothing has changed.
        """
        physical_offset = self.end
        end = physical_offset + draft.size
        if end > self.used_end:
            physical_offset = self._make_room(draft.size)
            end = physical_offset + draft.size
        assert self.mapping is not None, "the log was not resumed"
        position = physical_offset - self.file_start
        draft.write(self.mapping, position, queue_offset, physical_offset, store_timestamp)
        self.last_store_timestamp = store_timestamp
        self.end = end
        return physical_offset

    def write_received(self, physical_offset: int, parts: Sequence[memoryview]) -> None:
        """Write bytes of the master's log at or after `end`, within one file; see `ReplicaLog`.

        Raises DiskFull or StoreUnavailable when a new file is needed and cannot be created.
        """
        if physical_offset == self.files_end:
            with self._making:
                self._go_on(self._new_file(physical_offset))
        # Not always the last file: bytes past the end of the log may be sent again.
        file = self._run.file_at(physical_offset)
        assert file is not None
        try:
            file.write_parts(physical_offset - file.start, parts)
        except OSError as error:
            raise refusal_of(error) from error

    def start_at(self, physical_offset: int) -> list[MappedFile]:
        """Let a log without records start elsewhere; the caller closes the files it had.

        Raises DiskFull or StoreUnavailable; then `resume` has to be tried again.
        """
        with self._making:
            gone = self._run.files[:]
            self._run.files.clear()
            if self._next_file is not None:
                gone.append(self._next_file)
                self._next_file = None
            for file in gone:
                file.unlink()
        # In this order, for the thread that syncs what lies between them.
        self.synced_end = physical_offset
        self.end = physical_offset
        self.resume()
        return gone

    def make_next_file(self) -> None:
        """Create the next file before it is needed.

        A failure is reported when the file is really needed.
        """
        if self._next_file is not None or self.used_end - self.end > self._run.file_size // 2:
            return
        with self._making:
            if self._next_file is None:
                with suppress(OSError):
                    self._next_file = self._create_file(self.file_start + self._run.file_size)

    @property
    def unwritten_files(self) -> list[MappedFile]:
        """The last file, and the one that follows when it was created."""
        next_file = self._next_file
        return [*self._run.files[-1:], *([next_file] if next_file else ())]

    def sync(self) -> int:
        """Return when all bytes before the returned offset survive a power cut."""
        # Read before the sync: bytes appended during it may not be covered.
        end = self.end
        if end > self.synced_end:
            self._run.sync(self.synced_end, end)
            self.synced_end = end
        return end

    def give_back_memory(self) -> None:
        """Keep only the end of the log, which is read most, in the memory of this process."""
        for file in tuple(self._run.files):
            if file.end > self.end or file.is_touched:
                size = min(file.size, self.end - file.start - KEPT_SIZE)
                file.give_back_memory(size)
                file.load_around(0, size, is_wanted=True)

    # Reading

    def bytes_at(self, physical_offset: int, size: int) -> bytes | None:
        """Bytes of the log, unchecked; None if one file does not hold them all."""
        file = self._run.file_at(physical_offset)
        if file is None or size < 0 or physical_offset + size > min(file.end, self.end):
            return None
        position = physical_offset - file.start
        return file.mapping[position : position + size]

    def view_at(self, physical_offset: int, size_max: int) -> memoryview:
        """Bytes of one file, unchecked and not copied; empty if there are none.

        The caller releases the view at once: a file with views cannot be closed.
        """
        file = self._run.file_at(physical_offset)
        if file is None or physical_offset >= self.end:
            return memoryview(b"")
        position = physical_offset - file.start
        end = min(position + size_max, file.size, self.end - file.start)
        with memoryview(file.mapping) as whole:
            return whole[position:end]

    def file_at(self, physical_offset: int) -> MappedFile | None:
        return self._run.file_at(physical_offset)

    def record_at(self, physical_offset: int) -> LogRecord:
        """Raises BadRecord unless there is a good record at exactly this offset."""
        file = self._run.file_at(physical_offset)
        if file is None or physical_offset >= self.end:
            raise BadRecord(physical_offset, "not in the log")
        must_have = (
            physical_offset >= file.checksums_from
            and self.checksummed.part_at(physical_offset).must_have
        )
        position = physical_offset - file.start
        heads, _, _ = scan_heads(file.mapping, file.start, position, file.size, 1, must_have)
        if heads:
            return LogRecord(*heads[0])
        # Uncommon or bad: this one knows all kinds, and what is wrong with it.
        return read_log_record(file.mapping, position, file.start, must_have)

    def scan(self, start: int, end: int) -> Iterator[LogRecord]:
        """The records from the one at `start` on. Raises BadRecord at the first bad one."""
        for file in self._run.files_between(start, end):
            position = max(start - file.start, 0)
            last = min(end - file.start, file.size)
            yield from scan_file(file, position, last, self.checksummed)

    def stretches(
        self, start: int, end: int, checksummed: ChecksummedRanges | None = None
    ) -> Iterator[Stretch]:
        """The same records, many at once. Raises as `scan` does.

        `checksummed` replaces what is known about where records must have checksums.
        """
        checksummed = self.checksummed if checksummed is None else checksummed
        for file in self._run.files_between(start, end):
            position = max(start - file.start, 0)
            last = min(end - file.start, file.size)
            yield from scan_stretches(file, position, last, checksummed)

    def places(self, start: int, end: int, count_max: int) -> Iterator[RecordPlaces]:
        """Where the same records start, up to `count_max` at a time. Raises as `scan` does."""
        for file in self._run.files_between(start, end):
            position = max(start - file.start, 0)
            last = min(end - file.start, file.size)
            yield from scan_file_places(file, position, last, count_max, self.checksummed)

    def find_record(self, physical_offset: int) -> LogRecord | None:
        """The first good record at or after an offset, in whichever file."""
        for file in self._run.files_between(physical_offset, self.files_end):
            position = max(physical_offset - file.start, 0)
            record = find_record(file, position, self.checksummed)
            if record is not None:
                return record
        return None

    # Loading, cutting and deleting

    def load(self, *, is_writable: bool = True) -> None:
        """Find the files. Recovery finds where the records end. Raises BadStoreDirectory."""
        self._run.load(is_writable=is_writable)
        self.end = self.written_from = self.files_end

    def expect_checksums(self, checksummed: ChecksummedRanges) -> None:
        """Treat records without a checksum as damaged where all were written with one."""
        self.checksummed = checksummed
        for file in self._run.files:
            file.checksums_from = checksummed.first_between(file.start, file.end)

    @property
    def files_end(self) -> int:
        return self._run.files[-1].end if self._run.files else 0

    def written_end(self, physical_offset: int) -> int:
        """Just past the last byte that is not zero; the offset itself if only zeros follow."""
        for file in reversed(self._run.files_between(physical_offset, self.files_end)):
            position = max(physical_offset - file.start, 0)
            end = file.written_end(position)
            if end > position:
                return file.start + end
        return physical_offset

    def written_between(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """All bytes between two offsets, in chunks, without chunks of zeros."""
        for file in self._run.files_between(start, end):
            for first, last in file.written_chunks(max(start - file.start, 0)):
                if file.start + first < end:
                    yield file.start + first, file.mapping[first : min(last, end - file.start)]

    def cut(self, end: int, *, is_zero_behind: bool = False) -> None:
        """End the log here. Nothing after it is left.

        `is_zero_behind` skips the search for written bytes after it, which takes time.
        """
        self._run.cut(end, is_zero_behind=is_zero_behind)
        self.end = end

    def write_again(self, start: int) -> None:
        """Have the next sync write all from `start` on, whatever the kernel takes for written.

        When a sync fails, the kernel reports it once and forgets that the pages were never
        written. The next owner finds them in memory, and its sync would not write them.
        """
        for file in self._run.files_between(start, self.end):
            file.write_again(max(start - file.start, 0), min(self.end, file.end) - file.start)

    def resume(self) -> None:
        """Prepare for appending at `end`. Raises DiskFull or StoreUnavailable."""
        try:
            make_safe_directory(self._disk, self._run.directory)
            files = self._run.files
            if not files or self.end == files[-1].end:
                file_size = self._run.file_size
                files.append(self._create_file(self.end - self.end % file_size))
            files[-1].reserve(files[-1].size, files[-1].size)
            self._write_to(files[-1])
        except OSError as error:
            raise refusal_of(error) from error
        self.written_from = self.end

    def forget(self, count: int) -> list[MappedFile]:
        """Take the first files out of the log; the caller removes them."""
        assert count < len(self._run.files), "the last file is never forgotten"
        gone = self._run.files[:count]
        del self._run.files[:count]
        return gone

    def close(self) -> None:
        """An unused next file is removed, as in Apache: it would be mistaken for a written one."""
        self.file = self.mapping = None
        if self._next_file is not None:
            self._next_file.remove()
            self._next_file = None
        self._run.close()

    # How it works

    def _make_room(self, size: int) -> int:
        """Continue in the next file; its start."""
        if size > self.record_size_max:
            raise TooLarge("record", size, self.record_size_max)
        start = self.file_start + self._run.file_size
        # Held to the end: a thread that creates the next file meanwhile would create this one
        # again, in place of the one that is written to.
        with self._making:
            next_file = self._new_file(start)
            position = self.end - self.file_start
            assert self.mapping is not None, "the log was not resumed"
            _pack_blank_into(self.mapping, position, self._run.file_size - position, MAGIC_BLANK)
            self._go_on(next_file)
            self.end = start
        return start

    def _new_file(self, start: int) -> MappedFile:
        """The one that was created ahead of need, if any. Raises StoreUnavailable.

        It is mapped, so that nothing can fail when the log continues in it.
        """
        try:
            self._next_file = self._next_file or self._create_file(start)
            _ = self._next_file.mapping
        except OSError as error:
            raise refusal_of(error) from error
        return self._next_file

    def _go_on(self, file: MappedFile) -> None:
        self._next_file = None
        self._run.files.append(file)
        self._write_to(file)

    def _create_file(self, start: int) -> MappedFile:
        """A file that survives a power cut and has its space allocated."""
        file = self._run.create(start, allocated_size=self._run.file_size)
        try:
            # Opened before it is part of the log: without a descriptor the log would continue in a
            # file that cannot be written to.
            _ = file.mapping
            file.sync()
            self._disk.sync_directory(self._run.directory)
        except OSError:
            file.remove()
            raise
        file.is_verified = True
        file.checksums_from = self.checksummed.first_between(file.start, file.end)
        return file

    def _write_to(self, file: MappedFile) -> None:
        if self.file is not None:
            self.file.load_around(0, self.file.size, is_wanted=True)
        self.mapping = file.mapping
        # Where nothing was read ahead, the first byte of a page would wait until the kernel has
        # zeroed as many around it as the disk reads ahead: 18 ms for 8 MB.
        file.load_around(max(0, self.end - file.start), file.size, is_wanted=False)
        self.file = file
        self.file_start = file.start
        self.used_end = file.end - BLANK_SIZE_MIN

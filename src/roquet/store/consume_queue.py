"""One queue of a topic: its entries, one after another in files of one size.

    entry i, at byte 20 * i of the queue
      0  int64  physical offset of the record
      8  int32  size of the record
     12  int64  hash of the tag; the time of delivery in the queues of delayed messages

Zeros follow the last entry. A blank, offset 0 and the largest size, stands where there is no
message: before the first of a queue that starts in the middle of a file, and for a message that is
lost. The queue is a cache of the log: entries that cannot be right are cut off here and rebuilt by
recovery.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, final

from roquet.disk import Disk
from roquet.store.errors import BadStoreDirectory
from roquet.store.files.mapped_file import MappedFile, MappedRun
from roquet.store.queue_entries import count_before, leading_blanks, sound_count
from roquet.store.write_cursors import QueueCursor

BLANK_SIZE: Final = 2**31 - 1

_ENTRY: Final = Struct(">qiq")
ENTRY_SIZE: Final = _ENTRY.size
pack_entry: Final = _ENTRY.pack
pack_entry_into: Final = _ENTRY.pack_into
unpack_entries: Final = _ENTRY.iter_unpack
BLANK: Final = pack_entry(0, BLANK_SIZE, 0)

# How many bytes of a queue file are allocated at once: a broker can have thousands of queues, and
# most of them are short.
RESERVE_STEP: Final = 1 << 16
RESERVE_STEP_MAX: Final = 1 << 20
# At most this many files at the end are checked when a queue is loaded. The older ones were
# complete when these were created, and every entry is compared with its record when it is read.
CHECKED_FILES: Final = 3

# Past everything.
_NOWHERE: Final = 2**63


class QueueEntry(NamedTuple):
    physical_offset: int
    size: int
    tags_code: int

    @property
    def physical_end(self) -> int:
        return self.physical_offset + self.size

    @property
    def is_blank(self) -> bool:
        return self.physical_offset == 0 and self.size == BLANK_SIZE

    @staticmethod
    def unpack(entry: bytes) -> "QueueEntry":
        return QueueEntry(*_ENTRY.unpack(entry))


@final
class ConsumeQueue(QueueCursor):
    """Entries are appended by the one owner of the store.

    `sync` and `give_back_memory` may run in another thread.
    """

    __slots__ = (
        "_disk",
        "_found_end",
        "_has_new_file",
        "_is_damaged",
        "_is_unusable",
        "_run",
        "_synced_offset",
        "_written_from",
        "queue_id",
        "topic",
    )

    def __init__(
        self, disk: Disk, directory: Path, file_size: int, topic: bytes, queue_id: int
    ) -> None:
        # Apache rounds up, too.
        whole_size = -(-file_size // ENTRY_SIZE) * ENTRY_SIZE
        self._run = MappedRun(disk, directory, whole_size, is_one_of_many=True)
        self.files = self._run.files
        self._disk = disk
        self.topic = topic
        self.queue_id = queue_id
        self._synced_offset = 0
        # Entries that were dropped, and may be entered again, lie in the files up to here.
        self._found_end = 0
        # Whether anything else lies after that.
        self._is_damaged = False
        # The first offset that was written since the queue was loaded, or synced.
        self._written_from = _NOWHERE
        self._has_new_file = False
        # Whether the files found do not form a queue. They stay until the first `cut`.
        self._is_unusable = False

    # Writing

    def reserve(self, count: int = 1) -> None:
        """Allocate space for `count` entries. Raises OSError.

        For one entry this is needed only if `position` has reached `reserved_position`.
        """
        start = self.max_offset * ENTRY_SIZE
        end = start + count * ENTRY_SIZE
        files = self._run.files
        while not files or files[-1].end < end:
            self._add_file(files[-1].end if files else start)
        for file in self._run.files_between(start, end):
            size = min(end, file.end) - file.start
            # As much again as there is: busy queues allocate seldom, and others take little.
            file.reserve(size, min(max(RESERVE_STEP, size), RESERVE_STEP_MAX))
        file_now = self._run.file_at(start)
        assert file_now is not None
        self._written_from = min(self._written_from, self.max_offset)
        self._write_to(file_now)

    def append(self, physical_offset: int, size: int, tags_code: int) -> None:
        """Add the entry of `max_offset`; `position` is before `reserved_position`."""
        position = self.position
        pack_entry_into(self.mapping, position, physical_offset, size, tags_code)  # type: ignore[arg-type]
        self.position = position + ENTRY_SIZE
        self.max_offset += 1

    def append_many(self, entries: bytes) -> None:
        """Add packed entries, one after another.

        Dropped ones that still lie there are not written again. Raises OSError after some of
        them, unless `reserve` was called for all.
        """
        if self.max_offset < self._found_end:
            entries = self._pass_over_found(entries)
        while entries:
            if self.position == self.reserved_position:
                self.reserve()
            assert self.mapping is not None
            start = self.position
            fitting = entries[: self.reserved_position - start]
            self.position = start + len(fitting)
            self.mapping[start : self.position] = fitting
            self.max_offset += len(fitting) // ENTRY_SIZE
            entries = entries[len(fitting) :]

    def replace(self, offset: int, entry: QueueEntry) -> None:
        """Overwrite a wrong entry."""
        assert self.min_offset <= offset < self.max_offset
        file = self._run.file_at(offset * ENTRY_SIZE)
        assert file is not None
        pack_entry_into(file.mapping, offset * ENTRY_SIZE - file.start, *entry)
        self._synced_offset = min(self._synced_offset, offset)

    def append_blanks(self, max_offset: int) -> None:
        """Let the next entry have offset `max_offset`. Raises OSError."""
        if not self._run.files:
            self._begin(max_offset)
        while self.max_offset < max_offset:
            if self.position == self.reserved_position:
                self.reserve()
            self.append(0, BLANK_SIZE, 0)

    def sync(self) -> None:
        """Return when the entries that were there before the call survive a power cut."""
        # Both are read first: entries and files added from now on need another round.
        end = self.max_offset
        has_new_file, self._has_new_file = self._has_new_file, False
        if end == self._synced_offset and not has_new_file:
            return
        try:
            self._run.sync(self._synced_offset * ENTRY_SIZE, end * ENTRY_SIZE)
            if has_new_file:
                directory = self._run.directory
                for each in (directory, directory.parent, directory.parent.parent):
                    self._disk.sync_directory(each)
        except OSError:
            # It may be retried, if only a descriptor was missing.
            self._has_new_file |= has_new_file
            raise
        self._synced_offset = end
        self._written_from = _NOWHERE

    def give_back_memory(self) -> None:
        """Keep only the last file, which is read most, in the memory of this process."""
        for file in self._run.files[:-1]:
            if file.is_touched:
                file.give_back_memory(file.size)

    # Reading

    def entries(self, offset: int, count: int) -> bytes:
        """Up to `count` entries from `offset` on, as `unpack_entries` reads them.

        They end with their file; empty for an offset that does not exist.
        """
        count = min(count, self.max_offset - offset)
        start = offset * ENTRY_SIZE
        file = self._run.file_at(start)
        if file is None or count <= 0:
            return b""
        start -= file.start
        return file.mapping[start : min(start + count * ENTRY_SIZE, file.size)]

    def entry(self, offset: int) -> QueueEntry | None:
        return self._entry_at(offset) if offset < self.max_offset else None

    def next_file_offset(self, offset: int) -> int:
        """The first offset of the first file that starts after `offset`; else `max_offset`."""
        for file in self._run.files:
            if file.start > offset * ENTRY_SIZE:
                return file.start // ENTRY_SIZE
        return self.max_offset

    def offset_before(self, physical_limit: int) -> int:
        """Just past the last entry whose record ends at or before `physical_limit`."""
        high = self.max_offset
        step = 1
        # The limit is near the end, so the search steps back from there, doubling.
        while high > self.min_offset and self._is_behind(high - 1, physical_limit):
            high = max(high - step, self.min_offset)
            step *= 2
        low = high
        high = min(high + step, self.max_offset)
        while low < high:
            middle = (low + high) // 2
            if self._is_behind(middle, physical_limit):
                high = middle
            else:
                low = middle + 1
        return low

    # Loading, cutting and deleting

    def load(self, *, is_writable: bool = True) -> int | None:
        """Find the entries; drop them from the first one on that cannot be right.

        Returns the physical offset from which the log has to be dispatched again to restore
        them, None if nothing was wrong.
        """
        try:
            self._run.load(is_writable=is_writable)
            is_whole = all(before.end == after.start for before, after in pairwise(self._run.files))
        except BadStoreDirectory:
            is_whole = False
        if not is_whole:
            self._run.close()
            self._is_unusable = True
            return 0
        files = self._run.files
        if not files:
            return None
        first = files[max(0, len(files) - CHECKED_FILES)]
        entries = _entries_of(files[files.index(first) :])
        self.min_offset = files[0].start // ENTRY_SIZE
        if files[0].peek(0, ENTRY_SIZE) == BLANK:
            self.min_offset += leading_blanks(_entries_of(files[:1]))
        count = sound_count(entries)
        self._is_damaged = bool(entries[count * ENTRY_SIZE :].lstrip(b"\0"))
        if self._is_damaged:
            # Of two entries in the wrong order either may be the wrong one.
            count = max(0, count - 1)
        # What a killed process had written may be in the memory of the kernel only.
        self._synced_offset = first.start // ENTRY_SIZE
        self._cut_to(self._synced_offset + count)
        self._found_end = self.max_offset
        return self.last_physical_end() if self._is_damaged else None

    def last_physical_end(self) -> int:
        """Where the record of the last entry ends; 0 if there is none."""
        for entry in self._from_the_end():
            if not entry.is_blank:
                return entry.physical_end
        return 0

    def cut(self, physical_limit: int) -> None:
        """Drop the entries of records at and after `physical_limit`; see `wipe_dropped`."""
        if self._is_unusable:
            self.clear()
        last = self.entry(self.max_offset - 1)
        if last is not None and not last.is_blank and last.physical_offset < physical_limit:
            return
        for file in reversed(self._run.files):
            # Files after the last entry still exist, see `wipe_dropped`, but hold none.
            size = min(max(0, self.max_offset * ENTRY_SIZE - file.start), file.size)
            count = count_before(file.peek(0, size), physical_limit) if size else 0
            if count:
                self._cut_to(file.start // ENTRY_SIZE + count)
                return
        if self._run.files:
            self.min_offset = self._run.files[0].start // ENTRY_SIZE
            self._cut_to(self.min_offset)

    def drop_last(self) -> None:
        """Drop the last entry; see `wipe_dropped`."""
        self._cut_to(self.max_offset - 1)

    def dropped_entry(self) -> QueueEntry | None:
        """The entry after the last one, until `wipe_dropped`."""
        return self._entry_at(self.max_offset)

    def write_again(self, physical_limit: int) -> None:
        """Have the next sync write the entries of all records that end after the limit.

        The kernel may count them as written, even if that failed; see `CommitLog.write_again`.
        """
        offset = self.offset_before(physical_limit)
        self._written_from = min(self._written_from, offset)
        self._synced_offset = min(self._synced_offset, offset)
        start, end = offset * ENTRY_SIZE, self.max_offset * ENTRY_SIZE
        for file in self._run.files_between(start, end):
            file.write_again(max(start - file.start, 0), min(end, file.end) - file.start)

    def wipe_dropped(self, *, is_rest_synced: bool) -> None:
        """Zero the entries that were dropped and not entered again.

        Not done at once, because recovery enters most of them again, unchanged. Everything that was
        written meanwhile has to be synced; the rest too, unless it is known to be.
        """
        if self._is_damaged or self.max_offset < self._found_end:
            self._run.cut(self.max_offset * ENTRY_SIZE)
            self._is_damaged = False
        self._found_end = 0
        if is_rest_synced:
            self._synced_offset = min(self.max_offset, self._written_from)

    @property
    def is_written(self) -> bool:
        """Whether anything was written since the queue was loaded, or synced."""
        return self._written_from < _NOWHERE

    def forget(self, log_start: int) -> list[MappedFile]:
        """Move `min_offset` to the first entry whose record is still in the log.

        Files in front of it are taken out of the queue; the caller removes them.
        """
        # Most often it stays where it is, and a search in many queues takes long.
        if self._physical_offset_from(self.min_offset) < log_start:
            offsets = range(self.min_offset, self.max_offset)
            self.min_offset += bisect_left(offsets, log_start, key=self._physical_offset_from)
        files = self._run.files
        gone = [each for each in files[:-1] if each.end <= self.min_offset * ENTRY_SIZE]
        del files[: len(gone)]
        return gone

    def let_go_of_idle(self, *, is_urgent: bool = False) -> list[MappedFile]:
        """Release files that were not used since the last call; the caller closes them.

        If it is urgent, also those that were used. They are opened again on demand. Only synced
        ones: if the kernel cannot write the rest, it reports that to open descriptors only.
        """
        end = self.max_offset * ENTRY_SIZE
        # Read once, as the thread that syncs moves it on.
        synced_end = self._synced_offset * ENTRY_SIZE
        files = self._run.files
        gone = []
        for index, file in enumerate(files):
            if not file.is_open or min(file.end, end) > synced_end:
                continue
            if file.is_touched and not is_urgent:
                file.is_touched = False
                continue
            files[index] = file.unopened()
            gone.append(file)
        if gone and gone[-1].end >= end:
            self._leave_file()
        return gone

    def detach(self) -> list[MappedFile]:
        """Become empty. The files are handed to the caller, who removes them."""
        files = self._run.files[:]
        self._run.files.clear()
        self.min_offset = self.max_offset = self._synced_offset = self._found_end = 0
        self._is_damaged = False
        self._leave_file()
        return files

    def clear(self) -> None:
        """Remove everything, unknown files too. Only while no other thread uses the queue."""
        self._is_unusable = False
        for file in self.detach():
            file.close()
        directory = self._run.directory
        for entry in self._disk.entries(directory):
            if not entry.is_directory:
                self._disk.remove(directory / entry.name)

    def close_files(self) -> None:
        """They are opened again on demand. Only while no other thread uses the queue."""
        self._leave_file()
        for file in self._run.files:
            file.close()

    def close(self) -> None:
        self.mapping = None
        self._run.close()

    # How it works

    def _begin(self, offset: int) -> None:
        """Create the first file of a queue whose first entry is not the first of a file."""
        self._add_file(offset * ENTRY_SIZE)
        file = self._run.files[0]
        blank_size = offset * ENTRY_SIZE - file.start
        file.reserve(blank_size, RESERVE_STEP)
        file.mapping[:blank_size] = BLANK * (blank_size // ENTRY_SIZE)
        self.min_offset = self.max_offset = offset
        self._write_to(file)

    def _add_file(self, start: int) -> None:
        """Add the file in which the byte `start` of the queue lies."""
        file_size = self._run.file_size
        file = self._run.create(start - start % file_size, min(RESERVE_STEP, file_size))
        try:
            _ = file.mapping
        except OSError:
            # Without a descriptor it could not be synced either.
            file.remove()
            raise
        self._has_new_file = True
        self._run.files.append(file)

    def _write_to(self, file: MappedFile) -> None:
        if self.mapping is not file.mapping:
            self.mapping = file.mapping
            # Most queues are short, and there may be thousands. Full files are read as a whole.
            file.load_around(0, file.size, is_wanted=False)
            for full in self._run.files_between(file.start - 1, file.start):
                full.load_around(0, full.size, is_wanted=True)
                full.give_back_memory(full.size)
        self.position = self.max_offset * ENTRY_SIZE - file.start
        self.reserved_position = file.reserved_size - file.reserved_size % ENTRY_SIZE

    def _cut_to(self, max_offset: int) -> None:
        self._found_end = max(self._found_end, self.max_offset)
        self.max_offset = max_offset
        # New entries overwrite dropped ones, and all of them have to be synced.
        self._synced_offset = min(self._synced_offset, max_offset)
        self._leave_file()

    def _pass_over_found(self, entries: bytes) -> bytes:
        """Enter those that are in place already; returns the rest, to be written."""
        while entries and self.max_offset < self._found_end:
            start = self.max_offset * ENTRY_SIZE
            file = self._run.file_at(start)
            assert file is not None
            end = min(start + len(entries), self._found_end * ENTRY_SIZE, file.end)
            if file.peek(start - file.start, end - start) != entries[: end - start]:
                break
            self.max_offset = end // ENTRY_SIZE
            self._leave_file()
            entries = entries[end - start :]
        return entries

    def _leave_file(self) -> None:
        """The next append looks for its file."""
        self.mapping = None
        self.position = self.reserved_position = 0

    def _entry_at(self, offset: int) -> QueueEntry | None:
        """The bytes at the place of an offset, as an entry."""
        start = offset * ENTRY_SIZE
        file = self._run.file_at(start)
        if file is None:
            return None
        return QueueEntry.unpack(file.peek(start - file.start, ENTRY_SIZE))

    def _physical_offset_from(self, offset: int) -> int:
        """Of the message at an offset or, if it is lost or its entry damaged, of the next one."""
        for each in range(offset, self.max_offset):
            entry = self.entry(each)
            if entry is not None and not entry.is_blank and self._is_in_order(each, entry):
                return entry.physical_offset
        return _NOWHERE

    def _is_in_order(self, offset: int, entry: QueueEntry) -> bool:
        """Whether an entry fits its neighbours. If it does not, either may be the damaged one."""
        before, after = self.entry(offset - 1), self.entry(offset + 1)
        return (
            entry.physical_offset >= 0
            and (before is None or before.is_blank or before.physical_end <= entry.physical_offset)
            and (after is None or after.is_blank or entry.physical_end <= after.physical_offset)
        )

    def _is_behind(self, offset: int, physical_limit: int) -> bool:
        entry = self.entry(offset)
        # A blank has no place in the log, but precedes the entries that are not readable yet.
        return entry is not None and not entry.is_blank and entry.physical_end > physical_limit

    def _from_the_end(self) -> Iterator[QueueEntry]:
        for offset in range(self.max_offset - 1, self.min_offset - 1, -1):
            entry = self.entry(offset)
            if entry is not None:
                yield entry


def _entries_of(files: Sequence[MappedFile]) -> bytes:
    """The entries of consecutive files.

    Most files are short, and there may be thousands: the zeros at the end are not read.
    """
    *full, last = files
    written = last.written_bytes()
    return b"".join(
        [*(each.peek(0, each.size) for each in full), written, bytes(-len(written) % ENTRY_SIZE)]
    )

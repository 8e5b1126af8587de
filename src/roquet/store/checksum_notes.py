"""Where in the log our own records lie, which all have checksums; Apache ignores the file.

    checksummed.json   {"ranges": [[0, 4711]], "openFrom": 9000}

The last range starts at `openFrom` and still grows, so the file is written when a store changes
hands, and not at every start. If no other broker owned the store since (`store_lock.py`), it
extends to the end of the log. Otherwise it ends at the synced end of the checkpoint, or later, as
far as records with checksums are found.
"""

from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Final, final

import msgspec

from roquet.disk import Disk
from roquet.errors import RoquetError
from roquet.protocol.messages.record import CHECKSUM_SIZE
from roquet.state_file import BadStateFile, StateFile
from roquet.store.commit_log import CommitLog
from roquet.store.errors import BadRecord
from roquet.store.log_scan import CHECKSUM_MARK, NO_END, NOTHING_KNOWN, ChecksummedRanges

# With more changes of owner than this within the retention time, the oldest ranges are dropped.
RANGE_COUNT_MAX: Final = 1000
# At most this much is read to find where records with checksums end: a second or two.
_LOOK_SIZE_MAX: Final = 256 << 20


class _Notes(msgspec.Struct, rename="camel", frozen=True):
    ranges: tuple[tuple[int, int], ...] = ()
    # None if the last range is closed.
    open_from: int | None = None


class _BadNotes(RoquetError):
    """The content of the file is invalid."""


@final
class ChecksumNotes:
    """The file `checksummed.json`."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._file = StateFile(disk, path)
        self._notes = _Notes()

    def load(self, noted_end: int) -> ChecksummedRanges:
        """The recorded ranges; the last one may be empty, and is extended by `go_on`.

        `noted_end` is that of the checkpoint, or NO_END if the log has been ours since, and is to
        be read first: together with an older end, a newer file claims less than is true, and never
        more. Raises BadStateFile.
        """
        self._notes = self._file.load(_parse) or _Notes()
        start = self._notes.open_from
        if start is None:
            return ChecksummedRanges(self._notes.ranges)
        return ChecksummedRanges((*self._notes.ranges, (start, max(start, noted_end))))

    def forget(self) -> None:
        """Continue without notes that cannot be read. Raises StateNotSaved."""
        self._file.set_aside()
        self._notes = _Notes()

    def go_on(self, log: CommitLog, *, with_checksums: bool) -> None:
        """Record, before anything is appended, the ranges so far and whether a new one starts.

        Raises StateNotSaved.
        """
        known = list(_within(log.checksummed, log.start, log.end))
        if known:
            start, end = known[-1]
            known[-1] = (start, _seen_end(log, end, log.end))
        open_from = None
        if with_checksums:
            is_going_on = known and known[-1][1] == log.end
            open_from = known.pop()[0] if is_going_on else log.end
        closed = tuple(each for each in known if each[0] < each[1])[-RANGE_COUNT_MAX:]
        notes = _Notes(closed, open_from)
        if notes != self._notes:
            self._file.save(msgspec.json.encode(notes))
            self._notes = notes
        tail = () if open_from is None else ((open_from, NO_END),)
        log.expect_checksums(ChecksummedRanges((*closed, *tail)))


def still_true(noted: ChecksummedRanges, log: CommitLog) -> ChecksummedRanges:
    """The ranges that are still true when another broker owned the store meanwhile.

    Apache appends, which leaves earlier records as they were. But where it finds damage it cuts the
    log, and its next records replace ours. Then the end of a range is not what we left there, and
    only records that are found to have checksums count.
    """
    ranges = list(noted.ranges)
    for index in reversed(range(len(ranges))):
        start, end = ranges[index]
        if start < end and _ends_in_checksum(log, end):
            break
        ranges[index] = start, _seen_end(log, start, end)
    return ChecksummedRanges(tuple(ranges))


def load_checksummed(
    disk: Disk, path: Path, noted_end: int, log: CommitLog, *, is_ours: bool
) -> ChecksummedRanges:
    """For readers. Without readable notes, no record must have a checksum."""
    try:
        noted = ChecksumNotes(disk, path).load(noted_end)
    except BadStateFile:
        return NOTHING_KNOWN
    return noted if is_ours else still_true(noted, log)


def _within(known: ChecksummedRanges, start: int, end: int) -> Iterator[tuple[int, int]]:
    for range_start, range_end in known.ranges:
        range_start = min(max(range_start, start), end)
        yield range_start, max(range_start, min(range_end, end))


def _ends_in_checksum(log: CommitLog, end: int) -> bool:
    found = log.bytes_at(end - CHECKSUM_SIZE, CHECKSUM_SIZE)
    return found is not None and found.startswith(CHECKSUM_MARK)


def _seen_end(log: CommitLog, start: int, end: int) -> int:
    """How far records with checksums go. Bad ones are skipped, and prove nothing."""
    end = min(end, start + _LOOK_SIZE_MAX)
    expected = ChecksummedRanges(((start, end),))
    seen_end = position = start
    while position < end:
        try:
            for _ in log.stretches(position, end, expected):
                pass
        except BadRecord as bad:
            if bad.physical_offset > position:
                seen_end = bad.physical_offset
            if _is_good(log, bad.physical_offset):
                # It only lacks a checksum.
                return seen_end
            after = log.find_record(bad.physical_offset + 1)
            position = NO_END if after is None else after.physical_offset
        else:
            # After the last record there may be the blank that ends a file.
            return end
    return seen_end


def _is_good(log: CommitLog, physical_offset: int) -> bool:
    try:
        log.record_at(physical_offset)
    except BadRecord:
        return False
    return True


def _parse(content: bytes) -> _Notes:
    try:
        notes = msgspec.json.decode(content, type=_Notes)
    except msgspec.MsgspecError as error:
        raise _BadNotes(str(error)) from None
    last: float = 0
    open_from = inf if notes.open_from is None else notes.open_from
    for start, end in (*notes.ranges, (open_from, inf)):
        if not last <= start <= end:
            raise _BadNotes("its ranges are not in order")
        last = end
    return notes

"""Recovers a store when it is opened, whatever state it was left in.

The log is the truth. Its last part is read and every record checked: good records are kept, what
follows them is cut off and backed up, and the queues are made to agree with it. How much has to be
read depends on the state that the last owner left: after a clean shutdown the last files, after a
crash everything since the checkpoint, and more if a queue turns out to lack entries.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Final, NamedTuple, final

import msgspec

from roquet.store.checkpoint import Checkpoint
from roquet.store.commit_log import CommitLog
from roquet.store.consume_queue import ConsumeQueue
from roquet.store.dispatch import Dispatcher, EntriesMissing
from roquet.store.errors import BadRecord, DamagedRange
from roquet.store.log_scan import NO_END, LogRecord, Stretch
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.queues import ConsumeQueues
from roquet.store.recovery.queue_ends import QueueEnds

# A store that was closed is complete: only its end has to be found. Apache reads three files,
# which would take us ten seconds; the rest is checked when it is read.
CLEAN_SCAN_FILES: Final = 1
# This many queues have files open at once: entries of more are synced, and their files closed.
OPEN_QUEUE_COUNT_MAX: Final = 1000


class RecoveryReport(msgspec.Struct, frozen=True):
    was_clean: bool
    log_start: int
    log_end: int
    scanned_from: int
    record_count: int
    # Bytes past the end that were not zero, and are no longer in the log.
    cut_size: int
    cut_reason: str
    # Their backup; None without any, or without space for it.
    cut_path: Path | None
    damages: tuple[DamagedRange, ...]
    # Physical offsets of records that contradict their queue.
    misfits: tuple[int, ...]
    # Why it is unknown which records were written with checksums; empty if it is known.
    lost_notes: str = ""


class LastOwner(NamedTuple):
    """What is known of the previous owner of the store."""

    was_clean: bool
    was_ours: bool
    checkpoint: Checkpoint
    # Records before it were synced by a Roquet broker, and no other broker wrote since.
    synced_end: int


class Cutting(msgspec.Struct, frozen=True):
    """`back_up` is called with the end of the log before the rest is cut off; it returns the path.

    What follows `end`, where a record ends, is cut off however good it is. With `has_revived`,
    queues that were deleted after it are rebuilt.
    """

    back_up: Callable[[int], Path | None]
    end: int = NO_END
    has_revived: bool = False


def recover(
    log: CommitLog,
    queues: ConsumeQueues,
    deletions: DeletedQueues,
    last_owner: LastOwner,
    *,
    delay_levels_ms: tuple[int, ...],
    distrust_queues: Callable[[], None],
    cutting: Cutting,
) -> RecoveryReport:
    """The log is loaded, the queues are loaded here. Raises BadStoreDirectory, or OSError.

    `distrust_queues` resets the checkpoint of the queues.
    """
    was_clean, was_ours, checkpoint, synced_end = last_owner
    cut_end = cutting.end
    is_cut = cut_end < log.files_end
    start = _scan_start(log, checkpoint, was_clean=was_clean)
    if is_cut:
        start = min(start, _file_start(log, cut_end))
    ends = QueueEnds(log, queues, deletions)
    suspect_from = ends.load(start)
    if cutting.has_revived:
        suspect_from = log.start
    if suspect_from is not None and log.files:
        # Should this recovery be interrupted, the next one finds queues that are sound, but not
        # complete.
        distrust_queues()
        start = min(start, _file_start(log, suspect_from))
    while True:
        ends.cut(start)
        dispatcher = Dispatcher(
            queues, deletions, delay_levels_ms, log_start=log.start, dispatched_from=start
        )
        tail = _TailPass(log, queues, dispatcher, last_owner, cut_end)
        try:
            tail.run(start)
            for queue in ends.shorter():
                _check_dropped(log, queue, tail.end, start, was_clean=was_clean and not is_cut)
            break
        except EntriesMissing as missing:
            # Likewise: by the checkpoint the next one may start later than this one has to.
            distrust_queues()
            start = _file_start(log, missing.physical_offset)
    cut_size = log.written_end(tail.end) - tail.end
    cut_path = cutting.back_up(tail.end) if cut_size else None
    log.cut(tail.end, is_zero_behind=not cut_size)
    _keep_log(log, tail, start, synced_end)
    if start == 0:
        _clear_empty(queues)
    _keep_queues(queues, tail, is_rest_synced=was_clean or was_ours)
    return RecoveryReport(
        was_clean=was_clean,
        log_start=log.start,
        log_end=log.end,
        scanned_from=start,
        record_count=tail.record_count,
        cut_size=cut_size,
        cut_reason=tail.cut_reason if cut_size else "",
        cut_path=cut_path,
        damages=(*_missing_files(log), *tail.damages),
        misfits=tuple(sorted(dispatcher.misfits)),
    )


def first_file_to_scan(first_timestamps: Sequence[int | None], complete_timestamp: int) -> int:
    """After a crash: the last file that was started while everything was known to be complete.

    The store timestamps are those of the first records of the files, None without one.
    """
    for index in range(len(first_timestamps) - 1, 0, -1):
        timestamp = first_timestamps[index]
        if timestamp is not None and 0 < timestamp <= complete_timestamp:
            return index
    return 0


def is_lost_in_between(
    after: LogRecord | None, last_timestamp: int, durable_timestamp: int | None
) -> bool:
    """Whether a bad spot is damage with good records after it, or the end of the log.

    Past the end of a log there may be records, too: pages that reached the disk while those
    before them did not, or what Apache left when it cut the log. The former are not older than
    what is known to be durable (None: everything is), the latter older than what precedes them.
    """
    if after is None or after.store_timestamp < last_timestamp:
        return False
    # Some of the same millisecond as the checkpoint may have come after the sync.
    return durable_timestamp is None or after.store_timestamp < durable_timestamp


@final
class _TailPass:
    """One pass over the end of the log."""

    def __init__(
        self,
        log: CommitLog,
        queues: ConsumeQueues,
        dispatcher: Dispatcher,
        last_owner: LastOwner,
        cut_end: int,
    ) -> None:
        was_clean, was_ours, checkpoint, _ = last_owner
        self._log = log
        self._end_max = min(cut_end, log.files_end)
        self._durable_end = min(checkpoint.durable_end, self._end_max)
        self._queues = queues
        self._open_queues: set[tuple[bytes, int]] = set()
        self._dispatch_all = dispatcher.dispatch_all
        self._durable_timestamp = None if was_clean else checkpoint.log_timestamp
        # Entries of records up to this time were synced, if they are as they were. Apache may write
        # a checkpoint before it has synced the queues.
        self._entries_synced_at = checkpoint.recovery_timestamp if was_ours else 0
        # The first record whose entry may not be, None if all are; queues that have such entries.
        self.entries_unsafe_from: int | None = None
        self.unsafe_queues: set[tuple[bytes, int]] = set()
        self.end = 0
        self.cut_reason = ""
        self.record_count = 0
        self.last_timestamp = 0
        # All records before it are known to be durable; None if all are.
        self.unsafe_from: int | None = None
        self.damages: list[DamagedRange] = []

    def run(self, start: int) -> None:
        """Find the end, dispatching everything before it. Raises EntriesMissing, or OSError."""
        while True:
            try:
                self._dispatch_good(start)
            except BadRecord as bad:
                after = self._after(bad)
                if after is not None:
                    start = after
                    self.damages.append(DamagedRange(bad.physical_offset, start, bad.reason))
                    continue
                self.end = bad.physical_offset
                self.cut_reason = bad.reason
            else:
                self.end = self._end_max
                if self._end_max < self._log.files_end:
                    self.cut_reason = "not part of the log of the master that continues there"
            return

    def _after(self, bad: BadRecord) -> int | None:
        """Where the log continues after a bad record; None if it ends there."""
        after = self._log.find_record(bad.physical_offset + 1)
        if after is not None and after.physical_offset >= self._end_max:
            after = None
        if bad.physical_offset < self._durable_end:
            # All was synced up to there, so a record starts there, or will.
            return (
                self._durable_end
                if after is None
                else min(after.physical_offset, self._durable_end)
            )
        if is_lost_in_between(after, self.last_timestamp, self._durable_timestamp):
            assert after is not None
            return after.physical_offset
        return None

    def _dispatch_good(self, start: int) -> None:
        # In a cleanly closed store every record is synced, however late it came.
        durable_timestamp = inf if self._durable_timestamp is None else self._durable_timestamp
        for stretch in self._log.stretches(start, self._end_max):
            self._dispatch_all(stretch)
            self._note_queues(stretch)
            self.last_timestamp = stretch.last_timestamp
            self.record_count += stretch.record_count
            if stretch.latest_timestamp >= durable_timestamp and self.unsafe_from is None:
                # Some records before it may be durable: writing them again does no harm.
                self.unsafe_from = stretch.start

    def _note_queues(self, stretch: Stretch) -> None:
        used = {(run.topic, run.queue_id) for run in stretch.runs}
        used.update((each.topic, each.queue_id) for each in stretch.others)
        if self.entries_unsafe_from is None and self._has_unsafe_entries(stretch):
            self.entries_unsafe_from = stretch.start
        if self.entries_unsafe_from is not None:
            self.unsafe_queues |= used
        self._open_queues |= used
        if len(self._open_queues) > OPEN_QUEUE_COUNT_MAX:
            self._queues.close_files(self._open_queues)
            self._open_queues.clear()

    def _has_unsafe_entries(self, stretch: Stretch) -> bool:
        # A cleanly closed store has none.
        is_known = self._durable_timestamp is None
        return not is_known and stretch.latest_timestamp > self._entries_synced_at


def _scan_start(log: CommitLog, checkpoint: Checkpoint, *, was_clean: bool) -> int:
    files = log.files
    if not files:
        return 0
    if was_clean:
        index = max(0, len(files) - CLEAN_SCAN_FILES)
    else:
        timestamps = [_first_timestamp(log, file.start) for file in files]
        index = first_file_to_scan(timestamps, checkpoint.recovery_timestamp)
    return files[index].start


def _first_timestamp(log: CommitLog, file_start: int) -> int | None:
    try:
        return log.record_at(file_start).store_timestamp
    except BadRecord:
        return None


def _file_start(log: CommitLog, physical_offset: int) -> int:
    """The start of the last file that starts at or before an offset; else of the first one."""
    return max(
        (file.start for file in log.files if file.start <= physical_offset), default=log.start
    )


def _check_dropped(
    log: CommitLog, queue: ConsumeQueue, log_end: int, dispatched_from: int, *, was_clean: bool
) -> None:
    """Raises EntriesMissing if a queue that got shorter may lack messages that are in the log.

    A crash loses messages whose entries were written already: they point past the end of the
    log. Any other entry that was dropped is damaged, and its message may lie before the
    dispatched part.
    """
    known_from = max(queue.last_physical_end(), log.start)
    entry = queue.dropped_entry()
    is_lost = not was_clean and entry and log_end <= entry.physical_offset < log.files_end
    if not is_lost and known_from < dispatched_from:
        raise EntriesMissing(known_from)


def _keep_log(log: CommitLog, tail: _TailPass, start: int, synced_end: int) -> None:
    """Sync the records that were found; the log is cut already."""
    for file in log.files:
        file.is_verified = file.start >= start and not any(
            file.start < damage.end and damage.start < file.end for damage in tail.damages
        )
    # A killed process leaves much in the memory of the kernel only; it counts as stored now.
    if tail.unsafe_from is not None:
        log.write_again(max(tail.unsafe_from, synced_end))
    log.synced_end = start
    log.sync()
    log.last_store_timestamp = tail.last_timestamp


def _clear_empty(queues: ConsumeQueues) -> None:
    """The whole log was read, so a queue without entries has had no message.

    A power cut may leave a file of it and not the one before; it would begin there.
    """
    for queue in queues:
        if 0 < queue.min_offset == queue.max_offset:
            queue.clear()


def _keep_queues(queues: ConsumeQueues, tail: _TailPass, *, is_rest_synced: bool) -> None:
    """They are synced later, by the flushing thread, as long as enough files can be open.

    Until then, by the checkpoint, the next recovery starts where this one did.
    """
    for key, queue in tuple(queues.by_key.items()):
        if key in tail.unsafe_queues:
            assert tail.entries_unsafe_from is not None
            queue.write_again(tail.entries_unsafe_from)
        queue.wipe_dropped(is_rest_synced=is_rest_synced)
        if len(queues.by_key) > OPEN_QUEUE_COUNT_MAX:
            queues.close_files([key])


def _missing_files(log: CommitLog) -> list[DamagedRange]:
    return [
        DamagedRange(before.end, after.start, "a file is missing")
        for before, after in pairwise(log.files)
        if before.end != after.start
    ]

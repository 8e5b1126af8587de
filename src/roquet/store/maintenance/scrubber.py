"""Checks every record again, a little at a time: old files decay, and are seldom read.

A file without damage counts as verified afterwards, which makes reading it cheaper. Queue
entries that do not agree with their records are repaired.
"""

from typing import NamedTuple, final

from roquet.store.commit_log import CommitLog
from roquet.store.consume_queue import QueueEntry
from roquet.store.dispatch import TRANSACTION_MASK, TRANSACTIONS_WITHOUT_QUEUE, code_of
from roquet.store.errors import BadRecord, DamagedRange
from roquet.store.files.mapped_file import MappedFile
from roquet.store.log_scan import LogRecord
from roquet.store.queues import ConsumeQueues


class ScrubReport(NamedTuple):
    damages: list[DamagedRange]
    repaired_entries: int
    # Whether the end of the log was reached; the next step starts at its beginning.
    is_round_over: bool


@final
class Scrubber:
    def __init__(
        self, log: CommitLog, queues: ConsumeQueues, delay_levels_ms: tuple[int, ...]
    ) -> None:
        self._log = log
        self._queues = queues
        self._delay_levels_ms = delay_levels_ms
        self._next_offset = 0
        self._is_file_good = True

    def step(self, size_max: int) -> ScrubReport:
        """Check up to `size_max` bytes of one file, and at least one record."""
        log = self._log
        file = next((each for each in log.files if each.end > self._next_offset), None)
        if file is None or file.start >= log.end:
            self._next_offset = 0
            return ScrubReport([], 0, is_round_over=True)
        start = max(self._next_offset, file.start)
        if start == file.start:
            self._is_file_good = True
        end = min(file.end, log.end)
        damages: list[DamagedRange] = []
        repaired = 0
        position = start
        try:
            for record in log.scan(start, end):
                if position - start >= size_max:
                    break
                repaired += self._repair_entry(record)
                position = record.physical_offset + record.size
            else:
                position = file.end
        except BadRecord as bad:
            position = self._next_good(file, bad.physical_offset + 1, end)
            damages.append(DamagedRange(bad.physical_offset, position, bad.reason))
            self._is_file_good = False
        if position == file.end:
            file.is_verified = self._is_file_good
        is_round_over = position >= log.end
        self._next_offset = 0 if is_round_over else position
        return ScrubReport(damages, repaired, is_round_over)

    def _next_good(self, file: MappedFile, physical_offset: int, end: int) -> int:
        after = self._log.find_record(physical_offset)
        if after is None or after.physical_offset >= end:
            return file.end
        return after.physical_offset

    def _repair_entry(self, record: LogRecord) -> bool:
        """Make the entry of a good record point to it; whether it did not before."""
        if record.sys_flag & TRANSACTION_MASK in TRANSACTIONS_WITHOUT_QUEUE:
            return False
        queue = self._queues.find(record.topic, record.queue_id)
        offset = record.queue_offset
        if queue is None or not queue.min_offset <= offset < queue.max_offset:
            return False
        wanted = QueueEntry(
            record.physical_offset, record.size, code_of(record, self._delay_levels_ms)
        )
        found = queue.entry(offset)
        if found is None or found == wanted or self._points_to_another(found, record):
            return False
        queue.replace(offset, wanted)
        return True

    def _points_to_another(self, entry: QueueEntry, record: LogRecord) -> bool:
        """Whether an entry is right, but for a later message of the same offset.

        That is so when the topic was deleted and created again.
        """
        try:
            found = self._log.record_at(entry.physical_offset)
        except BadRecord:
            return False
        return (
            found.physical_offset > record.physical_offset
            and found.size == entry.size
            and (found.topic, found.queue_id, found.queue_offset)
            == (record.topic, record.queue_id, record.queue_offset)
        )

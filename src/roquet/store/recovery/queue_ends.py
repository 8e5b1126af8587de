"""Where each queue ends before the log is dispatched to it again.

There may be tens of thousands of queues, most of them short and idle, and none of their files in
memory. So each file is opened once for all checks, and the records of the last entries are read
in the order of the log.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import final

from roquet.store.commit_log import CommitLog
from roquet.store.consume_queue import ConsumeQueue, QueueEntry
from roquet.store.errors import BadRecord
from roquet.store.files.mapped_file import MappedFile
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.queues import ConsumeQueues


@final
class QueueEnds:
    def __init__(self, log: CommitLog, queues: ConsumeQueues, deletions: DeletedQueues) -> None:
        self._log = log
        self._queues = queues
        self._deletions = deletions
        self._found_lengths: dict[ConsumeQueue, int] = {}
        # Queues that are cut already, and the last entries of those that have any left.
        self._cut_queues: set[ConsumeQueue] = set()
        self._last_entries: dict[ConsumeQueue, QueueEntry] = {}
        self._cut_at = 0

    def load(self, physical_limit: int) -> int | None:
        """Load all queues and cut those that are sound; see `ConsumeQueues.load`.

        The others stay as they are until `cut`, which removes files that do not form a queue.
        """
        self._cut_at = physical_limit
        return self._queues.load(self._cut_one)

    def cut(self, physical_limit: int) -> None:
        """End all queues before the first record at or after the limit."""
        if physical_limit != self._cut_at:
            self._cut_queues.clear()
            self._last_entries.clear()
            self._cut_at = physical_limit
        for queue in self._queues:
            if queue not in self._cut_queues:
                self._cut_one(queue)
                queue.close_files()
        self._drop_strays()

    def shorter(self) -> Iterator[ConsumeQueue]:
        """Queues that have fewer entries than they were found with."""
        for queue in self._queues:
            if queue.max_offset < self._found_lengths.get(queue, 0):
                yield queue
                if not queue.is_written:
                    queue.close_files()

    def _cut_one(self, queue: ConsumeQueue) -> None:
        if queue not in self._found_lengths:
            if queue.last_physical_end() <= self._deletions.end_of(queue.topic, queue.queue_id):
                queue.clear()
            self._found_lengths[queue] = queue.max_offset
        queue.cut(self._cut_at)
        for gone in queue.forget(self._log.start):
            gone.remove()
        self._cut_queues.add(queue)
        last = queue.entry(queue.max_offset - 1)
        if last is not None:
            self._last_entries[queue] = last

    def _drop_strays(self) -> None:
        """Drop entries at the end of queues that do not point to their record.

        Apache leaves some when it cuts a queue, and finds them again after a restart.
        """
        last = [each for each in self._last_entries.items() if self._points_to_log(each[1])]
        last.sort(key=lambda each: each[1].physical_offset)
        for file, queues in groupby(last, lambda each: self._log.file_at(each[1].physical_offset)):
            # They lie far apart: read-ahead would load the whole log in the end.
            with _read_by_page(file):
                for queue, entry in queues:
                    self._drop_strays_of(queue, entry)

    def _drop_strays_of(self, queue: ConsumeQueue, last: QueueEntry) -> None:
        if not self._is_stray(queue, last):
            return
        entry: QueueEntry | None = last
        while entry is not None and self._points_to_log(entry) and self._is_stray(queue, entry):
            queue.drop_last()
            entry = queue.entry(queue.max_offset - 1)
        queue.close_files()

    def _points_to_log(self, entry: QueueEntry) -> bool:
        return not entry.is_blank and entry.physical_offset >= self._log.start

    def _is_stray(self, queue: ConsumeQueue, last: QueueEntry) -> bool:
        try:
            record = self._log.record_at(last.physical_offset)
        except BadRecord:
            return True
        return (record.topic, record.queue_id, record.queue_offset, record.size) != (
            queue.topic,
            queue.queue_id,
            queue.max_offset - 1,
            last.size,
        )


@contextmanager
def _read_by_page(file: MappedFile | None) -> Iterator[None]:
    if file is None:
        yield
        return
    _ = file.mapping
    file.load_around(0, file.size, is_wanted=False)
    try:
        yield
    finally:
        file.load_around(0, file.size, is_wanted=True)

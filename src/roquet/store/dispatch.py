"""From a record to its entry in a queue: for recovery, on a slave, and for repair.

The append of a master has the queue already and needs only the tags code. Keys are not dispatched:
the key index reads the log on its own (`key_index.py`).
"""

from collections.abc import Callable, Iterable
from typing import Final, final

from roquet.protocol import names
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.properties import property_of_bytes
from roquet.protocol.messages.tags import tags_code_of
from roquet.store.consume_queue import ENTRY_SIZE, ConsumeQueue, pack_entry, unpack_entries
from roquet.store.errors import StoreError
from roquet.store.files.mapped_file import MappedFile
from roquet.store.log_scan import RECORD_SIZE_MIN, LogRecord, QueueRun, Stretch
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.queues import ConsumeQueues

SCHEDULE_TOPIC: Final = names.SCHEDULE_TOPIC.encode()

TRANSACTION_MASK: Final = SysFlag.TRANSACTION_MASK.value
# Of the four kinds of records, these two are in no queue.
TRANSACTIONS_WITHOUT_QUEUE: Final = frozenset(
    (SysFlag.TRANSACTION_PREPARED.value, SysFlag.TRANSACTION_ROLLBACK.value)
)

_DELAY: Final = b"\x02DELAY\x01"
# Python refuses to read a number of several thousand digits.
_DELAY_DIGITS_MAX: Final = 10


def value_of(properties: bytes, mark: bytes) -> bytes:
    """The value of the property `mark` = 0x02 name 0x01; empty if there is none.

    A quicker `property_of_bytes`, which copies the text before it looks.
    """
    start = properties.rfind(mark)
    if start < 0:
        # The first property has no separator in front of it.
        if not properties.startswith(mark[1:]):
            return b""
        start = -1
    start += len(mark)
    end = properties.find(b"\x02", start)
    value = properties[start:] if end < 0 else properties[start:end]
    # An empty property does not exist, but an earlier one of its name may.
    return value or property_of_bytes(properties, mark[1:-1]) or b""


def delay_level_of(properties: bytes) -> int:
    """The delay level of a message; 0 without one."""
    text = value_of(properties, _DELAY)
    return int(text) if text.isdigit() and len(text) <= _DELAY_DIGITS_MAX else 0


def delivery_time_of(properties: bytes, store_timestamp: int, levels_ms: tuple[int, ...]) -> int:
    """The code of a delayed message, in place of the tags code."""
    level = min(delay_level_of(properties), len(levels_ms))
    if level == 0:
        return tags_code_of(properties)
    return store_timestamp + levels_ms[level - 1]


def code_of(record: LogRecord, levels_ms: tuple[int, ...]) -> int:
    """The third member of the record's queue entry."""
    if record.topic == SCHEDULE_TOPIC:
        return delivery_time_of(record.properties, record.store_timestamp, levels_ms)
    return tags_code_of(record.properties)


class EntriesMissing(StoreError):
    """A queue lacks entries of records before those that are dispatched now."""

    def __init__(self, physical_offset: int) -> None:
        super().__init__(f"a queue lacks the entries of records after {physical_offset}")
        self.physical_offset = physical_offset


def _close(files: Iterable[MappedFile]) -> None:
    for file in files:
        file.close()


@final
class Dispatcher:
    """Makes the queues agree with the records it is given, in the order of the log.

    It gets all good records from `dispatched_from` on; the log starts at `log_start`. Files of
    queues that restart at offset 0 are passed to `retire`: another thread may be syncing them.
    """

    def __init__(
        self,
        queues: ConsumeQueues,
        deletions: DeletedQueues,
        delay_levels_ms: tuple[int, ...],
        *,
        log_start: int,
        dispatched_from: int,
        retire: Callable[[Iterable[MappedFile]], None] = _close,
    ) -> None:
        self._queues = queues
        self._deletions = deletions
        # Tested for every run.
        self._has_deletions = bool(deletions)
        self._delay_levels_ms = delay_levels_ms
        self._log_start = log_start
        self._dispatched_from = dispatched_from
        self._retire = retire
        # Records that fit no queue, because their own members contradict the log; in the order in
        # which they were found.
        self.misfits: list[int] = []

    def dispatch_all(self, stretch: Stretch) -> None:
        """Raises EntriesMissing if an earlier part of the log has to be dispatched first.

        Raises OSError when there is no space for the entries.
        """
        for run in stretch.runs:
            queue = self._queues.by_key.get((run.topic, run.queue_id))
            if queue is None or queue.max_offset != run.queue_offset or self._has_deletions:
                self._dispatch_unfit(run)
            else:
                queue.append_many(run.entries)
        for record in stretch.others:
            self.dispatch(record)

    def dispatch(self, record: LogRecord) -> None:
        """Raises as `dispatch_all` does."""
        if record.sys_flag & TRANSACTION_MASK in TRANSACTIONS_WITHOUT_QUEUE:
            return
        code = code_of(record, self._delay_levels_ms)
        entry = pack_entry(record.physical_offset, record.size, code)
        self._dispatch_unfit(QueueRun(record.topic, record.queue_id, record.queue_offset, entry))

    def _dispatch_unfit(self, run: QueueRun) -> None:
        """A run whose first messages may be deleted, or not those that the queue expects."""
        deleted_end = self._deletions.end_of(run.topic, run.queue_id)
        for number, (physical_offset, _, _) in enumerate(unpack_entries(run.entries)):
            if physical_offset < deleted_end:
                continue
            queue = self._fitting_queue(run, run.queue_offset + number, physical_offset)
            if queue is not None:
                # All that follow fit, too.
                queue.append_many(run.entries[number * ENTRY_SIZE :])
                return
            self.misfits.append(physical_offset)

    def _fitting_queue(
        self, run: QueueRun, queue_offset: int, physical_offset: int
    ) -> ConsumeQueue | None:
        """The queue of a message, made to expect it; None if that cannot be right."""
        try:
            queue = self._queues.find_or_add(run.topic, run.queue_id)
        except BadMessage:
            return None
        if queue_offset == 0 and queue.max_offset > 0:
            # Apache deleted the topic and created it again: its earlier messages are not its own.
            self._retire(self._queues.remove(queue))
            queue = self._queues.find_or_add(run.topic, run.queue_id)
        elif queue_offset > queue.max_offset and self._is_gap(queue, queue_offset, physical_offset):
            queue.append_blanks(queue_offset)
        return queue if queue_offset == queue.max_offset else None

    def _is_gap(self, queue: ConsumeQueue, queue_offset: int, physical_offset: int) -> bool:
        """Whether all messages between the queue's last one and this one can be lost."""
        last_end = queue.last_physical_end()
        known_from = max(last_end, self._log_start)
        if known_from < self._dispatched_from:
            raise EntriesMissing(known_from)
        # They took space in the log. This keeps a damaged offset from filling the disk.
        missing = queue_offset - queue.max_offset
        return missing * RECORD_SIZE_MIN <= physical_offset - last_end

"""Which half messages wait for the end of their transaction, and how far the check has come.

The check goes through the queue of half messages from its oldest to its newest. Everything
before `progress` it has handled: over, appended again, or given up. From there on, a
half message is open unless it is in `ended`. So nothing is kept per open transaction, and a bit
for each that is over.

Progress survives in the table of offsets, where Apache keeps it: as that of the group
CID_RMQ_SYS_TRANS in both topics. Two things must not be forgotten with the end of the log when
the power fails, or another broker becomes the master: a half message that was appended
again, and the message that a commit wrote. So `commit_progress` lets the table have only what the
log on disk, and at replicas that are waited for, has caught up with; and it has for which log it
is true (see `durable_state`).
"""

import logging
from collections import Counter
from typing import Final, final

import msgspec

from roquet.broker.tables.offsets import HALF_QUEUE_ID, OffsetTable
from roquet.protocol.bodies.offsets import TransactionProgress
from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.message import Property, StoredMessage
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import HALF_TOPIC, OP_HALF_TOPIC, TRANSACTION_GROUP
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits

log = logging.getLogger(__name__)

OVER_TAG: Final = "d"

_OFFSET_DIGITS_MAX: Final = 18  # as many as every int64 has room for
_BATCH: Final = QueueReadLimits(count_max=32, size_max=256 * 1024)


def half_offsets_of(op: StoredMessage) -> list[int]:
    """The offsets that an op message ends, in both forms; whatever is no offset is left out."""
    if op.tags != OVER_TAG:
        return []
    texts = op.body.split(b",")
    return [int(text) for text in texts if text.isdigit() and len(text) <= _OFFSET_DIGITS_MAX]


class QueueMessages(msgspec.Struct, frozen=True):
    """Messages of one queue. Some may be missing: what cannot be read is skipped."""

    messages: list[StoredMessage]
    next_offset: int


@final
class PendingHalves:
    """Belongs to the event loop. `load` comes before everything else."""

    def __init__(self, store: MessageStore, offsets: OffsetTable) -> None:
        self._store = store
        self._offsets = offsets
        self._op_progress = 0
        self.progress = 0
        self.ended = OffsetSet(0)
        # Half messages before this one are from before the start. Some may be duplicates of
        # others, or over without an op message: a crash, maybe several starts ago, came between
        # two steps, or between the log and the table.
        self.doubtful_end = 0
        # Over, but the store had no room for the op message.
        self.unrecorded: list[int] = []

    @property
    def end(self) -> int:
        return self._store.max_offset(HALF_TOPIC, HALF_QUEUE_ID)

    @property
    def open_count(self) -> int:
        """Half messages that are neither over nor given up."""
        return max(0, self.end - self.progress - self.ended.count_from(self.progress))

    def open_topics(self, count_max: int) -> Counter[str]:
        """Topics of the oldest open ones; no more than `count_max` half messages are read."""
        topics: Counter[str] = Counter()
        offset, end = self.progress, min(self.end, self.progress + count_max)
        while (offset := self.ended.next_absent(offset)) < end:
            batch = self._read(HALF_TOPIC, offset)
            topics.update(
                half.properties.get(Property.REAL_TOPIC, "")
                for half in batch.messages
                if half.queue_offset < end and half.queue_offset not in self.ended
            )
            offset = max(offset + 1, batch.next_offset)
        return topics

    def load(self) -> None:
        end = self.end
        self.progress = self._saved(HALF_TOPIC)
        self._op_progress = self._saved(OP_HALF_TOPIC)
        self.doubtful_end = end
        # Not from the progress on: a half message of Apache's may name an older one as its first.
        self.ended = OffsetSet(self._store.min_offset(HALF_TOPIC, HALF_QUEUE_ID))
        op_offset = self._op_progress
        while op_offset < self._store.max_offset(OP_HALF_TOPIC, HALF_QUEUE_ID):
            batch = self._read(OP_HALF_TOPIC, op_offset)
            for op in batch.messages:
                for half_offset in half_offsets_of(op):
                    # What no queue has cannot be over, and must not cost memory.
                    if half_offset < end:
                        self.ended.add(half_offset)
            op_offset = max(op_offset + 1, batch.next_offset)

    def half_appended(self, offset: int) -> None:
        if offset < self.progress:
            # All had expired, and with them the queue: it starts again.
            self.progress = offset
            self.ended = OffsetSet(offset)
            self.doubtful_end = 0
            self.unrecorded.clear()

    def op_appended(self, offset: int) -> None:
        self._op_progress = min(self._op_progress, offset)

    def next_halves(self) -> QueueMessages:
        """The next ones, from the first that is not over."""
        self.advance_to(self.ended.next_absent(self.progress))
        return self._read(HALF_TOPIC, self.progress)

    def advance_to(self, offset: int) -> None:
        """Everything before this offset is handled."""
        self.progress = max(self.progress, min(offset, self.end))

    def pass_ops(self) -> bool:
        """Passes by a few op messages that are of no use any more; whether there may be others."""
        self.ended.forget_before(self.progress)
        batch = self._read(OP_HALF_TOPIC, self._op_progress)
        for op in batch.messages:
            if any(half_offset >= self.progress for half_offset in half_offsets_of(op)):
                return False
            self._op_progress = op.queue_offset + 1
        is_moving = batch.next_offset > self._op_progress or bool(batch.messages)
        self._op_progress = batch.next_offset
        return is_moving

    def commit_progress(self, safe_end: int) -> None:
        """Lets the table of offsets have what is safe by now; to be called every now and then.

        The log is, up to `safe_end`.
        """
        state = self._offsets.transactions
        state.confirm(safe_end)
        now = TransactionProgress(half_offset=self.progress, op_offset=self._op_progress)
        if state.propose(now, self._store.log_end):
            state.confirm(safe_end)

    def _saved(self, topic: str) -> int:
        low = self._store.min_offset(topic, HALF_QUEUE_ID)
        high = self._store.max_offset(topic, HALF_QUEUE_ID)
        saved = self._offsets.find(TRANSACTION_GROUP, topic, HALF_QUEUE_ID)
        return low if saved is None else max(low, min(saved, high))

    def _read(self, topic: str, offset: int) -> QueueMessages:
        result = self._store.read(topic, HALF_QUEUE_ID, offset, _BATCH)
        messages = []
        for record in result.records:
            try:
                messages.append(read_record(record))
            except BadMessage as error:
                log.error("skipped an unreadable message of %s: %s", topic, error)  # noqa: TRY400
        return QueueMessages(messages, result.next_offset)


_FULL: Final = b"\xff"


@final
class OffsetSet:
    """Offsets of one queue from a start on, which only ever moves forward.

    It has a bit for each: a million of them cost 125 KB.

    It takes as much memory as the span from the start to the largest offset needs, so the
    caller makes sure that the queue has the offset it adds.
    """

    __slots__ = ("_bits", "_start")

    def __init__(self, start: int) -> None:
        self._start = start & ~7
        self._bits = bytearray()

    def __contains__(self, offset: object) -> bool:
        if not isinstance(offset, int):
            return False
        index = offset - self._start
        return 0 <= index < len(self._bits) * 8 and bool(self._bits[index >> 3] & 1 << (index & 7))

    def add(self, offset: int) -> None:
        """What lies before the start is forgotten at once."""
        index = offset - self._start
        if index < 0:
            return
        missing = (index >> 3) + 1 - len(self._bits)
        if missing > 0:
            self._bits.extend(bytes(missing))
        self._bits[index >> 3] |= 1 << (index & 7)

    def next_absent(self, offset: int) -> int:
        """The first offset that is not in the set, from this one on."""
        while offset in self:
            if offset & 7 == 0:
                offset += 8 * self._full_bytes(offset - self._start >> 3)
            if offset in self:
                offset += 1
        return offset

    def count_from(self, offset: int) -> int:
        """How many there are, from this one on."""
        index = max(0, offset - self._start)
        # Counted in C: there may be a million.
        bits = int.from_bytes(self._bits[index >> 3 :], "little") >> (index & 7)
        return bits.bit_count()

    def forget_before(self, offset: int) -> None:
        """Moves the start, to this offset or a few before it."""
        count = max(0, offset - self._start >> 3)
        del self._bits[:count]
        self._start += 8 * count

    def _full_bytes(self, index: int) -> int:
        # Looked at in C: there may be a hundred thousand.
        rest = self._bits[index:]
        return len(rest) - len(rest.lstrip(_FULL))

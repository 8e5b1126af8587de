"""What was popped, acknowledged and postponed, as records in the log.

Topic rmq_sys_REVIVE_LOG_<cluster>, in the form of Apache 5.5.0. Each record is a message with tags:

    ck     {"bm":0,"bn":"broker-a","c":"group","d":[0,1],"it":60000,"n":2,"pt":1794934487260,"q":3,
           "reviveTime":1794934547260,"ro":0,"so":17,"sp":false,"t":"orders"}
           from queue 3 two messages, at 17 + 0 and 17 + 1, are out until pt + it
    ack    {"ao":17,"bn":"broker-a","c":"group","pt":1794934487260,"q":3,"so":17,"t":"orders"}
    bAck   the same with "aol":[17,18]

Apache lets all of them wait among its timers, and matches them when they are due. Ours lie in the
topic at once, in queue 0, and are matched in memory as they are written. So they are as safe as
messages are: on disk and at replicas before the client gets its reply.

    closed   a message that was redelivered is acknowledged by the broker itself
    changed  a longer or shorter time is a new check point of one message; then the old one is acked
             A crash may leave the first half of either: a copy in the retry topic, which names its
             check point in POP_ORIGIN, or a new check point. Then it is the last that was written,
             so the next start finds it and writes the other half.
    moved    {..."d":[],"n":0,"so":17...}: the group was sent to offset 17; nothing is out

Of queues that are popped in order (`ordered_queue`) there are records of ours, which Apache skips:

    oCk    {"a":"","bn":"broker-a","c":"group","it":60000,"o":[17,22],"oc":[1,0],
           "pt":1794934487260,"q":3,"sp":false,"t":"orders"}
           17 and 22 are out until pt + it; 17 was out once before. A changed time is the same again
    oAck   {"aol":[17],"bn":"broker-a","c":"group","q":3,"t":"orders"}

Both have in POPNEXT the first message that was not done before. As long as any is out or done
after it, the oldest of these records is needed.

A ck of a pop, or of a move, has the property POPNEXT: where the group goes on in the queue, or -1
where group or topic were deleted. The table of offsets is saved every few seconds; after a crash
these properties have what it lacks.

Progress is where Apache keeps it, as the offset of CID_RMQ_SYS_REVIVE_GROUP: the last record of
which everything up to it is closed. It has for which log it is true (`tables/durable_state`). An
open check point that many records follow is written again, so that a start does not read them all.
"""

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, final

from roquet.broker.pop.fast_notes import FastNotes
from roquet.broker.pop.in_flight import CheckPoint, InFlight, Place, PopKey, QueueOfGroup
from roquet.broker.pop.journal_writing import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    JOURNAL_QUEUE_ID,
    NEXT,
    JournalForm,
    JournalWriter,
    check_point_body,
)
from roquet.broker.pop.ordered_queue import OrderedQueue, OrderedQueues, Outing
from roquet.broker.tables.offsets import OffsetTable
from roquet.clock import Clock
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.offsets import PopProgress
from roquet.protocol.bodies.pop import AckBody, CheckPointBody, OrderedAckBody, OrderedPopBody
from roquet.protocol.errors import BadBody, BadMessage
from roquet.protocol.messages.message import Property, StoredMessage
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import RETRY_PREFIX, pop_retry_topic, revive_topic
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)

ORDERED_POP_TAG: Final = "oCk"
ORDERED_ACK_TAG: Final = "oAck"
# An open check point is written again when this many records follow it: that many are read at a
# start, in less than a second.
RECORD_COUNT_MAX: Final = 50_000
# The bits of an int32.
POP_COUNT_MAX: Final = 32

# Apache's acks wait among timers, until the time of the message: the last of them come after it.
_APACHE_GRACE_MS: Final = 3_000
_REWRITE_COUNT_MAX: Final = 64
# Of the messages that are done in one queue, in one record.
_REWRITTEN_DONE_COUNT: Final = 1_000
_NOWHERE: Final = -1
_SIGN_BIT: Final = 1 << 31


@final
class PopJournal:
    """Belongs to the event loop. `load` comes before everything else."""

    def __init__(
        self, store: MessageStore, offsets: OffsetTable, clock: Clock, form: JournalForm
    ) -> None:
        self._store = store
        self._offsets = offsets
        self._clock = clock
        self._form = form
        self.topic: Final = revive_topic(form.cluster_name)
        self._writer: Final = JournalWriter(store, clock, form)
        # None if `load` has not been called, or if every record takes the way of all messages.
        self.fast: FastNotes | None = None
        self.in_flight = InFlight()
        self.ordered = OrderedQueues()
        # The offset of the next record of each queue that was not read.
        self._next_offsets: dict[int, int] = {}
        # Queues whose position the journal may have.
        self._popped: set[QueueOfGroup] = set()
        # Messages that are out no more, which is not written yet.
        self._unwritten: list[tuple[PopKey, list[int]]] = []
        # The last check point that was read, if it may be half of a change, and the place of the
        # last record in the log.
        self._perhaps_changed: PopKey | None = None
        self._noted_at = 0
        # Redelivery sleeps until this time, or until it is woken.
        self.awaited_ms: int | None = None
        self.is_woken = asyncio.Event()

    def load(self) -> None:
        """Reads what the log has, from the saved progress on, and corrects the table of offsets."""
        self.in_flight = InFlight()
        self.ordered = OrderedQueues()
        saved = self._offsets.pops.value.offset_table
        self._next_offsets = {
            queue_id: max(self._store.min_offset(self.topic, queue_id), saved.get(queue_id, -1) + 1)
            for queue_id in self._queue_ids()
        }
        positions: dict[QueueOfGroup, int] = {}
        self._perhaps_changed, self._noted_at = None, 0
        self._read_new(positions)
        self._unwritten = [*self._half_changed(), *self._half_closed()]
        positions |= {ordered.queue: ordered.low for ordered in self.ordered.queues()}
        self._popped = set(positions)
        self.fast = self._fast_notes()
        for queue, next_offset in positions.items():
            self._correct(queue, next_offset)

    def catch_up(self) -> None:
        """Reads records that were not written here: what Apache left among its timers."""
        self._read_new({})

    @property
    def steady_ms(self) -> int:
        """The wall clock if it had never been set since the start: deadlines stay as far away as
        they were."""
        return self._clock.now_ms() - self._clock.jumped_ms()

    @property
    def lag(self) -> int:
        """Records from the oldest open check point to the end of our queue."""
        oldest = self.in_flight.oldest(JOURNAL_QUEUE_ID)
        return 0 if oldest is None else self._next_of(JOURNAL_QUEUE_ID) - oldest.place.offset

    @property
    def next_due_ms(self) -> int | None:
        """When the time of the next message is over; None if nothing is out."""
        times = (self.in_flight.next_due_ms, self.ordered.next_due_ms)
        return min((each for each in times if each is not None), default=None)

    def note_pop(
        self, key: PopKey, offsets: Sequence[int], invisible_ms: int, next_offset: int
    ) -> int:
        """These messages are out; the end of the log after the record. Raises Refused."""
        if self.fast is not None:
            now_ms = self._clock.now_ms()
            end = self.fast.note_pop(key, offsets, invisible_ms, next_offset, now_ms)
            if end >= 0:
                return end
        body = check_point_body(self._form, key, offsets, invisible_ms)
        end = self._note_check_point(key, body, next_offset)
        self._popped.add(key.queue)
        return end

    def note_change(
        self, old: PopKey, key: PopKey, invisible_ms: int, *, is_suspended: bool
    ) -> int:
        """The message at the start of `key`, out under `old`, is out until another time.

        One that is not out stays where it is. Returns the end of the log. Raises Refused; then it
        may be out under both.
        """
        point = self.in_flight.find(old)
        if point is None or point.index_of(key.start_offset) is None:
            return self._store.log_end
        body = check_point_body(self._form, key, (key.start_offset,), invisible_ms)
        body.is_suspended = is_suspended
        self._note_check_point(key, body)
        return self.note_acks(old, (key.start_offset,))

    def note_acks(self, key: PopKey, offsets: Sequence[int]) -> int:
        """These messages are out no more; the end of the log. Raises Refused.

        Nothing is written for those that are not out: there is nothing to remember. But that they
        are not may have been noted just now, and is not safe before the log is.
        """
        if self.fast is not None:
            end = self.fast.note_acks(key, offsets)
            if end >= 0:
                return end
        point = self.in_flight.find(key)
        if point is None or not point.has_any_of(offsets):
            return self._store.log_end
        # Of one check point the journal has everything in one queue, and so in its order.
        written = self._writer.write_acks(point.place.queue_id, key, offsets)
        self._noted(point.place.queue_id, written.offset)
        self.in_flight.ack(point, offsets)
        return written.end

    def close_later(self, key: PopKey, offsets: Sequence[int]) -> None:
        """These messages were redelivered, and the next of their check point was refused."""
        self._unwritten.append((key, list(offsets)))

    def write_unwritten(self) -> None:
        """Comes before every redelivery. Raises Refused."""
        while self._unwritten:
            self.note_acks(*self._unwritten[-1])
            self._unwritten.pop()

    def note_move(self, queue: QueueOfGroup, offset: int) -> None:
        """The group is about to be sent to this offset, perhaps back. Raises Refused.

        Whoever sends it saves the table before the reply: what the journal had of it must not count
        any more then.
        """
        if queue in self._popped:
            key = PopKey(queue, offset, self._clock.now_ms())
            body = check_point_body(self._form, key, (), 0)
            self._note_check_point(key, body, offset)
            self.ordered.forget(queue)

    def note_ordered_pop(
        self, ordered: OrderedQueue, outings: Mapping[int, Outing], invisible_ms: int
    ) -> int:
        """These messages are out, all for the same time; the end of the log. Raises Refused."""
        body = self._ordered_pop_body(ordered.queue, outings, invisible_ms)
        self._popped.add(ordered.queue)
        place, end = self._append_ordered(ordered, ORDERED_POP_TAG, body)
        was_open = ordered.is_open
        for offset, outing in outings.items():
            self.ordered.go_out(ordered, offset, outing)
        self._keep_from(place, ordered, was_open=was_open)
        self._wake_before(self.next_due_ms)
        return end

    def note_ordered_acks(self, ordered: OrderedQueue, offsets: Sequence[int]) -> int:
        """These messages are done; the end of the log. Raises Refused."""
        body = self._ordered_ack_body(ordered.queue, offsets)
        place, end = self._append_ordered(ordered, ORDERED_ACK_TAG, body)
        was_open = ordered.is_open
        ordered.finish(offsets, self.steady_ms)
        self._keep_from(place, ordered, was_open=was_open)
        return end

    def forget(self, *, group: str | None = None, topic: str | None = None) -> None:
        """One of them is about to be deleted: nothing of it comes again. Raises Refused."""
        gone = {queue for queue in self._popped if queue.group == group or queue.topic == topic}
        for queue in gone:
            self.note_move(queue, _NOWHERE)
        self._popped -= gone
        for point in self.in_flight.points():
            if point.key.queue in gone:
                self.note_acks(point.key, point.open_offsets)

    def rewrite_stragglers(self) -> None:
        """Writes open check points again that many records follow. Raises Refused."""
        for _ in range(_REWRITE_COUNT_MAX):
            point = self.in_flight.oldest(JOURNAL_QUEUE_ID)
            if point is None or self.lag <= RECORD_COUNT_MAX:
                return
            if isinstance(point, OrderedQueue):
                self._rewrite_ordered(point)
            elif isinstance(point, CheckPoint):
                self._rewrite(point)

    def _rewrite(self, point: CheckPoint) -> None:
        body = check_point_body(self._form, point.key, point.offsets, point.invisible_ms)
        body.acked_bits = _signed(point.acked_bits)
        body.is_suspended = point.is_suspended
        self._note_check_point(point.key, body)

    def _rewrite_ordered(self, ordered: OrderedQueue) -> None:
        place = Place(JOURNAL_QUEUE_ID, self._next_of(JOURNAL_QUEUE_ID))
        together: dict[object, dict[int, Outing]] = {}
        for offset, outing in ordered.out.items():
            kind = (outing.pop_time_ms, outing.due_ms, outing.attempt_id, outing.is_suspended)
            together.setdefault(kind, {})[offset] = outing
        for outings in together.values():
            first = next(iter(outings.values()))
            invisible_ms = first.due_ms + self._clock.jumped_ms() - first.pop_time_ms
            pop_body = self._ordered_pop_body(ordered.queue, outings, invisible_ms)
            self._append_ordered(ordered, ORDERED_POP_TAG, pop_body)
        done = sorted(ordered.done)
        for start in range(0, len(done), _REWRITTEN_DONE_COUNT):
            some = done[start : start + _REWRITTEN_DONE_COUNT]
            ack_body = self._ordered_ack_body(ordered.queue, some)
            self._append_ordered(ordered, ORDERED_ACK_TAG, ack_body)
        self._keep_from(place, ordered, was_open=False)

    def commit_progress(self, safe_end: int) -> None:
        """Lets the table of offsets have what is safe by now; to be called every now and then.

        The log is, up to `safe_end`.
        """
        state = self._offsets.pops
        state.confirm(safe_end)
        closed = {queue_id: self._closed(queue_id) for queue_id in self._next_offsets}
        now = PopProgress(offset_table={q: offset for q, offset in closed.items() if offset >= 0})
        if state.propose(now, self._store.log_end):
            state.confirm(safe_end)

    def _fast_notes(self) -> FastNotes | None:
        texts = self._writer.texts()
        if texts is None:
            return None
        return FastNotes(
            texts,
            self.in_flight,
            self._next_offsets,
            self._popped,
            self._clock,
            self._wake_before,
        )

    def _closed(self, queue_id: int) -> int:
        """The last record of which everything up to it is closed; -1 without any."""
        oldest = self.in_flight.oldest(queue_id)
        return (self._next_of(queue_id) if oldest is None else oldest.place.offset) - 1

    def _next_of(self, queue_id: int) -> int:
        return self._next_offsets.get(queue_id, 0)

    def _queue_ids(self) -> range:
        return range(self._store.queue_count(self.topic))

    def _correct(self, queue: QueueOfGroup, next_offset: int) -> None:
        known = self._offsets.find(*queue)
        if known is None or known < next_offset:
            self._offsets.commit(*queue, next_offset)

    def _half_changed(self) -> Iterator[tuple[PopKey, list[int]]]:
        """What a crash has left out under two receipts, under the older of them."""
        changed = self._perhaps_changed
        if changed is None:
            return
        queue, offset, _ = changed
        for point in self.in_flight.points():
            is_other = point.key.queue == queue and point.key != changed
            if is_other and point.index_of(offset) is not None:
                yield point.key, [offset]

    def _half_closed(self) -> Iterator[tuple[PopKey, list[int]]]:
        """What is in a retry topic, and was not acknowledged there before a crash."""
        copied: dict[tuple[str, str], set[str]] = {}
        for point in self.in_flight.points():
            group, topic, _ = point.key.queue
            if (group, topic) not in copied:
                copied[group, topic] = set(self._copied_last(group, topic))
            origins = copied[group, topic]
            offsets = point.open_offsets if origins else ()
            found = [each for each in offsets if point.key.origin(each) in origins]
            if found:
                yield point.key, found

    def _copied_last(self, group: str, topic: str) -> Iterator[str]:
        """Origins of copies that were stored after the last record here."""
        names = [topic]
        if not topic.startswith(RETRY_PREFIX):
            names = [pop_retry_topic(group, topic, is_v2=is_v2) for is_v2 in (False, True)]
        for name in names:
            start = max(0, self._store.end_offset(name, 0) - POP_COUNT_MAX)
            for physical_offset, record in self._store.records(name, 0, start):
                if physical_offset > self._noted_at:
                    with suppress(BadMessage):  # One that cannot be read is not delivered.
                        yield read_record(record).properties.get(Property.POP_ORIGIN, "")

    def _read_new(self, positions: dict[QueueOfGroup, int]) -> None:
        for queue_id in self._queue_ids():
            end = self._store.end_offset(self.topic, queue_id)
            start = self._next_of(queue_id)
            if start == end:
                continue
            self._next_offsets[queue_id] = end
            # A queue that is shorter than it was has started again.
            start = start if start < end else 0
            for physical_offset, record in self._store.records(self.topic, queue_id, start):
                self._noted_at = max(self._noted_at, physical_offset)
                if queue_id == JOURNAL_QUEUE_ID:
                    self._perhaps_changed = None
                try:
                    self._apply(read_record(record), positions)
                except (BadMessage, BadBody) as error:
                    log.error("skipped an invalid record of %s: %s", self.topic, error)  # noqa: TRY400

    def _apply(self, message: StoredMessage, positions: dict[QueueOfGroup, int]) -> None:
        tags = message.tags
        if tags == CHECK_POINT_TAG:
            self._apply_check_point(message, positions)
        elif tags in (ACK_TAG, BATCH_ACK_TAG):
            body = read_body(AckBody, message.body)
            queue = QueueOfGroup(body.consumer_group, body.topic, body.queue_id)
            point = self.in_flight.find(PopKey(queue, body.start_offset, body.pop_time))
            if point is not None:
                self.in_flight.ack(point, body.ack_offsets or (body.ack_offset,))
        elif tags == ORDERED_POP_TAG:
            self._apply_ordered_pop(message, read_body(OrderedPopBody, message.body))
        elif tags == ORDERED_ACK_TAG:
            acked = read_body(OrderedAckBody, message.body)
            ordered = self._ordered_of(message, acked)
            was_open = ordered.is_open
            ordered.finish(acked.ack_offsets, self.steady_ms)
            self._keep_from(_place_of(message), ordered, was_open=was_open)

    def _apply_ordered_pop(self, message: StoredMessage, body: OrderedPopBody) -> None:
        ordered = self._ordered_of(message, body)
        was_open = ordered.is_open
        due_ms = body.pop_time + body.invisible_time - self._clock.jumped_ms()
        for offset, times in zip(body.offsets, body.times, strict=False):
            outing = Outing(
                body.pop_time, due_ms, times, body.attempt_id, is_suspended=body.is_suspended
            )
            self.ordered.go_out(ordered, offset, outing)
        self._keep_from(_place_of(message), ordered, was_open=was_open)

    def _ordered_of(
        self, message: StoredMessage, body: OrderedPopBody | OrderedAckBody
    ) -> OrderedQueue:
        queue = QueueOfGroup(body.consumer_group, body.topic, body.queue_id)
        low = message.properties.get(NEXT, "")
        return self.ordered.at(queue, int(low) if low.isdigit() else 0)

    def _keep_from(self, place: Place, ordered: OrderedQueue, *, was_open: bool) -> None:
        if ordered.is_open and not was_open:
            ordered.place = place
            self.in_flight.note(ordered)

    def _apply_check_point(
        self, message: StoredMessage, positions: dict[QueueOfGroup, int]
    ) -> None:
        body = read_body(CheckPointBody, message.body)
        queue = QueueOfGroup(body.consumer_group, body.topic, body.queue_id)
        key = PopKey(queue, body.start_offset, body.pop_time)
        if body.count == 1 and NEXT not in message.properties:
            self._perhaps_changed = key
        due_ms = body.pop_time + body.invisible_time
        if Property.TIMER_OUT_MS in message.properties:
            due_ms = max(due_ms, message.store_timestamp) + _APACHE_GRACE_MS
        self.in_flight.add(
            CheckPoint(
                key,
                _offsets_of(body),
                body.invisible_time,
                due_ms=due_ms - self._clock.jumped_ms(),
                place=_place_of(message),
                is_suspended=body.is_suspended,
                acked_bits=body.acked_bits,
            )
        )
        next_offset = message.properties.get(NEXT)
        if next_offset is None:
            return
        if body.count == 0:
            self.ordered.forget(queue)
        if next_offset.isdigit():
            positions[queue] = int(next_offset)
        else:
            positions.pop(queue, None)

    def _note_check_point(
        self, key: PopKey, body: CheckPointBody, next_offset: int | None = None
    ) -> int:
        written = self._writer.write(JOURNAL_QUEUE_ID, CHECK_POINT_TAG, body, next_offset)
        self.in_flight.add(
            CheckPoint(
                key,
                _offsets_of(body),
                body.invisible_time,
                due_ms=body.revive_time - self._clock.jumped_ms(),
                place=self._noted(JOURNAL_QUEUE_ID, written.offset),
                is_suspended=body.is_suspended,
                acked_bits=body.acked_bits,
            )
        )
        self._wake_before(self.next_due_ms)
        return written.end

    def _wake_before(self, due_ms: int | None) -> None:
        if due_ms is not None and (self.awaited_ms is None or due_ms < self.awaited_ms):
            self.is_woken.set()

    def _ordered_pop_body(
        self, queue: QueueOfGroup, outings: Mapping[int, Outing], invisible_ms: int
    ) -> OrderedPopBody:
        first = next(iter(outings.values()))
        return OrderedPopBody(
            attempt_id=first.attempt_id,
            broker_name=self._form.broker_name,
            consumer_group=queue.group,
            invisible_time=invisible_ms,
            offsets=list(outings),
            times=[outing.times for outing in outings.values()],
            pop_time=first.pop_time_ms,
            queue_id=queue.queue_id,
            is_suspended=first.is_suspended,
            topic=queue.topic,
        )

    def _ordered_ack_body(self, queue: QueueOfGroup, offsets: Sequence[int]) -> OrderedAckBody:
        return OrderedAckBody(
            ack_offsets=list(offsets),
            broker_name=self._form.broker_name,
            consumer_group=queue.group,
            queue_id=queue.queue_id,
            topic=queue.topic,
        )

    def _append_ordered(
        self, ordered: OrderedQueue, tag: str, body: OrderedPopBody | OrderedAckBody
    ) -> tuple[Place, int]:
        """Where the journal has it, and its end in the log. Raises Refused."""
        written = self._writer.write(JOURNAL_QUEUE_ID, tag, body, ordered.low)
        return self._noted(JOURNAL_QUEUE_ID, written.offset), written.end

    def _noted(self, queue_id: int, offset: int) -> Place:
        """Here is a record that need not be read any more: it was written by this process."""
        if offset == self._next_of(queue_id):
            self._next_offsets[queue_id] = offset + 1
        return Place(queue_id, offset)


def _place_of(message: StoredMessage) -> Place:
    return Place(message.queue_id, message.queue_offset)


def _offsets_of(body: CheckPointBody) -> Sequence[int]:
    start = body.start_offset
    if body.differences is None:
        return range(start, start + body.count)
    return tuple([start + difference for difference in body.differences])


def _signed(bits: int) -> int:
    """As Java's int32."""
    return bits - 2 * _SIGN_BIT if bits & _SIGN_BIT else bits

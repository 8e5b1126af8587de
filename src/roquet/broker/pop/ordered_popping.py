"""What a pop takes that wants messages in order, and what acks mean to it.

There is no retry topic: a message that is not acknowledged in time comes again from its place, and
before the others of its message group. The group's offset in a queue is the first message that is
not done, so that another broker resumes there.

Two things keep a message group from being blocked for ever. A message that was out more often than
its group wants (`retryMaxTimes`) goes to the dead letters instead. And a client that has lost a
reply may repeat its request with the same attempt id: it gets the same messages again, and this
does not count as one more delivery.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, final

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.membership import group_settings
from roquet.broker.messages.appending import (
    DLQ_QUEUE_COUNT,
    DLQ_QUEUE_ID,
    append_message,
    sent_back,
)
from roquet.broker.messages.subscriptions import Filter
from roquet.broker.pop.in_flight import QueueOfGroup
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.ordered_queue import OrderedQueue, Outing
from roquet.broker.pop.poll_counts import PollKey
from roquet.broker.pop.popping import ANY_QUEUE, position, queues_in_turn
from roquet.broker.pop.taken import FOUND, Batch, Taken, offset_of
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadMessage
from roquet.protocol.headers.pop import PopMessageHeader
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.pop_receipt import ORDERED_QUEUE_ID, Receipt
from roquet.protocol.messages.properties import property_of_bytes
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import dlq_topic
from roquet.store.reading.queue_reading import QueueReadLimits

# Messages that are read at once to learn their message groups, and how often in one pop.
SEEN_COUNT: Final = 32
_READ_COUNT_MAX: Final = 16

_SHARDING_KEY: Final = Property.SHARDING_KEY.encode()


@final
class OrderedPopping:
    """One look for messages; `taken` has what it took."""

    def __init__(self, broker: Broker, pop: PopMessageHeader, wanted: Filter) -> None:
        self._broker = broker
        self._pop = pop
        self._wanted = wanted
        self._attempt_id = pop.attempt_id or ""
        self._journal: PopJournal = broker.waiting.pops
        self.taken = Taken(broker, pop, ORDERED_QUEUE_ID)
        self._reads_left = _READ_COUNT_MAX
        # Those that were read to be seen, and may go out at once.
        self._records: dict[int, bytes] = {}

    def take(self) -> bool:
        """Takes what there is; whether there was anything. Raises Refused.

        What was taken before something was refused is in the reply all the same.
        """
        release_due(self._broker)
        pop = self._pop
        queues = [
            QueueOfGroup(pop.consumer_group, pop.topic, queue_id)
            for queue_id in _queue_ids(self._broker, pop.topic, pop.queue_id)
        ]
        try:
            repeated = [self._repeat(queue) for queue in queues]
            if not any(repeated):
                for queue in queues:
                    self._take_from(queue)
        except Refused:
            if not self.taken.count:
                raise
        return self.taken.count > 0

    def _repeat(self, queue: QueueOfGroup) -> bool:
        """Takes what this attempt has got already; whether there is any."""
        ordered = self._journal.ordered.find(queue)
        if ordered is None:
            return False
        self._records.clear()
        offsets = ordered.of_attempt(self._attempt_id)[: self.taken.count_left]
        found = [offset for offset in offsets if self._record(queue, offset) is not None]
        self._hand_out(ordered, {offset: ordered.out[offset].times for offset in found})
        return bool(found)

    def _take_from(self, queue: QueueOfGroup) -> None:
        ordered = _ordered_at_position(self._broker, queue, self._pop.init_mode)
        self._records.clear()
        given: dict[int, int] = {}
        named: list[int] = []
        count_max = self.taken.count_left
        try:
            while len(given) < count_max and self._size_of(given) < self.taken.size_left:
                offsets = ordered.next_ready(count_max - len(given)) if ordered.is_known else []
                named += offsets
                if offsets:
                    given |= self._deliverable(ordered, offsets)
                elif not self._see_more(ordered):
                    break
            self._hand_out(ordered, given)
        finally:
            ordered.put_back(named, self._journal.steady_ms)
        self._broker.tables.offsets.commit(*queue, ordered.low)
        rest = self._broker.store.max_offset(queue.topic, queue.queue_id) - ordered.low
        self.taken.rest_count += max(0, rest - len(ordered.done) - len(ordered.out))

    def _deliverable(self, ordered: OrderedQueue, offsets: list[int]) -> dict[int, int]:
        """How often each of them was out before, of as many as there is room for. If one is gone,
        or a dead letter, all have to be named again: then there is nothing here. Raises Refused."""
        now_ms = self._journal.steady_ms
        times_max = group_settings(self._broker, ordered.queue.group).retry_max_times
        found: dict[int, int] = {}
        for offset in offsets:
            outing = ordered.out.get(offset)
            times = 0 if outing is None else outing.times_next
            record = self._record(ordered.queue, offset)
            is_dead = 0 <= times_max < times
            if record is None:
                ordered.skip((offset,), now_ms)
            elif is_dead:
                self._send_to_dlq(ordered, record, times)
            if record is None or is_dead:
                ordered.put_back(offsets, now_ms)
                return {}
            if self._size_of(found) >= self.taken.size_left:
                break
            found[offset] = times
        return found

    def _send_to_dlq(self, ordered: OrderedQueue, record: bytes, times: int) -> None:
        message = read_record(record)
        name = dlq_topic(ordered.queue.group)
        self._broker.tables.topics.find_or_create(name, DLQ_QUEUE_COUNT)
        dead = replace(sent_back(message, name, DLQ_QUEUE_ID, None), reconsume_times=times)
        append_message(self._broker.messages, dead.with_properties(**{Property.CHECKSUM: None}))
        self._journal.note_ordered_acks(ordered, (message.queue_offset,))

    def _see_more(self, ordered: OrderedQueue) -> bool:
        """Reads on in the queue; whether there was anything."""
        if not ordered.room:
            return False
        if not self._reads_left:
            self.taken.has_more_to_see = True
            return False
        self._reads_left -= 1
        _, topic, queue_id = ordered.queue
        limits = QueueReadLimits(min(SEEN_COUNT, ordered.room), self.taken.size_left, *self._wanted)
        start, now_ms = ordered.seen_to, self._journal.steady_ms
        result = self._broker.store.read(topic, queue_id, start, limits)
        if result.status is FOUND:
            for record in result.records:
                offset = offset_of(record)
                ordered.see(offset, _message_group(record), now_ms)
                self._records[offset] = record
        ordered.skip_to(result.next_offset, now_ms)
        return ordered.seen_to > start

    def _record(self, queue: QueueOfGroup, offset: int) -> bytes | None:
        """None if it is gone."""
        record = self._records.get(offset)
        if record is None:
            _, topic, queue_id = queue
            record = self._broker.store.read(topic, queue_id, offset, QueueReadLimits(1, 1)).body
            if not record or offset_of(record) != offset:
                return None
            self._records[offset] = record
        return record

    def _size_of(self, offsets: Iterable[int]) -> int:
        return sum([len(self._records[offset]) for offset in offsets])

    def _hand_out(self, ordered: OrderedQueue, given: Mapping[int, int]) -> None:
        """These were out so often before. Raises Refused; then nothing has changed."""
        if not given:
            return
        invisible_ms = self._pop.invisible_time
        due_ms = self._journal.steady_ms + invisible_ms
        offsets = sorted(given)
        outings = {
            offset: Outing(self.taken.pop_time_ms, due_ms, given[offset], self._attempt_id)
            for offset in offsets
        }
        end = self._journal.note_ordered_pop(ordered, outings, invisible_ms)
        body = b"".join([self._records[offset] for offset in offsets])
        times = [given[offset] for offset in offsets]
        self.taken.add(Batch(ordered.queue, offsets, body, times), end)


def has_ordered_messages(broker: Broker, key: PollKey, attempt_id: str) -> bool:
    """Whether a pop may find something. What no pop has seen may be of a blocked message group."""
    release_due(broker)
    for queue_id in _queue_ids(broker, key.topic, key.queue_id):
        queue = QueueOfGroup(key.group, key.topic, queue_id)
        ordered = broker.waiting.pops.ordered.find(queue)
        if ordered is not None and (ordered.has_ready or ordered.of_attempt(attempt_id)):
            return True
        if ordered is None or not ordered.is_known or ordered.room:
            known = broker.tables.offsets.find(*queue) or 0
            seen_to = known if ordered is None else max(known, ordered.seen_to)
            if broker.store.max_offset(key.topic, queue_id) > seen_to:
                return True
    return False


def release_due(broker: Broker) -> None:
    """Wakes pops that wait for messages whose time is over."""
    journal = broker.waiting.pops
    for queue in journal.ordered.release_due(journal.steady_ms):
        broker.messages.long_polls.announce(queue.topic, queue.queue_id)


def ack_in_order(
    broker: Broker, queue: QueueOfGroup, pop_time_ms: int, offsets: Sequence[int]
) -> int:
    """These messages of one pop are done; the end of the log. Raises Refused.

    As with Apache, those that were popped again are left alone, but what was never popped together
    with the others is refused.
    """
    journal = broker.waiting.pops
    ordered = journal.ordered.find(queue)
    if ordered is None:
        return broker.store.log_end
    known = [offset for offset in offsets if _is_out(ordered, offset, pop_time_ms)]
    if known:
        end = journal.note_ordered_acks(ordered, known)
        broker.tables.offsets.commit(*queue, ordered.low)
        broker.messages.long_polls.announce(queue.topic, queue.queue_id)
        return end
    is_strange = all(
        offset >= ordered.low and offset not in ordered.done and offset not in ordered.out
        for offset in offsets
    )
    if is_strange and any(each.pop_time_ms == pop_time_ms for each in ordered.out.values()):
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"offset {offsets[0]} of queue {queue.queue_id} of {queue.topic!r} was not popped at"
            f" {pop_time_ms}",
        )
    return broker.store.log_end


def change_in_order(
    broker: Broker,
    queue: QueueOfGroup,
    receipt: Receipt,
    invisible_ms: int,
    *,
    is_suspended: bool,
) -> int:
    """The message is out for so long from now on; the end of the log. Raises Refused.

    One that is not out under this receipt stays where it is.
    """
    journal, offset = broker.waiting.pops, receipt.offset
    ordered = journal.ordered.find(queue)
    if ordered is None or not _is_out(ordered, offset, receipt.pop_time_ms):
        return broker.store.log_end
    old = ordered.out[offset]
    outing = Outing(
        old.pop_time_ms,
        journal.steady_ms + invisible_ms,
        old.times,
        old.attempt_id,
        is_suspended=is_suspended,
    )
    since_ms = broker.clock.now_ms() - old.pop_time_ms
    return journal.note_ordered_pop(ordered, {offset: outing}, since_ms + invisible_ms)


def _is_out(ordered: OrderedQueue, offset: int, pop_time_ms: int) -> bool:
    outing = ordered.out.get(offset)
    return outing is not None and outing.pop_time_ms == pop_time_ms


def _ordered_at_position(broker: Broker, queue: QueueOfGroup, init_mode: int) -> OrderedQueue:
    """Raises TableFull."""
    _, topic, queue_id = queue
    store = broker.store
    low = max(position(broker, queue, init_mode), store.min_offset(topic, queue_id))
    if low > store.end_offset(topic, queue_id):
        low = store.max_offset(topic, queue_id)  # The queue has started again.
    return broker.waiting.pops.ordered.at(queue, low)


def _queue_ids(broker: Broker, topic: str, queue_id: int) -> Iterable[int]:
    if queue_id != ANY_QUEUE:
        return (queue_id,)
    return queues_in_turn(broker, topic, broker.waiting.first_queue.draw())


def _message_group(record: bytes) -> bytes:
    try:
        properties = read_record(record).raw_properties
    except BadMessage:
        return b""
    return property_of_bytes(properties, _SHARDING_KEY) or b""

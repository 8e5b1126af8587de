"""What a pop takes: messages of any queue of a topic, and of the retry topics of its group.

The group's offset in a queue is what is popped next. It moves when messages are handed out, not
when they are acknowledged: `journal` knows what is out. The reply waits until the journal is as
safe as a message that was sent, so that no crash hands out before its time what a client has.
"""

from collections.abc import Iterator, Sequence
from typing import Final, final

from roquet.broker.broker import Broker
from roquet.broker.messages.subscriptions import Filter
from roquet.broker.pop.first_queue import first_of, is_retry_first
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.journal_writing import JOURNAL_QUEUE_ID
from roquet.broker.pop.poll_counts import PollKey
from roquet.broker.pop.receipts import kind_of
from roquet.broker.pop.taken import FOUND, NOTHING, Batch, Taken, offset_of
from roquet.broker.settings.config import BrokerConfig
from roquet.net.errors import Refused
from roquet.net.router import Reply
from roquet.protocol.codes import ResponseCode
from roquet.protocol.headers.pop import PopMessageHeader, PopMessageReplyHeader
from roquet.protocol.messages.pop_receipt import TopicKind
from roquet.protocol.names import pop_retry_topic
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits, ReadResult

ANY_QUEUE: Final = -1
INIT_MIN: Final = 0
# A pop that reaches the broker this long after its time would be answered in vain.
LATE_MS_MAX: Final = 500

# A filter may want nothing of what it sees: this often it sees more before others have their turn.
_READ_COUNT_MAX: Final = 16


def retry_topics(config: BrokerConfig, group: str, topic: str) -> tuple[str, ...]:
    """Where messages of a topic come again; the first one is written to."""
    first_form = pop_retry_topic(group, topic)
    if not config.pop_retries_v2:
        return (first_form,)
    second_form = pop_retry_topic(group, topic, is_v2=True)
    return (second_form, first_form) if config.pop_reads_retries_v1 else (second_form,)


@final
class Popping:
    """One look for messages; `taken` has what it took."""

    def __init__(self, broker: Broker, pop: PopMessageHeader, wanted: Filter) -> None:
        self._broker = broker
        self._pop = pop
        self._wanted = wanted
        self._journal: PopJournal = broker.waiting.pops
        self.taken = Taken(broker, pop, JOURNAL_QUEUE_ID)

    def take(self) -> bool:
        """Takes what there is; whether there was anything. Raises Refused.

        What was taken before something was refused is in the reply all the same.
        """
        taken = self.taken
        for topic, queue_id in self._queues():
            if not taken.count_left:
                taken.rest_count += self._rest_of(topic, queue_id)
                continue
            try:
                self._take_from(topic, queue_id)
            except Refused:
                if not taken.count:
                    raise
                break
        return taken.count > 0

    def _queues(self) -> Iterator[tuple[str, int]]:
        pop, config = self._pop, self._broker.config
        retries = retry_topics(config, pop.consumer_group, pop.topic)
        number = self._broker.waiting.first_queue.draw()
        are_retries_first = is_retry_first(number, config.pop_retry_percent)
        if are_retries_first:
            yield from self._queues_of(retries, number)
        if pop.queue_id == ANY_QUEUE:
            yield from self._queues_of((pop.topic,), number)
        else:
            yield pop.topic, pop.queue_id
        if not are_retries_first:
            yield from self._queues_of(retries, number)

    def _queues_of(self, topics: Sequence[str], number: int) -> Iterator[tuple[str, int]]:
        for topic in topics:
            for queue_id in queues_in_turn(self._broker, topic, number):
                yield topic, queue_id

    def _rest_of(self, topic: str, queue_id: int) -> int:
        known = self._broker.tables.offsets.find(self._pop.consumer_group, topic, queue_id)
        return max(0, self._broker.store.max_offset(topic, queue_id) - (known or 0))

    def _take_from(self, topic: str, queue_id: int) -> None:
        queue = QueueOfGroup(self._pop.consumer_group, topic, queue_id)
        if self._is_full(queue):
            self.taken.rest_count += self._rest_of(topic, queue_id)
            return
        start = position(self._broker, queue, self._pop.init_mode)
        result = self._read(queue, start)
        if self._is_taken(queue, result):
            self.taken.has_more_to_see = True
            return
        rest = max(0, result.max_offset - result.next_offset)
        self.taken.rest_count += rest
        if result.status is FOUND:
            self._hand_out(queue, result)
        elif rest:
            self.taken.has_more_to_see = True
        store = self._broker.store
        if start > result.max_offset and start <= store.end_offset(topic, queue_id):
            return  # After a start: replicas have not confirmed what was popped before it.
        if result.next_offset != start:
            self._broker.tables.offsets.commit(*queue, result.next_offset)

    def _is_full(self, queue: QueueOfGroup) -> bool:
        config = self._broker.config
        count = self._journal.in_flight.counts[queue] if config.limit_in_flight else 0
        return count > config.in_flight_count_max

    def _read(self, queue: QueueOfGroup, offset: int) -> ReadResult:
        """What is wanted from `offset` on, wherever the first of it is."""
        limits = QueueReadLimits(self.taken.count_left, self.taken.size_left, *self._wanted)
        store = self._broker.store
        for _ in range(_READ_COUNT_MAX):
            result = store.read(queue.topic, queue.queue_id, offset, limits)
            if result.status is FOUND or result.next_offset == offset:
                break
            offset = result.next_offset
        return result

    def _is_taken(self, queue: QueueOfGroup, result: ReadResult) -> bool:
        """Whether the key of these messages is in use: their time comes with the next look."""
        if result.status is not FOUND:
            return False
        key = PopKey(queue, offset_of(result.body), self.taken.pop_time_ms)
        return self._journal.in_flight.find(key) is not None

    def _hand_out(self, queue: QueueOfGroup, result: ReadResult) -> None:
        offsets = _offsets_in(result)
        key = PopKey(queue, offsets[0], self.taken.pop_time_ms)
        end = self._journal.note_pop(key, offsets, self._pop.invisible_time, result.next_offset)
        self.taken.add(Batch(queue, offsets, result.body), end)


def _offsets_in(result: ReadResult) -> Sequence[int]:
    """Of the messages that were found, which are in the order of the queue."""
    first = offset_of(result.body)
    if result.next_offset - first == result.count:
        return range(first, result.next_offset)  # Nothing between them was left out.
    return [offset_of(record) for record in result.records]


def queues_in_turn(broker: Broker, topic: str, number: int) -> Iterator[int]:
    """Any queue of the topic, as drawn for the pop, and those after it."""
    config = broker.tables.topics.find(topic)
    count = 0 if config is None else config.read_queue_nums
    if count > 0:
        first = first_of(number, count)
        for index in range(count):
            yield (first + index) % count


def position(broker: Broker, queue: QueueOfGroup, init_mode: int) -> int:
    """What the group pops next. Raises TableFull."""
    offsets, store = broker.tables.offsets, broker.store
    reset = offsets.take_reset(*queue)
    known = offsets.find(*queue) if reset is None else reset
    if known is not None:
        return known
    offsets.check_room(*queue)
    _, topic, queue_id = queue
    if init_mode == INIT_MIN or kind_of(topic) != TopicKind.TOPIC:
        return store.min_offset(topic, queue_id)
    offset = first_offset(store, broker.config, topic, queue_id)
    offsets.commit(*queue, offset)
    return offset


def has_messages(broker: Broker, key: PollKey) -> bool:
    """Whether a pop would find something; a group that is new finds what there is."""
    offsets, store = broker.tables.offsets, broker.store
    return any(
        store.max_offset(topic, queue_id) > (offsets.find(key.group, topic, queue_id) or 0)
        for topic, queue_id in queues_of(broker, key)
    )


def queues_of(broker: Broker, key: PollKey) -> Iterator[tuple[str, int]]:
    """All that a pop may take from, in no order that matters."""
    for topic in (key.topic, *retry_topics(broker.config, key.group, key.topic)):
        config = broker.tables.topics.find(topic)
        if topic == key.topic and key.queue_id != ANY_QUEUE:
            yield topic, key.queue_id
        elif config is not None:
            for queue_id in range(config.read_queue_nums):
                yield topic, queue_id


def peek(broker: Broker, key: PollKey, count_max: int) -> Reply:
    """Messages that a pop would take, without taking them."""
    offsets, store = broker.tables.offsets, broker.store
    size_left = broker.config.store.read_size_max_in_memory
    bodies: list[bytes] = []
    count = rest = 0
    for topic, queue_id in queues_of(broker, key):
        known = offsets.find(key.group, topic, queue_id)
        start = store.min_offset(topic, queue_id) if known is None else known
        rest += max(0, store.max_offset(topic, queue_id) - start)
        if count < count_max and size_left > 0:
            limits = QueueReadLimits(count_max - count, size_left)
            result = store.read(topic, queue_id, start, limits)
            bodies.append(result.body)
            count += result.count
            size_left -= len(result.body)
    header = PopMessageReplyHeader(pop_time=0, invisible_time=0, revive_qid=0, rest_num=rest)
    if not count:
        return Reply(ResponseCode.PULL_NOT_FOUND, header, remark=NOTHING)
    return Reply(ResponseCode.SUCCESS, header, b"".join(bodies), remark=FOUND.value)


def first_offset(store: MessageStore, config: BrokerConfig, topic: str, queue_id: int) -> int:
    """Where a new group starts that wants what comes from now on: with all of a young topic, and
    else with the last message, as at Apache's."""
    first = store.entries(topic, queue_id, 0, 1) if store.min_offset(topic, queue_id) == 0 else []
    is_young = (
        config.pop_young_topics_from_start
        and bool(first)
        and store.log_end - first[0].physical_offset <= config.store.in_memory_size
    )
    return 0 if is_young else max(0, store.max_offset(topic, queue_id) - 1)

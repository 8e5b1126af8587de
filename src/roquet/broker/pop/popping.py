"""What a pop takes: messages of any queue of a topic, and of the retry topics of its group.

The group's offset in a queue is what is popped next. It moves when messages are handed out, not
when they are acknowledged: `journal` knows what is out. The reply waits until the journal is as
safe as a message that was sent, so that no crash hands out before its time what a client has.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Final, final

from roquet.broker.broker import Broker
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.subscriptions import Filter
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.journal import JOURNAL_QUEUE_ID, PopJournal
from roquet.broker.pop.poll_counts import PollKey
from roquet.broker.pop.receipts import (
    Receipt,
    TopicKind,
    kind_of,
    offsets_info,
    start_info,
    with_receipt,
)
from roquet.broker.settings.config import BrokerConfig
from roquet.net.errors import Refused
from roquet.net.router import Reply, ReplyDeferred, Request
from roquet.protocol.codes import ResponseCode
from roquet.protocol.headers.pop import PopMessageHeader, PopMessageReplyHeader
from roquet.protocol.names import pop_retry_topic
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits, ReadResult, ReadStatus

ANY_QUEUE: Final = -1
INIT_MIN: Final = 0

# A filter may want nothing of what it sees: this often it sees more before others have their turn.
_READ_COUNT_MAX: Final = 16
_PERCENT: Final = 100
_NOTHING: Final = "NO_MESSAGE_IN_QUEUE"
_FOUND: Final = ReadStatus.FOUND
_OFFSET_START: Final = 20  # of its offset, in a record
_OFFSET_END: Final = 28


def retry_topics(config: BrokerConfig, group: str, topic: str) -> tuple[str, ...]:
    """Where messages of a topic come again; the first one is written to."""
    first_form = pop_retry_topic(group, topic)
    if not config.pop_retries_v2:
        return (first_form,)
    second_form = pop_retry_topic(group, topic, is_v2=True)
    return (second_form, first_form) if config.pop_reads_retries_v1 else (second_form,)


@final
class Popping:
    """One look for messages; `reply` has what it took."""

    def __init__(self, broker: Broker, request: Request[PopMessageHeader], wanted: Filter) -> None:
        self._broker = broker
        self._request = request
        self._pop = request.header
        self._wanted = wanted
        self._journal: PopJournal = broker.waiting.pops
        self._pop_time_ms = broker.clock.now_ms()
        self._size_left = broker.config.store.read_size_max_in_memory
        self._bodies: list[bytes] = []
        self._starts: list[str] = []
        self._offsets: list[str] = []
        self._rest_count = 0
        # Just past the last record of the journal that this pop wrote.
        self._end = 0
        self.count = 0
        # Whether a filter has seen only a part of what there is.
        self.has_more_to_see = False

    def take(self) -> bool:
        """Takes what there is; whether there was anything. Raises Refused.

        What was taken before something was refused is in the reply all the same.
        """
        for topic, queue_id in self._queues():
            if self.count >= self._pop.max_msg_nums or self._size_left <= 0:
                self._rest_count += self._rest_of(topic, queue_id)
                continue
            try:
                self._take_from(topic, queue_id)
            except Refused:
                if not self.count:
                    raise
                break
        return self.count > 0

    def reply(self) -> Reply | ReplyDeferred | bytes:
        """With the messages, or without any; for a handler to return."""
        header = PopMessageReplyHeader(
            pop_time=self._pop_time_ms,
            invisible_time=self._pop.invisible_time,
            revive_qid=JOURNAL_QUEUE_ID,
            rest_num=self._rest_count,
            start_offset_info=";".join(self._starts),
            msg_offset_info=";".join(self._offsets),
        )
        if not self.count:
            self._broker.statistics.count_miss()
            return Reply(ResponseCode.POLLING_TIMEOUT, header, remark=_NOTHING)
        body = b"".join(self._bodies)
        pop = self._pop
        self._broker.statistics.count_get(pop.consumer_group, pop.topic, self.count, len(body))
        reply = Reply(ResponseCode.SUCCESS, header, body, remark=_FOUND.value)
        return self._broker.messages.acks.reply_when_safe(
            self._request, self._end, reply, OnTimeout.IGNORE
        )

    def _queues(self) -> Iterator[tuple[str, int]]:
        pop, config = self._pop, self._broker.config
        retries = retry_topics(config, pop.consumer_group, pop.topic)
        # Which queue is first is no secret.
        is_retry_first = random.randrange(_PERCENT) < config.pop_retry_percent  # noqa: S311
        if is_retry_first:
            yield from self._queues_of(retries)
        if pop.queue_id == ANY_QUEUE:
            yield from self._queues_of((pop.topic,))
        else:
            yield pop.topic, pop.queue_id
        if not is_retry_first:
            yield from self._queues_of(retries)

    def _queues_of(self, topics: Sequence[str]) -> Iterator[tuple[str, int]]:
        for topic in topics:
            config = self._broker.tables.topics.find(topic)
            count = 0 if config is None else config.read_queue_nums
            if count > 0:
                first = random.randrange(count)  # noqa: S311
                for index in range(count):
                    yield topic, (first + index) % count

    def _rest_of(self, topic: str, queue_id: int) -> int:
        known = self._broker.tables.offsets.find(self._pop.consumer_group, topic, queue_id)
        return max(0, self._broker.store.max_offset(topic, queue_id) - (known or 0))

    def _take_from(self, topic: str, queue_id: int) -> None:
        queue = QueueOfGroup(self._pop.consumer_group, topic, queue_id)
        if self._is_full(queue):
            self._rest_count += self._rest_of(topic, queue_id)
            return
        start = self._position(queue)
        result = self._read(queue, start)
        if self._is_taken(queue, result):
            self.has_more_to_see = True
            return
        rest = max(0, result.max_offset - result.next_offset)
        self._rest_count += rest
        if result.status is _FOUND:
            self._hand_out(queue, result)
        elif rest:
            self.has_more_to_see = True
        if result.next_offset != start:
            self._broker.tables.offsets.commit(*queue, result.next_offset)

    def _is_full(self, queue: QueueOfGroup) -> bool:
        config = self._broker.config
        count = self._journal.in_flight.counts[queue] if config.limit_in_flight else 0
        return count > config.in_flight_count_max

    def _read(self, queue: QueueOfGroup, offset: int) -> ReadResult:
        """What is wanted from `offset` on, wherever the first of it is."""
        limits = QueueReadLimits(
            self._pop.max_msg_nums - self.count, self._size_left, *self._wanted
        )
        store = self._broker.store
        for _ in range(_READ_COUNT_MAX):
            result = store.read(queue.topic, queue.queue_id, offset, limits)
            if result.status is _FOUND or result.next_offset == offset:
                break
            offset = result.next_offset
        return result

    def _is_taken(self, queue: QueueOfGroup, result: ReadResult) -> bool:
        """Whether the key of these messages is in use: their time comes with the next look."""
        if result.status is not _FOUND:
            return False
        start = int.from_bytes(result.body[_OFFSET_START:_OFFSET_END])
        key = PopKey(queue, start, self._pop_time_ms)
        return self._journal.in_flight.find(key) is not None

    def _hand_out(self, queue: QueueOfGroup, result: ReadResult) -> None:
        records = result.records
        offsets = [int.from_bytes(record[_OFFSET_START:_OFFSET_END]) for record in records]
        key = PopKey(queue, offsets[0], self._pop_time_ms)
        self._end = self._journal.note_pop(
            key, offsets, self._pop.invisible_time, result.next_offset
        )
        self.count += len(records)
        self._size_left -= len(result.body)
        kind = kind_of(queue.topic)
        self._starts.append(start_info(kind, queue.queue_id, offsets[0]))
        self._offsets.append(offsets_info(kind, queue.queue_id, offsets))
        if kind == TopicKind.TOPIC or self._broker.config.show_retry_topics:
            self._bodies.append(result.body)
        else:
            self._bodies += [
                with_receipt(record, self._pop.topic, self._receipt(key, kind, offset))
                for record, offset in zip(records, offsets, strict=True)
            ]

    def _receipt(self, key: PopKey, kind: str, offset: int) -> Receipt:
        return Receipt(
            key.start_offset,
            key.pop_time_ms,
            self._pop.invisible_time,
            JOURNAL_QUEUE_ID,
            kind,
            self._broker.config.broker_name,
            key.queue.queue_id,
            offset,
        )

    def _position(self, queue: QueueOfGroup) -> int:
        """What is popped next. Raises TableFull."""
        offsets, store = self._broker.tables.offsets, self._broker.store
        reset = offsets.take_reset(*queue)
        known = offsets.find(*queue) if reset is None else reset
        if known is not None:
            return known
        offsets.check_room(*queue)
        _, topic, queue_id = queue
        if self._pop.init_mode == INIT_MIN or kind_of(topic) != TopicKind.TOPIC:
            return store.min_offset(topic, queue_id)
        offset = first_offset(store, self._broker.config, topic, queue_id)
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
        return Reply(ResponseCode.PULL_NOT_FOUND, header, remark=_NOTHING)
    return Reply(ResponseCode.SUCCESS, header, b"".join(bodies), remark=_FOUND.value)


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

"""ReceiveMessage: pops messages for a client, and waits for them.

The answer is a stream: a status, the messages, and when they were handed out. A client that is gone
before it has got all of it gives the messages back: they are redelivered at once, and it does not
count as a delivery.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, final

from roquet.broker.broker import Broker
from roquet.broker.handlers.answers import check_is_master
from roquet.broker.handlers.popping import check_readable
from roquet.broker.membership import group_settings
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.appending import (
    DLQ_QUEUE_COUNT,
    DLQ_QUEUE_ID,
    append_message,
    sent_back,
)
from roquet.broker.messages.long_polling import ANY_QUEUE as ANY_QUEUE_NAME, QueueName
from roquet.broker.messages.subscriptions import Filter, filter_of_pop
from roquet.broker.pop.acking import acknowledge
from roquet.broker.pop.in_flight import QueueOfGroup
from roquet.broker.pop.ordered_popping import OrderedPopping
from roquet.broker.pop.poll_counts import PollKey
from roquet.broker.pop.popping import ANY_QUEUE, Popping, retry_topics
from roquet.broker.pop.taken import Taken
from roquet.grpc.calls import Call, with_head
from roquet.grpc.clients import GrpcClient
from roquet.grpc.codes import Code, RefusedCall, refusal_status, status_of
from roquet.grpc.in_broker.registration import Held, hold, release
from roquet.grpc.in_broker.routing import found_topic
from roquet.grpc.message_form import put_message, resource_of
from roquet.grpc.names import group_name
from roquet.grpc.receives import (
    ReceiveOptions,
    attempts_max,
    finish_empty,
    poll_s,
    receive_options,
    send_messages,
)
from roquet.grpc.schema import Message, pb
from roquet.grpc.shown_records import shown_records
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.headers.pop import PopMessageHeader
from roquet.protocol.messages.message import Property, StoredMessage
from roquet.protocol.messages.pop_receipt import Receipt
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import dlq_topic

_INIT_MAX: Final = 1


class _PopRequest(NamedTuple):
    """A receive in terms of a pop."""

    options: ReceiveOptions
    pop: PopMessageHeader
    filter: Filter


def receive_message(broker: Broker, client: GrpcClient[Held], call: Call, request: Message) -> None:
    """Raises Refused."""
    check_is_master(broker.config)
    pop_request = _pop_request(broker, request)
    receiving = _WaitingReceive(broker, client, call, pop_request)
    if receiving.look():
        return
    timeout_s = poll_s(call, request)
    key = receiving.key
    if timeout_s <= 0:
        receiving.give_up()
    elif not broker.waiting.pop_polls.has_room(key, broker.config):
        raise RefusedCall(Code.TOO_MANY_REQUESTS, "too many receives wait already: popPollingSize")
    else:
        receiving.wait(timeout_s)


def _pop_request(broker: Broker, request: Message) -> _PopRequest:
    topic = found_topic(broker, request.message_queue.topic).topic_name
    check_readable(broker, topic, ANY_QUEUE, group_name(request.group))
    options = receive_options(request)
    pop = PopMessageHeader(
        consumer_group=options.group,
        topic=topic,
        queue_id=ANY_QUEUE,
        max_msg_nums=options.count_max,
        invisible_time=options.invisible_ms,
        poll_time=0,
        born_time=0,
        init_mode=_INIT_MAX,
        exp_type=options.subscription.expression_type,
        exp=options.subscription.expression,
        order=group_settings(broker, options.group).consume_message_orderly,
        attempt_id=options.attempt_id,
    )
    return _PopRequest(options, pop, filter_of_pop(pop.exp, pop.exp_type, broker.config))


@final
class _WaitingReceive:
    """One call, from its first look to its answer; waits like a pop of remoting."""

    def __init__(
        self, broker: Broker, client: GrpcClient[Held], call: Call, pop_request: _PopRequest
    ) -> None:
        self._broker = broker
        self._client = client
        self._call = call
        self._request = pop_request
        pop = pop_request.pop
        self.key = PollKey(pop.topic, pop.consumer_group, ANY_QUEUE)
        self._is_waiting = False
        self._taken: Taken | None = None
        self._body_size = 0
        self.last_tick = 0
        self.queues = (
            QueueName(pop.topic, ANY_QUEUE_NAME),
            *(
                QueueName(topic, ANY_QUEUE_NAME)
                for topic in retry_topics(broker.config, pop.consumer_group, pop.topic)
            ),
        )
        call.on_closed = self._closed

    def wait(self, timeout_s: float) -> None:
        self._is_waiting = True
        self._broker.waiting.pop_polls.add(self.key)
        self._broker.messages.long_polls.wait(self, timeout_s)

    # Called by long polls.

    def look(self) -> bool:
        """Answers if there is anything, or if that is refused."""
        polls, turn = self._broker.waiting.pop_polls, self._broker.messages.long_polls.turn
        if self._is_waiting and polls.empty_turns.get(self.key) == turn:
            return False
        pop = self._request.pop
        kind = OrderedPopping if pop.order else Popping
        popping = kind(self._broker, pop, self._request.filter)
        try:
            has_any = popping.take()
        except Refused as refused:
            self._end_wait()
            finish_empty(self._call, refusal_status(refused))
            return True
        if not has_any:
            if popping.taken.has_more_to_see:
                self._broker.messages.long_polls.announce(pop.topic, ANY_QUEUE)
            if self._is_waiting:
                polls.empty_turns[self.key] = turn
            return False
        self._end_wait()
        taken = popping.taken
        self._taken = taken
        self._broker.messages.acks.when_settled(
            taken.end, lambda code: self._answer(taken, code), OnTimeout.IGNORE
        )
        return True

    def give_up(self) -> None:
        self._end_wait()
        self._broker.statistics.count_miss()
        finish_empty(self._call, status_of(Code.MESSAGE_NOT_FOUND, "no new message"))

    def _end_wait(self) -> None:
        if self._is_waiting:
            self._is_waiting = False
            self._broker.waiting.pop_polls.remove(self.key)

    def _closed(self, is_complete: bool) -> None:
        if self._is_waiting:
            self._end_wait()
            self._broker.messages.long_polls.forget(self)
        if not is_complete and self._taken is not None:
            for held in _given(self._taken):
                self._client.held.pop(held.receipt.text, None)
                release(self._broker, held)

    def _answer(self, taken: Taken, code: ResponseCode) -> None:
        if not self._call.is_open:
            return  # It was given back when the call was closed.
        if code is not ResponseCode.SUCCESS:
            finish_empty(self._call, status_of(Code.INTERNAL_SERVER_ERROR, "the disk has failed"))
            return
        messages = list(self._shown(taken))
        if not messages:
            finish_empty(self._call, status_of(Code.MESSAGE_NOT_FOUND, "no match message"))
            return
        self._broker.statistics.count_get(
            self._request.pop.consumer_group,
            self._request.pop.topic,
            len(messages),
            self._body_size,
        )
        send_messages(self._call, messages, self._broker.clock.now_ms())

    def _shown(self, taken: Taken) -> Iterator[bytes]:
        """The messages, but for those that the client does not want, or has had too often."""
        pop, options = self._request.pop, self._request.options
        count_max = attempts_max(group_settings(self._broker, pop.consumer_group))
        tags = frozenset(each.encode() for each in options.subscription.tags) or None
        topic = resource_of(pop.topic).SerializeToString()
        for batch in taken.batches:
            records = batch.records
            # All receipts of a batch are the same up to the offset.
            start = taken.receipt(batch, 0).text.removesuffix("0").encode()
            found, body_size = shown_records(records, batch.times, topic, start, tags, count_max)
            self._body_size += body_size
            for index, shown in enumerate(found):
                if shown is not None and not options.is_renewed:
                    yield shown
                    continue
                receipt = taken.receipt(batch, batch.offsets[index])
                if shown is None:
                    times = batch.times[index] if batch.times else 0
                    shown = self._one(batch.queue, records[index], receipt, times, count_max)
                if shown is not None:
                    if options.is_renewed:
                        hold(self._broker, self._client, batch.queue, receipt)
                    yield shown

    def _one(
        self,
        queue: QueueOfGroup,
        record: bytes,
        receipt: Receipt,
        times: int,
        count_max: int,
    ) -> bytes | None:
        """One that is not shown as it is stored."""
        broker, pop = self._broker, self._request.pop
        try:
            message = read_record(record)
            message.reconsume_times = max(message.reconsume_times, times)
            if not self._request.options.wants(message):
                acknowledge(broker, queue, receipt, (receipt.offset,))
                return None
            if message.reconsume_times >= count_max:
                send_to_dlq(broker, message, pop.consumer_group)
                acknowledge(broker, queue, receipt, (receipt.offset,))
                return None
            shown = pb.ReceiveMessageResponse()
            put_message(shown.message, message, pop.topic, receipt.text)
        except (BadMessage, TooLarge, Refused):
            return None  # It is redelivered when its time is over.
        self._body_size += len(shown.message.body)
        return with_head(shown.SerializeToString())


def _given(taken: Taken) -> Iterator[Held]:
    for batch in taken.batches:
        for receipt in taken.receipts(batch):
            yield Held(batch.queue, receipt, 0.0)


def send_to_dlq(broker: Broker, message: StoredMessage, group: str) -> int:
    """Stores a message for the dead letters of a group; the end of that in the log.

    Raises Refused.
    """
    name = dlq_topic(group)
    broker.tables.topics.find_or_create(name, DLQ_QUEUE_COUNT)
    dead = sent_back(message, name, DLQ_QUEUE_ID, None)
    appended = append_message(broker.messages, dead.with_properties(**{Property.CHECKSUM: None}))
    return appended.physical_offset + appended.size

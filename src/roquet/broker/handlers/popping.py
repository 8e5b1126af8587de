"""Pops of 5.x (200050), and what becomes of popped messages: acks (200051, 200151), and changes of
the time until they come again (200053). And what pops would find: 200052, 200054, 200055.

An ack is answered with success whether or not its receipt still counts: a message that came again
meanwhile has another receipt, and Apache's clients expect nothing else.
"""

from typing import Final

from msgspec.structs import replace

from roquet.access.needs import reading
from roquet.broker.broker import Broker
from roquet.broker.errors import UnknownTopic
from roquet.broker.handlers.answers import check_is_master
from roquet.broker.handlers.needs import ACKING, BATCH_ACKING, CHANGING
from roquet.broker.membership import group_settings
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.subscriptions import filter_of_pop
from roquet.broker.pop.acking import acknowledge, acknowledge_all, change_time
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.journal import POP_COUNT_MAX
from roquet.broker.pop.poll_counts import PollKey
from roquet.broker.pop.polling import answer_notification, answer_pop
from roquet.broker.pop.popping import ANY_QUEUE, LATE_MS_MAX, peek
from roquet.broker.pop.receipts import read_receipt
from roquet.net.errors import Refused
from roquet.net.router import Answer, Reply, Request, on
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.pop import BatchAckRequest
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.pop import (
    AckMessageHeader,
    ChangeInvisibleTimeHeader,
    ChangeInvisibleTimeReplyHeader,
    NotificationHeader,
    PeekMessageHeader,
    PollingInfoHeader,
    PollingInfoReplyHeader,
    PopMessageHeader,
)
from roquet.protocol.messages.pop_receipt import ORDERED_QUEUE_ID
from roquet.protocol.names import is_name, pop_retry_topic

_READ: Final = int(Permission.READ)
# Longer than anyone waits. With a time of day added, it is still a long of Java's.
_INVISIBLE_MS_MAX: Final = 2**62


def pop_message(broker: Broker, request: Request[PopMessageHeader]) -> Answer:
    pop = request.header
    if pop.invisible_time > _INVISIBLE_MS_MAX:
        pop = replace(pop, invisible_time=_INVISIBLE_MS_MAX)
        request = replace(request, header=pop)
    broker.statistics.pops.slow += 1
    check_is_master(broker.config)
    now_ms = broker.clock.now_ms()
    if pop.born_time and now_ms - pop.born_time - pop.poll_time > LATE_MS_MAX:
        raise Refused(
            ResponseCode.POLLING_TIMEOUT,
            f"the request came {now_ms - pop.born_time} ms after it was made, and its poll time is"
            f" {pop.poll_time} ms: is the network slow, or a clock wrong?",
        )
    _check_counts(pop.max_msg_nums)
    if pop.invisible_time < 0:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"messages cannot be invisible for {pop.invisible_time} ms",
        )
    check_readable(broker, pop.topic, pop.queue_id, pop.consumer_group)
    retries = pop_retry_topic(pop.consumer_group, pop.topic)
    if not is_name(retries):
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"{retries!r}, the topic of retries, is too long a name: use a shorter group or topic",
        )
    broker.messages.acks.check_room(request)
    wanted = filter_of_pop(pop.exp, pop.exp_type, broker.config)
    return answer_pop(broker, request, wanted)


def peek_message(broker: Broker, request: Request[PeekMessageHeader]) -> Reply:
    header = request.header
    _check_counts(header.max_msg_nums)
    check_readable(broker, header.topic, header.queue_id, header.consumer_group)
    key = PollKey(header.topic, header.consumer_group, header.queue_id)
    return peek(broker, key, header.max_msg_nums)


def notification(broker: Broker, request: Request[NotificationHeader]) -> Answer:
    header = request.header
    check_is_master(broker.config)
    check_readable(broker, header.topic, header.queue_id, header.consumer_group)
    return answer_notification(broker, request)


def polling_info(broker: Broker, request: Request[PollingInfoHeader]) -> Reply:
    header = request.header
    check_readable(broker, header.topic, header.queue_id, header.consumer_group)
    key = PollKey(header.topic, header.consumer_group, header.queue_id)
    count = broker.waiting.pop_polls.counts.get(key, 0)
    return Reply(header=PollingInfoReplyHeader(polling_num=count))


def _check_counts(count: int) -> None:
    if not 1 <= count <= POP_COUNT_MAX:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"a pop takes 1 to {POP_COUNT_MAX} messages and not {count}",
        )


def check_readable(broker: Broker, name: str, queue_id: int, group: str) -> None:
    if not broker.config.permission & _READ:
        raise Refused(ResponseCode.NO_PERMISSION, "the broker is not readable")
    topic = broker.tables.topics.find(name)
    if topic is None:
        raise UnknownTopic(name)
    if not topic.perm & _READ:
        raise Refused(ResponseCode.NO_PERMISSION, f"topic {name!r} is not readable")
    if not ANY_QUEUE <= queue_id < topic.read_queue_nums:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"topic {name!r} has {topic.read_queue_nums} queues and no queue {queue_id}",
        )
    if not group_settings(broker, group).consume_enable:
        raise Refused(ResponseCode.NO_PERMISSION, f"group {group!r} may not consume")


def ack_message(broker: Broker, request: Request[AckMessageHeader]) -> Answer:
    header = request.header
    broker.statistics.acks.slow += 1
    check_is_master(broker.config)
    _check_offset(broker, header)
    receipt = read_receipt(header.extra_info)
    request.connection.check_room_to_defer()
    queue = QueueOfGroup(header.consumer_group, header.topic, header.queue_id)
    if receipt.revive_queue_id != ORDERED_QUEUE_ID:
        key = PopKey(queue, receipt.start_offset, receipt.pop_time_ms)
        return broker.waiting.ack_turn.add(request, key, header.offset)
    end = acknowledge(broker, queue, receipt, (header.offset,))
    return broker.messages.acks.reply_when_safe(request, end, Reply(), OnTimeout.REFUSE)


def batch_ack_message(broker: Broker, request: Request[NoFields]) -> Answer:
    broker.statistics.batch_acks.slow += 1
    check_is_master(broker.config)
    broker.messages.acks.check_room(request)
    broker.waiting.ack_turn.flush()
    end = acknowledge_all(broker, read_body(BatchAckRequest, request.body).acks)
    if not end:
        raise Refused(ResponseCode.NO_MESSAGE, "no message of these queues is acknowledged")
    return broker.messages.acks.reply_when_safe(request, end, Reply(), OnTimeout.REFUSE)


def change_invisible_time(broker: Broker, request: Request[ChangeInvisibleTimeHeader]) -> Answer:
    header = request.header
    check_is_master(broker.config)
    _check_offset(broker, header)
    if header.invisible_time < 0:
        raise Refused(
            ResponseCode.INVALID_PARAMETER,
            f"a message cannot be invisible for {header.invisible_time} ms",
        )
    receipt = read_receipt(header.extra_info)
    broker.messages.acks.check_room(request)
    queue = QueueOfGroup(header.consumer_group, header.topic, header.queue_id)
    receipt = receipt._replace(offset=header.offset)
    broker.waiting.ack_turn.flush()
    invisible_ms = min(header.invisible_time, _INVISIBLE_MS_MAX)
    changed = change_time(broker, queue, receipt, invisible_ms, is_suspended=header.suspend)
    reply = ChangeInvisibleTimeReplyHeader(
        pop_time=changed.receipt.pop_time_ms,
        invisible_time=changed.receipt.invisible_ms,
        revive_qid=changed.receipt.revive_queue_id,
    )
    return broker.messages.acks.reply_when_safe(
        request, changed.end, Reply(header=reply), OnTimeout.REFUSE
    )


def _check_offset(broker: Broker, header: AckMessageHeader | ChangeInvisibleTimeHeader) -> None:
    topic = broker.tables.topics.find(header.topic)
    if topic is None:
        raise UnknownTopic(header.topic)
    if not 0 <= header.queue_id < topic.queue_count:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"topic {header.topic!r} has {topic.queue_count} queues and no queue {header.queue_id}",
        )
    low = broker.store.min_offset(header.topic, header.queue_id)
    high = broker.store.max_offset(header.topic, header.queue_id)
    if not low <= header.offset < high:
        # In the words of Apache.
        raise Refused(
            ResponseCode.NO_MESSAGE,
            f"offset is illegal, key:{header.topic}@{header.queue_id}, commit:{header.offset}, "
            f"store:{low}~{high}",
        )


_READING: Final = reading("topic", "consumer_group")

ROUTES = (
    on(RequestCode.POP_MESSAGE, PopMessageHeader, pop_message, needs=_READING),
    on(RequestCode.PEEK_MESSAGE, PeekMessageHeader, peek_message, needs=_READING),
    on(RequestCode.NOTIFICATION, NotificationHeader, notification, needs=_READING),
    on(RequestCode.POLLING_INFO, PollingInfoHeader, polling_info, needs=_READING),
    on(RequestCode.ACK_MESSAGE, AckMessageHeader, ack_message, needs=ACKING),
    on(RequestCode.BATCH_ACK_MESSAGE, NoFields, batch_ack_message, needs=BATCH_ACKING),
    on(
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
        ChangeInvisibleTimeHeader,
        change_invisible_time,
        needs=CHANGING,
    ),
)

"""Send-backs (36): a consumer could not handle a message, and wants it again later."""

import random
from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.delays.postponing import append_when_due
from roquet.broker.errors import TableNotWritten
from roquet.broker.handlers.needs import SENDING_BACK
from roquet.broker.handlers.refusals import check_is_master
from roquet.broker.membership import group_settings
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.retries import (
    DLQ_QUEUE_COUNT,
    DLQ_QUEUE_ID,
    next_level,
    retry_count_max,
    sent_back,
)
from roquet.broker.messages.stored_record import stored_record
from roquet.broker.tables.topics import TopicFlag
from roquet.net.errors import Refused
from roquet.net.router import Answer, Reply, Request, on
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.headers.messages import SendBackHeader
from roquet.protocol.messages.message import Property
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import dlq_topic, retry_topic

_WRITE: Final = int(Permission.WRITE)


def send_back(broker: Broker, request: Request[SendBackHeader]) -> Answer:
    header = request.header
    check_is_master(broker)
    broker.late_sends.check()
    broker.acks.check_room(request)
    group = group_settings(broker, header.group)
    if not broker.config.permission & _WRITE:
        raise Refused(ResponseCode.NO_PERMISSION, "the broker is not writable")
    if group.retry_queue_nums <= 0:
        return Reply()  # The group wants nothing twice.
    topic = _writable_retry_topic(broker, header, group.retry_queue_nums)
    # Which queue gets which message is no secret.
    queue_id = random.randrange(group.retry_queue_nums)  # noqa: S311
    message = read_record(stored_record(broker, header.offset))
    count_max = retry_count_max(group, request.command, header.max_reconsume_times)
    level = next_level(message.reconsume_times, count_max, header.delay_level)
    if level is None:
        topic = _made_topic(broker, dlq_topic(header.group), DLQ_QUEUE_COUNT)
        queue_id = DLQ_QUEUE_ID
    back = sent_back(message, topic.topic_name, queue_id, level)
    try:
        appended = append_when_due(broker, back)
    except Refused as refused:
        raise _not_sent_back(refused) from None
    origin = message.properties.get(Property.RETRY_TOPIC, message.topic)
    broker.statistics.count_send_back(header.group, origin)
    # Apache does not wait for the disk here. But what the consumer does next is to say that it is
    # done with the message, and that is kept apart from the log.
    end = appended.physical_offset + appended.size
    return broker.acks.reply_when_safe(request, end, Reply(), OnTimeout.REFUSE)


def _writable_retry_topic(broker: Broker, header: SendBackHeader, queue_count: int) -> TopicConfig:
    flags = TopicFlag.UNIT_SUBSCRIPTION if header.unit_mode else 0
    topic = _made_topic(broker, retry_topic(header.group), queue_count, flags)
    if not topic.perm & _WRITE:
        raise Refused(ResponseCode.NO_PERMISSION, f"topic {topic.topic_name!r} is not writable")
    return topic


def _made_topic(broker: Broker, name: str, queue_count: int, flags: int = 0) -> TopicConfig:
    try:
        return broker.topics.find_or_create(name, queue_count, flags)
    except TableNotWritten as refused:
        raise _not_sent_back(refused) from None


def _not_sent_back(refused: Refused) -> Refused:
    """Whatever the reason: with this code clients send the message themselves."""
    return Refused(ResponseCode.SYSTEM_ERROR, refused.remark)


ROUTES = (on(RequestCode.CONSUMER_SEND_MSG_BACK, SendBackHeader, send_back, needs=SENDING_BACK),)

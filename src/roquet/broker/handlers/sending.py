"""Sends: one message (10, 310), a batch (320), or a send-back of a consumer (36); recalls (370).

The send of one message is the hottest path of the handlers. It moves property text and never
parses it; messages whose properties ask for more than to be stored are handled apart.
"""

import random
from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.delays.postponing import append_waiting, append_when_due, postponed
from roquet.broker.delays.recall import handle_of, recall
from roquet.broker.errors import BadName, ClosedTopic, TableNotWritten, UnknownTopic
from roquet.broker.handlers.answers import check_is_master, check_takes_messages, invalid
from roquet.broker.handlers.needs import SENDING, SENDING_BACK
from roquet.broker.membership import group_settings
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.appending import (
    DLQ_QUEUE_COUNT,
    DLQ_QUEUE_ID,
    NewMessage,
    append_batch,
    append_draft,
    batch_properties,
    next_level,
    refusal,
    retry_count_max,
    sent_back,
    stored_record,
)
from roquet.broker.tables.topics import TopicFlag, TopicTable
from roquet.broker.transactions.phases import prepare, starts_transaction
from roquet.net.errors import Refused
from roquet.net.router import Answer, Reply, Request, on
from roquet.protocol.bodies.topics import TopicConfig, TopicFilterType
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.errors import TooLarge
from roquet.protocol.frame import SERIALIZER_JSON
from roquet.protocol.headers.messages import (
    RecallMessageHeader,
    RecallMessageReplyHeader,
    SendBackHeader,
    SendMessageHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import Property, SysFlag
from roquet.protocol.messages.message_id import offset_id
from roquet.protocol.messages.properties import with_property, without_property
from roquet.protocol.messages.record import read_record
from roquet.protocol.messages.record_batches import SentBatch
from roquet.protocol.messages.sent_properties import stored_properties
from roquet.protocol.names import RETRY_PREFIX, dlq_topic, is_closed_topic, retry_topic
from roquet.store.appends import Appended

_WRITE: Final = int(Permission.WRITE)
_MULTI_TAGS: Final = SysFlag.MULTI_TAGS.value
_TRANSACTION_MASK: Final = SysFlag.TRANSACTION_MASK.value
_NO_WAIT_MARK: Final = "WAIT\x01false"
_DELAY_MARK: Final = "DELAY\x01"


def send_message(broker: Broker, request: Request[SendMessageHeader]) -> Answer:
    header = request.header
    broker.statistics.sends.slow += 1
    check_takes_messages(broker, request.command)
    if header.batch:
        return _send_batch(broker, request)
    topic = checked_topic(broker, request)
    queue_id = checked_queue_id(request, topic)
    sent = header.properties or ""
    is_waiting = broker.messages.acks.is_awaited and _NO_WAIT_MARK not in sent
    if header.topic.startswith(RETRY_PREFIX):
        topic, queue_id = _retry_target(broker, request, topic, queue_id)
    properties = stored_properties(sent, broker.messages.cluster_property)
    if properties is not None:
        appended = _append_normal(broker, request, topic, queue_id, properties)
        recall_handle = None
    elif starts_transaction(header):
        message = _new_message(broker, request, topic, queue_id, sent)
        appended = prepare(broker, message, header.producer_group)
        recall_handle = None
        # The sender ends it soon, and then it has to be readable.
        is_waiting = True
    else:
        appended, recall_handle = _append_delayed(broker, request, topic, queue_id, sent)
    physical_offset = appended.physical_offset
    reply = _reply(
        broker, request, [physical_offset], queue_id, appended.queue_offset, recall_handle
    )
    if not is_waiting:
        return reply
    end = physical_offset + appended.size
    return broker.messages.acks.reply_when_safe(request, end, reply, OnTimeout.REPORT)


def _append_normal(
    broker: Broker,
    request: Request[SendMessageHeader],
    topic: TopicConfig,
    queue_id: int,
    properties: bytes,
) -> Appended:
    flag = request.header.flag
    body = request.command.body
    try:
        draft = _draft(broker, request, topic, queue_id, flag, body, properties)
    except TooLarge as error:
        raise refusal(error) from None
    return append_draft(broker.messages, topic.topic_name, draft)


def _append_delayed(
    broker: Broker,
    request: Request[SendMessageHeader],
    topic: TopicConfig,
    queue_id: int,
    properties: str,
) -> tuple[Appended, str | None]:
    """Stores a message that seems to want to be delivered later; with what it is recalled."""
    waiting = postponed(broker, _new_message(broker, request, topic, queue_id, properties))
    if waiting is not None:
        appended = append_waiting(broker, waiting)
        return appended, handle_of(waiting, broker.config.broker_name)
    normal = with_property(
        without_property(properties, Property.WAIT), Property.CLUSTER, broker.config.cluster_name
    )
    return _append_normal(broker, request, topic, queue_id, normal.encode()), None


def _send_batch(broker: Broker, request: Request[SendMessageHeader]) -> Answer:
    header = request.header
    topic = checked_topic(broker, request)
    queue_id = checked_queue_id(request, topic)
    shared = header.properties or ""
    if header.sys_flag & _TRANSACTION_MASK or _DELAY_MARK in shared:
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL, "a batch can be neither delayed nor part of a transaction"
        )
    tail = batch_properties(shared, broker.config.cluster_name)
    try:
        common = _draft(broker, request, topic, queue_id, 0, b"", tail)
        batch = SentBatch(common, request.command.body)
    except TooLarge as error:
        raise refusal(error) from None
    if not batch.sizes:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch without a message")
    appended = append_batch(broker.messages, topic.topic_name, batch)
    offsets = appended.physical_offsets
    reply = _reply(broker, request, offsets, queue_id, appended.queue_offset)
    if _NO_WAIT_MARK in shared:
        return reply
    return broker.messages.acks.reply_when_safe(
        request, offsets[0] + appended.size, reply, OnTimeout.REPORT
    )


def checked_topic(broker: Broker, request: Request[SendMessageHeader]) -> TopicConfig:
    """The topic, made if it may be. Raises Refused."""
    header = request.header
    config = broker.config
    name = header.topic
    # Nearly always 0, and then the clock need not be read.
    if config.accept_sends_from_ms and config.accept_sends_from_ms > broker.clock.now_ms():
        raise Refused(
            ResponseCode.SYSTEM_ERROR, f"no sends before {config.accept_sends_from_ms} ms"
        )
    if is_closed_topic(name):
        raise ClosedTopic(name)
    broker.messages.late_sends.check()
    broker.messages.acks.check_room(request)
    topic = broker.tables.topics.find(name)
    if topic is None:
        topic = _created_topic(broker, request)
    # Apache's rule: of other topics the route hides what is not writable, and that is all.
    if topic.order and not config.permission & _WRITE:
        raise Refused(ResponseCode.NO_PERMISSION, "the broker is not writable")
    return topic


def _created_topic(broker: Broker, request: Request[SendMessageHeader]) -> TopicConfig:
    header = request.header
    flags = 0
    if header.unit_mode:
        is_retry = header.topic.startswith(RETRY_PREFIX)
        flags = TopicFlag.UNIT_SUBSCRIPTION if is_retry else TopicFlag.UNIT
    try:
        return broker.tables.topics.create_by_send(
            header.topic,
            header.default_topic,
            header.default_topic_queue_nums,
            may_create=broker.config.create_topics,
            count_max=broker.config.created_topic_count_max,
            flags=flags,
        )
    except BadName as error:
        raise invalid(request.command, error.remark) from None


def checked_queue_id(request: Request[SendMessageHeader], topic: TopicConfig) -> int:
    queue_id = request.header.queue_id
    if queue_id < 0:
        # Which queue gets which message is no secret.
        return random.randrange(max(1, topic.write_queue_nums))  # noqa: S311
    if queue_id >= topic.queue_count:
        raise invalid(
            request.command,
            f"topic {topic.topic_name!r} has {topic.queue_count} queues and no queue {queue_id}",
        )
    return queue_id


def _retry_target(
    broker: Broker, request: Request[SendMessageHeader], topic: TopicConfig, queue_id: int
) -> tuple[TopicConfig, int]:
    """Where a message of a retry topic goes: there, or to the dead letters of its group."""
    header = request.header
    name = header.topic.removeprefix(RETRY_PREFIX)
    group = group_settings(broker, name)
    count_max = retry_count_max(group, request.command, header.max_reconsume_times)
    if (header.reconsume_times or 0) < count_max:
        return topic, queue_id
    return broker.tables.topics.find_or_create(dlq_topic(name), DLQ_QUEUE_COUNT), DLQ_QUEUE_ID


def _new_message(
    broker: Broker,
    request: Request[SendMessageHeader],
    topic: TopicConfig,
    queue_id: int,
    properties: str,
) -> NewMessage:
    """For messages that are more than a normal send; those keep WAIT."""
    header = request.header
    return NewMessage(
        topic=topic.topic_name,
        queue_id=queue_id,
        body=request.command.body,
        properties=with_property(properties, Property.CLUSTER, broker.config.cluster_name),
        born_timestamp=header.born_timestamp,
        born_host=request.connection.peer_host,
        store_host=broker.messages.store_host,
        flag=header.flag,
        sys_flag=_sys_flag(request, topic),
        reconsume_times=header.reconsume_times or 0,
    )


# Seven parameters: both kinds of sends come here once per message.
def _draft(
    broker: Broker,
    request: Request[SendMessageHeader],
    topic: TopicConfig,
    queue_id: int,
    flag: int,
    body: bytes,
    properties: bytes,
) -> RecordDraft:
    """Raises TooLarge."""
    header = request.header
    return RecordDraft(
        queue_id=queue_id,
        flag=flag,
        sys_flag=_sys_flag(request, topic),
        born_timestamp=header.born_timestamp,
        born_host=request.connection.peer_host,
        store_host=broker.messages.store_host,
        body=body,
        topic=topic.topic_name.encode(),
        properties=properties,
        reconsume_times=header.reconsume_times or 0,
        has_checksum=broker.config.store.write_checksums,
    )


def _sys_flag(request: Request[SendMessageHeader], topic: TopicConfig) -> int:
    sys_flag = request.header.sys_flag
    if topic.topic_filter_type == TopicFilterType.MULTI_TAG:
        sys_flag |= _MULTI_TAGS
    return sys_flag


def _reply(
    broker: Broker,
    request: Request[SendMessageHeader],
    physical_offsets: list[int],
    queue_id: int,
    queue_offset: int,
    recall_handle: str | None = None,
) -> Reply | bytes:
    """The reply: where the messages are stored."""
    command = request.command
    if command.serializer == SERIALIZER_JSON and recall_handle is None:
        return broker.messages.send_reply.fill(
            command.opaque, physical_offsets, queue_id, queue_offset
        )
    header = SendMessageReplyHeader(
        msg_id=",".join([offset_id(broker.messages.store_host, each) for each in physical_offsets]),
        queue_id=queue_id,
        queue_offset=queue_offset,
        recall_handle=recall_handle,
        region_id=broker.config.region_id,
        is_traced=broker.config.trace_on,
    )
    return Reply(header=header)


def recall_message(broker: Broker, request: Request[RecallMessageHeader]) -> Answer:
    """Of a message that waits for its time (370)."""
    header = request.header
    check_takes_messages(broker, request.command)
    broker.messages.acks.check_room(request)
    if header.topic not in broker.tables.topics:
        raise UnknownTopic(header.topic)
    recalled = recall(broker, header.topic, header.recall_handle)
    reply = RecallMessageReplyHeader(msg_id=recalled.message_id, region_id=broker.config.region_id)
    return broker.messages.acks.reply_when_safe(
        request, recalled.end, Reply(header=reply), OnTimeout.REFUSE
    )


def send_back(broker: Broker, request: Request[SendBackHeader]) -> Answer:
    header = request.header
    check_is_master(broker.config)
    broker.messages.late_sends.check()
    broker.messages.acks.check_room(request)
    group = group_settings(broker, header.group)
    if not broker.config.permission & _WRITE:
        raise Refused(ResponseCode.NO_PERMISSION, "the broker is not writable")
    if group.retry_queue_nums <= 0:
        return Reply()  # The group wants nothing twice.
    topic = _writable_retry_topic(broker, header, group.retry_queue_nums)
    message = read_record(stored_record(broker.store, header.offset))
    count_max = retry_count_max(group, request.command, header.max_reconsume_times)
    level = next_level(message.reconsume_times, count_max, header.delay_level)
    if level is None:
        topic = _made_topic(broker.tables.topics, dlq_topic(header.group), DLQ_QUEUE_COUNT)
        queue_id = DLQ_QUEUE_ID
    else:
        # Which queue gets which message is no secret.
        queue_id = random.randrange(group.retry_queue_nums)  # noqa: S311
    back = sent_back(message, topic.topic_name, queue_id, level)
    try:
        appended = append_when_due(broker, back)
    except Refused as refused:
        raise _not_sent_back(refused) from None
    origin = message.properties.get(Property.RETRY_TOPIC, message.topic)
    broker.statistics.count_send_back(header.group, origin)
    # Apache does not wait for the disk here. But the consumer's next commit covers the
    # message, and offsets are kept apart from the log.
    end = appended.physical_offset + appended.size
    return broker.messages.acks.reply_when_safe(request, end, Reply(), OnTimeout.REFUSE)


def _writable_retry_topic(broker: Broker, header: SendBackHeader, queue_count: int) -> TopicConfig:
    flags = TopicFlag.UNIT_SUBSCRIPTION if header.unit_mode else 0
    topic = _made_topic(broker.tables.topics, retry_topic(header.group), queue_count, flags)
    if not topic.perm & _WRITE:
        raise Refused(ResponseCode.NO_PERMISSION, f"topic {topic.topic_name!r} is not writable")
    return topic


def _made_topic(topics: TopicTable, name: str, queue_count: int, flags: int = 0) -> TopicConfig:
    try:
        return topics.find_or_create(name, queue_count, flags)
    except TableNotWritten as refused:
        raise _not_sent_back(refused) from None


def _not_sent_back(refused: Refused) -> Refused:
    """Whatever the reason: with this code clients send the message themselves."""
    return Refused(ResponseCode.SYSTEM_ERROR, refused.remark)


ROUTES = (
    on(RequestCode.SEND_MESSAGE, SendMessageHeader, send_message, needs=SENDING),
    on(RequestCode.SEND_MESSAGE_V2, SendMessageHeaderV2, send_message, needs=SENDING),
    on(RequestCode.SEND_BATCH_MESSAGE, SendMessageHeaderV2, send_message, needs=SENDING),
    on(RequestCode.CONSUMER_SEND_MSG_BACK, SendBackHeader, send_back, needs=SENDING_BACK),
    on(RequestCode.RECALL_MESSAGE, RecallMessageHeader, recall_message, needs=SENDING),
)

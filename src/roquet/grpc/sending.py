"""SendMessage, EndTransaction, RecallMessage: from the message of an SDK to one that is stored.

What a message is follows from its properties, and has to be what its topic takes. A message group
keeps to one queue as long as the topic has as many, chosen as Apache's proxy chooses it.
"""

import re
from itertools import count
from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.delays.postponing import append_waiting, postponed
from roquet.broker.delays.recall import handle_of, recall
from roquet.broker.handlers.answers import check_takes_messages
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.appending import NewMessage, append_message, stored_record
from roquet.broker.transactions.phases import commit, open_half, prepare, roll_back
from roquet.grpc.calls import Call
from roquet.grpc.clients import transaction_id_of
from roquet.grpc.codes import (
    Code,
    Encoding,
    MessageType,
    RefusedCall,
    Resolution,
    code_of,
    common_status,
    status_of,
)
from roquet.grpc.message_form import SYSTEM_NAMES, ms_of
from roquet.grpc.names import found_topic, topic_name
from roquet.grpc.routing import accepted_types
from roquet.grpc.schema import Message, pb
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.messages.message import KEY_SEPARATOR, Property, SysFlag
from roquet.protocol.messages.properties import properties_text
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import HALF_TOPIC
from roquet.store.appends import Appended

BODY_SIZE_MAX: Final = 4 * 1024 * 1024
PROPERTY_COUNT_MAX: Final = 128
PROPERTIES_SIZE_MAX: Final = 16 * 1024
GROUP_SIZE_MAX: Final = 64
DELAY_MS_MAX: Final = 24 * 3_600_000
RECOVERY_MS_MAX: Final = 3_600_000
# Messages of one request; an answer has a result for each.
BATCH_COUNT_MAX: Final = 1024

_WRITE: Final = int(Permission.WRITE)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_TRANSACTION_ID: Final = re.compile(r"[0-9A-F]{16}", re.ASCII)
_ENDS: Final = {Resolution.COMMIT: commit, Resolution.ROLLBACK: roll_back}
# Which queue is next is of no importance: any start will do.
_turns = count()
# A request of remoting tells the version of its client, and old ones get other codes.
_NEW_CLIENT: Final = Command(0, version=2**31 - 1)


def send_message(broker: Broker, call: Call, request: Message) -> None:
    """Answers when the messages are as safe as the broker promises. Raises Refused."""
    messages = request.messages
    check_takes_messages(broker, _NEW_CLIENT)
    broker.messages.late_sends.check()
    if not 0 < len(messages) <= BATCH_COUNT_MAX:
        text = f"a request has 1 to {BATCH_COUNT_MAX} messages and not {len(messages)}"
        raise RefusedCall(Code.MESSAGE_CORRUPTED, text)
    if any(each.topic.name != messages[0].topic.name for each in messages):
        raise RefusedCall(Code.MESSAGE_CORRUPTED, "messages of one request have one topic")
    topic = found_topic(broker, messages[0].topic)
    if not topic.perm & broker.config.permission & _WRITE or topic.write_queue_nums <= 0:
        raise RefusedCall(Code.FORBIDDEN, f"topic {topic.topic_name!r} is not writable")
    # All are checked before the first one is stored.
    kinds = [_checked(broker, topic, each) for each in messages]
    queue_id = _queue_id(topic, messages[0] if len(messages) == 1 else None)
    stored = [
        _append(broker, call, topic, queue_id, each, kind)
        for each, kind in zip(messages, kinds, strict=True)
    ]
    end = max(each.physical_offset + each.size for each, _ in stored)

    def answer(code: ResponseCode) -> None:
        status = status_of(code_of(code))
        entries = [
            pb.SendResultEntry(
                status=status,
                message_id=message.system_properties.message_id,
                transaction_id=transaction_id_of(appended.physical_offset)
                if kind is MessageType.TRANSACTION
                else "",
                offset=appended.queue_offset,
                recall_handle=recall_handle,
            )
            for message, (appended, recall_handle), kind in zip(
                messages, stored, kinds, strict=True
            )
        ]
        statuses = [each.status for each in entries]
        response = pb.SendMessageResponse(status=common_status(statuses), entries=entries)
        call.answer(response.SerializeToString())

    broker.messages.acks.when_settled(end, answer, OnTimeout.REPORT)


def end_transaction(broker: Broker, call: Call, request: Message) -> None:
    """Raises Refused. What was ended before is not ended again, and answered with success."""
    topic_name(request.topic)
    check_takes_messages(broker, _NEW_CLIENT)
    end = _ENDS.get(request.resolution)
    if end is None:
        raise RefusedCall(Code.BAD_REQUEST, "a transaction is committed or rolled back")
    if not _TRANSACTION_ID.fullmatch(request.transaction_id):
        text = f"{request.transaction_id[:100]!r} is no transaction of this broker"
        raise RefusedCall(Code.INVALID_TRANSACTION_ID, text)
    half = read_record(stored_record(broker.store, int(request.transaction_id, 16)))
    is_same = half.properties.get(Property.UNIQUE_KEY) == request.message_id
    if half.topic != HALF_TOPIC or not is_same:
        text = f"transaction {request.transaction_id} is not of message {request.message_id[:100]}"
        raise RefusedCall(Code.INVALID_TRANSACTION_ID, text)
    opened = open_half(broker, half)
    log_end = broker.store.log_end if opened is None else end(broker, opened)

    def answer(code: ResponseCode) -> None:
        response = pb.EndTransactionResponse(status=status_of(code_of(code)))
        call.answer(response.SerializeToString())

    broker.messages.acks.when_settled(log_end, answer, OnTimeout.KEEP_WAITING)


def _checked(broker: Broker, topic: TopicConfig, message: Message) -> MessageType:
    """What the message is. Raises RefusedCall."""
    system = message.system_properties
    if not message.body:
        raise RefusedCall(Code.MESSAGE_BODY_EMPTY, "a message has a body")
    if len(message.body) > BODY_SIZE_MAX:
        text = f"a body of {len(message.body)} bytes is larger than {BODY_SIZE_MAX}"
        raise RefusedCall(Code.MESSAGE_BODY_TOO_LARGE, text)
    if not system.message_id.strip():
        raise RefusedCall(Code.ILLEGAL_MESSAGE_ID, "a message has an id, made by its client")
    _check_texts(message)
    now_ms = broker.clock.now_ms()
    if ms_of(system.delivery_timestamp) - now_ms > DELAY_MS_MAX:
        text = f"a message is delivered within {DELAY_MS_MAX // 3_600_000} hours"
        raise RefusedCall(Code.ILLEGAL_DELIVERY_TIME, text)
    if ms_of(system.orphaned_transaction_recovery_duration) > RECOVERY_MS_MAX:
        text = f"a transaction is asked about within {RECOVERY_MS_MAX // 60_000} minutes"
        raise RefusedCall(Code.BAD_REQUEST, text)
    kind = _kind_of(system)
    accepted = accepted_types(topic)
    if kind not in accepted:
        names = ", ".join(each.name for each in accepted)
        text = f"topic {topic.topic_name!r} takes {names} and not {kind.name} messages"
        raise RefusedCall(Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, text)
    return kind


def _check_texts(message: Message) -> None:
    system = message.system_properties
    if system.HasField("tag") and (not _is_text(system.tag) or "|" in system.tag):
        raise RefusedCall(Code.ILLEGAL_MESSAGE_TAG, f"{system.tag[:100]!r} is no tag")
    for key in system.keys:
        if not _is_text(key):
            raise RefusedCall(Code.ILLEGAL_MESSAGE_KEY, f"{key[:100]!r} is no key")
    group = system.message_group
    if system.HasField("message_group") and (
        not _is_text(group) or len(group.encode()) >= GROUP_SIZE_MAX
    ):
        raise RefusedCall(Code.ILLEGAL_MESSAGE_GROUP, f"{group[:100]!r} is no message group")
    size = len(system.tag.encode()) + sum(len(key.encode()) for key in system.keys)
    for each in message.user_properties:
        if each.key in SYSTEM_NAMES or _CONTROL.search(each.key + each.value):
            text = f"no client may set the property {each.key[:100]!r} to that value"
            raise RefusedCall(Code.ILLEGAL_MESSAGE_PROPERTY_KEY, text)
        size += len(each.key.encode()) + len(each.value.encode())
    if len(message.user_properties) > PROPERTY_COUNT_MAX or size > PROPERTIES_SIZE_MAX:
        text = (
            f"{len(message.user_properties)} properties of {size} bytes: at most"
            f" {PROPERTY_COUNT_MAX} of {PROPERTIES_SIZE_MAX} bytes together"
        )
        raise RefusedCall(Code.MESSAGE_PROPERTIES_TOO_LARGE, text)


def _is_text(text: str) -> bool:
    return bool(text.strip()) and not _CONTROL.search(text)


def _kind_of(system: Message) -> MessageType:
    if system.message_type == MessageType.TRANSACTION:
        return MessageType.TRANSACTION
    if system.HasField("delivery_timestamp"):
        return MessageType.DELAY
    if system.HasField("message_group"):
        return MessageType.FIFO
    if system.HasField("priority"):
        return MessageType.PRIORITY
    return MessageType.NORMAL


def _append(
    broker: Broker,
    call: Call,
    topic: TopicConfig,
    queue_id: int,
    message: Message,
    kind: MessageType,
) -> tuple[Appended, str]:
    """Where it is stored, and what it can be recalled with. Raises Refused."""
    system = message.system_properties
    properties = {each.key: each.value for each in message.user_properties}
    properties |= _stored_properties(broker, topic, system, kind)
    new = NewMessage(
        topic=topic.topic_name,
        queue_id=queue_id,
        body=message.body,
        properties=properties_text(properties),
        born_timestamp=ms_of(system.born_timestamp) or broker.clock.now_ms(),
        born_host=call.connection.peer_host,
        store_host=broker.messages.store_host,
        sys_flag=SysFlag.COMPRESSED.value if system.body_encoding == Encoding.GZIP else 0,
    )
    if kind is MessageType.TRANSACTION:
        return prepare(broker, new, topic.topic_name), ""
    waiting = postponed(broker, new)
    if waiting is None:
        return append_message(broker.messages, new), ""
    return append_waiting(broker, waiting), handle_of(waiting, broker.config.broker_name) or ""


def _stored_properties(
    broker: Broker, topic: TopicConfig, system: Message, kind: MessageType
) -> dict[str, str]:
    config = broker.config
    found = {
        Property.UNIQUE_KEY: system.message_id,
        # Who is asked about transactions: any client that publishes the topic.
        Property.PRODUCER_GROUP: topic.topic_name,
        Property.CLUSTER: config.cluster_name,
        Property.MESSAGE_REGION: config.region_id,
        Property.TRACE_ON: str(config.trace_on).lower(),
        Property.BORN_TIMESTAMP: str(ms_of(system.born_timestamp)),
        Property.TAGS: system.tag,
        Property.KEYS: KEY_SEPARATOR.join(system.keys),
        Property.BORN_HOST: system.born_host,
        Property.SHARDING_KEY: system.message_group,
        Property.TRACE_CONTEXT: system.trace_context,
    }
    if kind is MessageType.DELAY:
        found[Property.TIMER_DELIVER_MS] = str(ms_of(system.delivery_timestamp))
    if kind is MessageType.TRANSACTION:
        found[Property.TRANSACTION_PREPARED] = "true"
        recovery_ms = ms_of(system.orphaned_transaction_recovery_duration)
        if recovery_ms:
            found[Property.CHECK_IMMUNITY_TIME_S] = str(-(-recovery_ms // 1000))
    return {name: value for name, value in found.items() if value}


def _queue_id(topic: TopicConfig, message: Message | None) -> int:
    if message is not None and message.system_properties.message_group:
        group = message.system_properties.message_group
        return consistent_hash(java_hash(group), topic.write_queue_nums)
    return next(_turns) % topic.write_queue_nums


def java_hash(text: str) -> int:
    """Java's `String.hashCode`."""
    found = 0
    data = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(data), 2):
        found = (31 * found + int.from_bytes(data[index : index + 2])) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


def consistent_hash(number: int, bucket_count: int) -> int:
    """The jump hash of Lamping and Veach, with the random numbers of Guava."""
    state = number & 0xFFFFFFFFFFFFFFFF
    bucket = 0
    while True:
        state = (2862933555777941757 * state + 1) & 0xFFFFFFFFFFFFFFFF
        random = ((state >> 33) + 1) / (1 << 31)
        following = int((bucket + 1) / random)
        if following >= bucket_count:
            return bucket
        bucket = following


def recall_message(broker: Broker, call: Call, request: Message) -> None:
    """Raises Refused."""
    topic = topic_name(request.topic)
    check_takes_messages(broker, _NEW_CLIENT)
    recalled = recall(broker, topic, request.recall_handle)

    def answer(code: ResponseCode) -> None:
        response = pb.RecallMessageResponse(
            status=status_of(code_of(code)), message_id=recalled.message_id
        )
        call.answer(response.SerializeToString())

    broker.messages.acks.when_settled(recalled.end, answer, OnTimeout.REFUSE)

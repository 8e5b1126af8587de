"""SendMessage, EndTransaction, RecallMessage: from the message of an SDK to one that is stored."""

import re
from typing import Final, final

import msgspec

from roquet.broker.broker import Broker
from roquet.broker.delays.postponing import append_waiting, postponed
from roquet.broker.delays.recall import handle_of, recall
from roquet.broker.handlers.answers import check_takes_messages
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.appending import NewMessage, append_message, stored_record
from roquet.broker.settings.config import BrokerConfig
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
    put_status,
    status_of,
)
from roquet.grpc.in_broker.routing import found_topic
from roquet.grpc.message_form import ms_of
from roquet.grpc.names import topic_name
from roquet.grpc.outgoing import check_request, checked_kind, queue_index, stored_properties
from roquet.grpc.route_form import accepted_types
from roquet.grpc.schema import Message, pb
from roquet.net.errors import Refused
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import Property, SysFlag
from roquet.protocol.messages.properties import properties_text
from roquet.protocol.messages.record import read_record
from roquet.protocol.names import HALF_TOPIC
from roquet.store.appends import Appended

_WRITE: Final = int(Permission.WRITE)
_TRANSACTION_ID: Final = re.compile(r"[0-9A-F]{16}", re.ASCII)
_ENDS: Final = {Resolution.COMMIT: commit, Resolution.ROLLBACK: roll_back}
# A request of remoting has the version of its client, and old ones get other codes.
_NEW_CLIENT: Final = Command(0, version=2**31 - 1)


@final
class Turns:
    """Sends take turns in the queues of a topic; `number` is that of the next one.

    Which queue comes first is of no importance: all topics share it.
    """

    def __init__(self) -> None:
        self.number = 0

    def draw(self) -> int:
        self.number += 1
        return self.number - 1


turns: Final = Turns()


class FastTopic(msgspec.Struct, frozen=True):
    """What holds for all sends to a topic, as long as its settings and the broker's are these."""

    settings: TopicConfig
    takes_normal: bool
    # Messages of message groups.
    takes_groups: bool
    # What the records of all sends have in common.
    draft: RecordDraft


def fast_topic(broker: Broker, name: str) -> FastTopic | None:
    """None if every send to it is left to `send_message`."""
    try:
        topic = found_topic(broker, pb.Resource(name=name))
        _check_writable(broker, topic)
        draft = RecordDraft(
            queue_id=0,
            flag=0,
            sys_flag=0,
            born_timestamp=0,
            born_host=broker.messages.store_host,  # Replaced by that of each sender.
            store_host=broker.messages.store_host,
            body=b"",
            topic=name.encode(),
            properties=properties_text(_added_properties(broker.config)).encode(),
            has_checksum=broker.messages.has_checksums,
        )
    except (Refused, ProtocolError):
        return None
    accepted = accepted_types(topic.attributes)
    return FastTopic(
        settings=topic,
        takes_normal=MessageType.NORMAL in accepted,
        takes_groups=MessageType.FIFO in accepted,
        draft=draft,
    )


def _check_writable(broker: Broker, topic: TopicConfig) -> None:
    """Raises RefusedCall."""
    if not topic.perm & broker.config.permission & _WRITE or topic.write_queue_nums <= 0:
        raise RefusedCall(Code.FORBIDDEN, f"topic {topic.topic_name!r} is not writable")


def _added_properties(config: BrokerConfig) -> dict[str, str]:
    """What the broker adds to those of every message."""
    return {
        Property.CLUSTER: config.cluster_name,
        Property.MESSAGE_REGION: config.region_id,
        Property.TRACE_ON: str(config.trace_on).lower(),
    }


def send_message(broker: Broker, call: Call, request: Message) -> None:
    """Answers when the messages are as safe as the broker's settings demand. Raises Refused."""
    messages = request.messages
    check_takes_messages(broker, _NEW_CLIENT)
    broker.messages.late_sends.check()
    check_request(messages)
    topic = found_topic(broker, messages[0].topic)
    _check_writable(broker, topic)
    # All are checked before the first one is stored.
    accepted, now_ms = accepted_types(topic.attributes), broker.clock.now_ms()
    kinds = [checked_kind(topic.topic_name, accepted, each, now_ms) for each in messages]
    queue_id = queue_index(messages, topic.write_queue_nums, turns.draw())
    stored = [
        _append(broker, call, topic, queue_id, each, kind)
        for each, kind in zip(messages, kinds, strict=True)
    ]
    end = max(each.physical_offset + each.size for each, _ in stored)

    def answer(code: ResponseCode) -> None:
        status = code_of(code)
        response = pb.SendMessageResponse()
        put_status(response.status, status)
        for message, (appended, recall_handle), kind in zip(messages, stored, kinds, strict=True):
            # Filled where it is: what is built apart is copied.
            entry = response.entries.add()
            put_status(entry.status, status)
            entry.message_id = message.system_properties.message_id
            entry.offset = appended.queue_offset
            if kind is MessageType.TRANSACTION:
                entry.transaction_id = transaction_id_of(appended.physical_offset)
            if recall_handle:
                entry.recall_handle = recall_handle
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
    properties = stored_properties(topic.topic_name, message, kind)
    properties |= _added_properties(broker.config)
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
    # Only its type can delay it: users cannot set properties of the system.
    waiting = postponed(broker, new) if kind is MessageType.DELAY else None
    if waiting is None:
        return append_message(broker.messages, new), ""
    return append_waiting(broker, waiting), handle_of(waiting, broker.config.broker_name) or ""


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

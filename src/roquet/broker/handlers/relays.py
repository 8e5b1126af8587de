"""What the broker passes on to one client: questions of operators, and replies to requests.

A request (324, 325) is a message that names its sender in REPLY_TO_CLIENT. Its consumer sends the
reply to the broker it came from, which pushes it (326) over the connection of the sender and
stores it in the reply topic.
"""

import asyncio
import logging
from typing import Any, Final

from roquet.access.needs import sub_group
from roquet.broker.broker import Background, Broker
from roquet.broker.handlers.answers import defer
from roquet.broker.handlers.needs import REPLYING
from roquet.broker.handlers.sending import checked_queue_id, checked_topic
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.appending import NewMessage, append_message, stored_record
from roquet.broker.tables.clients import ClientConnection, Consumers
from roquet.net.errors import CallTimedOut, NetError, Refused
from roquet.net.router import Deferred, Reply, ReplyDeferred, Request, on
from roquet.protocol.bodies.body import QueueTable, read_body, write_body
from roquet.protocol.bodies.offsets import ConsumerStatus
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadBody
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.groups import (
    ConsumeDirectlyHeader,
    ConsumerStatusHeader,
    RunningInfoHeader,
)
from roquet.protocol.headers.messages import (
    PushReplyHeader,
    SendMessageHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.host import unpack_host
from roquet.protocol.messages.message import Property, SysFlag
from roquet.protocol.messages.message_id import offset_id, parse_offset_id
from roquet.protocol.messages.properties import property_of, with_property
from roquet.store.appends import Appended

log = logging.getLogger(__name__)

RELAY_TIMEOUT_S: Final = 10.0
STATUS_TIMEOUT_S: Final = 5.0


def get_running_info(broker: Broker, request: Request[RunningInfoHeader]) -> Deferred:
    header = request.header
    connection = _connection(broker.clients.consumers, header.consumer_group, header.client_id)
    command = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, fields=fields_of(header))
    return _relay(broker.background, request, connection, command)


def consume_directly(broker: Broker, request: Request[ConsumeDirectlyHeader]) -> Deferred:
    """The consumer gets one message out of turn, and reports the result of its listener."""
    header = request.header
    connection = _connection(
        broker.clients.consumers, header.consumer_group, header.client_id or ""
    )
    record = stored_record(broker.store, parse_offset_id(header.msg_id or "").physical_offset)
    header.broker_name = broker.config.broker_name
    command = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields=fields_of(header), body=record)
    return _relay(broker.background, request, connection, command)


def get_consumer_status(broker: Broker, request: Request[ConsumerStatusHeader]) -> Deferred:
    """How far each consumer of a group has come, or one of them, without those that do not answer.

    What is called `clientAddr` is the id of a client.
    """
    header = request.header
    group = broker.clients.consumers.find(header.group)
    if group is None:
        raise _offline(header.group)
    wanted = header.client_addr
    asked = {
        client.client_id: connection
        for connection, client in group.members.items()
        if not wanted or client.client_id == wanted
    }
    command = Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, fields=fields_of(header))

    async def ask_all() -> Reply:
        answers = await asyncio.gather(*(_status(each, command) for each in asked.values()))
        by_client = {
            client_id: table
            for client_id, table in zip(asked, answers, strict=True)
            if table is not None
        }
        return Reply(body=write_body(ConsumerStatus(consumer_table=by_client)))

    return defer(broker.background, request, ask_all)


def _connection(
    consumers: Consumers[ClientConnection], group: str, client_id: str
) -> ClientConnection:
    members = consumers.find(group)
    connection = None if members is None else members.connection_of(client_id)
    if connection is None:
        raise _offline(f"{group}, {client_id}")
    return connection


def _offline(who: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, f"consumer {who[:200]!r} is not connected")


def _relay(
    background: Background, request: Request[Any], connection: ClientConnection, command: Command
) -> Deferred:
    async def ask() -> Reply:
        try:
            answer = await connection.call(command, RELAY_TIMEOUT_S)
        except CallTimedOut as error:
            return Reply(ResponseCode.CONSUME_MSG_TIMEOUT, remark=str(error))
        except NetError as error:
            return Reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        return Reply(_known_code(answer.code), body=answer.body, remark=answer.remark)

    return defer(background, request, ask)


def _known_code(code: int) -> ResponseCode:
    try:
        return ResponseCode(code)
    except ValueError:
        return ResponseCode.SYSTEM_ERROR


async def _status(connection: ClientConnection, command: Command) -> QueueTable[int] | None:
    try:
        answer = await connection.call(command, STATUS_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            return None
        return read_body(ConsumerStatus, answer.body).message_queue_table
    except (NetError, BadBody):
        return None


PUSH_TIMEOUT_S: Final = 10.0

# A client cannot read an answer without an id, even when nothing was stored.
_NO_ID: Final = "0"
_SHOWN_SIZE_MAX: Final = 150
_TRANSACTION_MASK: Final = SysFlag.TRANSACTION_MASK.value


def send_reply(broker: Broker, request: Request[SendMessageHeader]) -> Deferred:
    topic = checked_topic(broker, request)
    queue_id = checked_queue_id(request, topic)

    async def push_and_store() -> Reply | ReplyDeferred | bytes:
        problem = await _push(broker, request)
        code = ResponseCode.SUCCESS if problem is None else ResponseCode.SYSTEM_ERROR
        header = SendMessageReplyHeader(
            msg_id=_NO_ID,
            queue_id=queue_id,
            queue_offset=0,
            region_id=broker.config.region_id,
            is_traced=broker.config.trace_on,
        )
        appended = _stored(broker, request, queue_id)
        if appended is None:
            return Reply(code, header, remark=problem)
        header.msg_id = offset_id(broker.messages.store_host, appended.physical_offset)
        header.queue_offset = appended.queue_offset
        end = appended.physical_offset + appended.size
        reply = Reply(code, header, remark=problem)
        return broker.messages.acks.reply_when_safe(request, end, reply, OnTimeout.IGNORE)

    return defer(broker.background, request, push_and_store)


async def _push(broker: Broker, request: Request[SendMessageHeader]) -> str | None:
    """Hands the reply to the client that asked; why that failed, if it did."""
    client_id = property_of(request.header.properties or "", Property.REPLY_TO_CLIENT)
    if client_id is None:
        return f"a reply without {Property.REPLY_TO_CLIENT}"
    connection = broker.clients.producers.connection_of(client_id)
    if connection is None:
        return f"client {client_id[:_SHOWN_SIZE_MAX]!r} is not connected"
    try:
        answer = await connection.call(_pushed(broker, request), PUSH_TIMEOUT_S)
    except NetError as error:
        return str(error)
    if answer.code != ResponseCode.SUCCESS:
        return f"client {client_id[:_SHOWN_SIZE_MAX]!r} did not take it: {answer.remark}"
    return None


def _pushed(broker: Broker, request: Request[SendMessageHeader]) -> Command:
    sent = request.header
    now_ms = broker.clock.now_ms()
    header = PushReplyHeader(
        producer_group=sent.producer_group,
        topic=sent.topic,
        default_topic=sent.default_topic,
        default_topic_queue_nums=sent.default_topic_queue_nums,
        queue_id=sent.queue_id,
        sys_flag=sent.sys_flag,
        born_timestamp=sent.born_timestamp,
        flag=sent.flag,
        born_host=str(request.connection.peer_address),
        store_host=str(unpack_host(broker.messages.store_host)),
        store_timestamp=now_ms,
        properties=with_property(sent.properties or "", Property.PUSH_REPLY_TIME, str(now_ms)),
        reconsume_times=sent.reconsume_times,
        unit_mode=sent.unit_mode,
    )
    return Command(
        RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, fields=fields_of(header), body=request.body
    )


def _stored(broker: Broker, request: Request[SendMessageHeader], queue_id: int) -> Appended | None:
    """Where the copy is, if there is one."""
    if not broker.config.store_replies:
        return None
    try:
        return append_message(broker.messages, _new_message(broker, request, queue_id))
    except Refused as refused:
        # The reply was for its client, the stored copy is for later inspection.
        log.warning("a reply is not stored: %s", refused)
        return None


def _new_message(broker: Broker, request: Request[SendMessageHeader], queue_id: int) -> NewMessage:
    """With the properties as they came: Apache adds nothing to those of a reply."""
    header = request.header
    return NewMessage(
        topic=header.topic,
        queue_id=queue_id,
        body=request.body,
        properties=header.properties or "",
        born_timestamp=header.born_timestamp,
        born_host=request.connection.peer_host,
        store_host=broker.messages.store_host,
        flag=header.flag,
        sys_flag=header.sys_flag & ~_TRANSACTION_MASK,
        reconsume_times=header.reconsume_times or 0,
    )


ROUTES = (
    on(
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        RunningInfoHeader,
        get_running_info,
        needs=sub_group("consumer_group"),
    ),
    on(RequestCode.CONSUME_MESSAGE_DIRECTLY, ConsumeDirectlyHeader, consume_directly),
    on(
        RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
        ConsumerStatusHeader,
        get_consumer_status,
        needs=sub_group("group"),
    ),
    on(RequestCode.SEND_REPLY_MESSAGE, SendMessageHeader, send_reply, needs=REPLYING),
    on(RequestCode.SEND_REPLY_MESSAGE_V2, SendMessageHeaderV2, send_reply, needs=REPLYING),
)

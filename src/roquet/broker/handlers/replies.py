"""Replies to requests (324, 325): on to the client that asked, and into the reply topic.

A request is a plain message that names its sender in REPLY_TO_CLIENT. Whoever consumed it sends
the reply to the broker it came from, which pushes it (326) over the connection of the sender.
"""

import logging
from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.handlers.deferred import defer
from roquet.broker.handlers.needs import REPLYING
from roquet.broker.handlers.sending import checked_queue_id, checked_topic
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.new_message import NewMessage, append_message
from roquet.net.errors import NetError, Refused
from roquet.net.router import Deferred, Reply, ReplyDeferred, Request, on
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.messages import (
    PushReplyHeader,
    SendMessageHeader,
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.host import unpack_host
from roquet.protocol.messages.message import Property, SysFlag
from roquet.protocol.messages.message_id import offset_id
from roquet.protocol.messages.properties import property_of, with_property
from roquet.store.appends import Appended

log = logging.getLogger(__name__)

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
        header.msg_id = offset_id(broker.store_host, appended.physical_offset)
        header.queue_offset = appended.queue_offset
        end = appended.physical_offset + appended.size
        reply = Reply(code, header, remark=problem)
        return broker.acks.reply_when_safe(request, end, reply, OnTimeout.IGNORE)

    return defer(broker, request, push_and_store)


async def _push(broker: Broker, request: Request[SendMessageHeader]) -> str | None:
    """Hands the reply to the client that asked; why that failed, if it did."""
    client_id = property_of(request.header.properties or "", Property.REPLY_TO_CLIENT)
    if client_id is None:
        return f"a reply without {Property.REPLY_TO_CLIENT}"
    connection = broker.producers.connection_of(client_id)
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
        store_host=str(unpack_host(broker.store_host)),
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
        return append_message(broker, _new_message(broker, request, queue_id))
    except Refused as refused:
        # It was for its client, and the copy for whoever wants to look at it later.
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
        store_host=broker.store_host,
        flag=header.flag,
        sys_flag=header.sys_flag & ~_TRANSACTION_MASK,
        reconsume_times=header.reconsume_times or 0,
    )


ROUTES = (
    on(RequestCode.SEND_REPLY_MESSAGE, SendMessageHeader, send_reply, needs=REPLYING),
    on(RequestCode.SEND_REPLY_MESSAGE_V2, SendMessageHeaderV2, send_reply, needs=REPLYING),
)

"""What an operator asks a consumer through the broker: it is asked, and its answer handed on."""

import asyncio
from typing import Any, Final

from roquet.access.needs import sub_group
from roquet.broker.broker import Broker
from roquet.broker.handlers.deferred import defer
from roquet.broker.messages.stored_record import stored_record
from roquet.net.connection import Connection
from roquet.net.errors import CallTimedOut, NetError, Refused
from roquet.net.router import Deferred, Reply, Request, on
from roquet.protocol.bodies.body import QueueTable, read_body, write_body
from roquet.protocol.bodies.offsets import ConsumerStatus
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadBody
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.clients import (
    ConsumeDirectlyHeader,
    RunningInfoHeader,
)
from roquet.protocol.headers.offsets import ConsumerStatusHeader
from roquet.protocol.messages.message_id import parse_offset_id

RELAY_TIMEOUT_S: Final = 10.0
STATUS_TIMEOUT_S: Final = 5.0


def get_running_info(broker: Broker, request: Request[RunningInfoHeader]) -> Deferred:
    header = request.header
    connection = _connection(broker, header.consumer_group, header.client_id)
    command = Command(RequestCode.GET_CONSUMER_RUNNING_INFO, fields=fields_of(header))
    return _relay(broker, request, connection, command)


def consume_directly(broker: Broker, request: Request[ConsumeDirectlyHeader]) -> Deferred:
    """The consumer gets one message out of turn, and says how its listener took it."""
    header = request.header
    connection = _connection(broker, header.consumer_group, header.client_id or "")
    record = stored_record(broker, parse_offset_id(header.msg_id or "").physical_offset)
    header.broker_name = broker.config.broker_name
    command = Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields=fields_of(header), body=record)
    return _relay(broker, request, connection, command)


def get_consumer_status(broker: Broker, request: Request[ConsumerStatusHeader]) -> Deferred:
    """How far each consumer of a group has come, or one of them, without those that do not answer.

    What is called `clientAddr` is the id of a client.
    """
    header = request.header
    group = broker.consumers.find(header.group)
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

    return defer(broker, request, ask_all)


def _connection(broker: Broker, group: str, client_id: str) -> Connection:
    members = broker.consumers.find(group)
    connection = None if members is None else members.connection_of(client_id)
    if connection is None:
        raise _offline(f"{group}, {client_id}")
    return connection


def _offline(who: str) -> Refused:
    return Refused(ResponseCode.SYSTEM_ERROR, f"consumer {who[:200]!r} is not connected")


def _relay(
    broker: Broker, request: Request[Any], connection: Connection, command: Command
) -> Deferred:
    async def ask() -> Reply:
        try:
            answer = await connection.call(command, RELAY_TIMEOUT_S)
        except CallTimedOut as error:
            return Reply(ResponseCode.CONSUME_MSG_TIMEOUT, remark=str(error))
        except NetError as error:
            return Reply(ResponseCode.SYSTEM_ERROR, remark=str(error))
        return Reply(_known_code(answer.code), body=answer.body, remark=answer.remark)

    return defer(broker, request, ask)


def _known_code(code: int) -> ResponseCode:
    try:
        return ResponseCode(code)
    except ValueError:
        return ResponseCode.SYSTEM_ERROR


async def _status(connection: Connection, command: Command) -> QueueTable[int] | None:
    try:
        answer = await connection.call(command, STATUS_TIMEOUT_S)
        if answer.code != ResponseCode.SUCCESS:
            return None
        return read_body(ConsumerStatus, answer.body).message_queue_table
    except (NetError, BadBody):
        return None


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
)

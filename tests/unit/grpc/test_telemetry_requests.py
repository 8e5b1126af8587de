"""Requests of operators reach clients by their telemetry streams."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from roquet.grpc.codes import ClientType, Code
from roquet.grpc.schema import Message, pb
from roquet.net.errors import CallTimedOut, ConnectionLost
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.clients import ConsumeResult, ConsumerRunningInfo, DirectConsumeResult
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.groups import RunningInfoHeader
from tests.support.broker_bed import BrokerBed
from tests.support.drafts import draft
from tests.support.grpc_client import GrpcTestClient
from tests.support.raising import raises
from tests.support.records import record_of

GROUP = "readers"
TIMEOUT_S = 30.0


@pytest.fixture
async def stream_id(client: GrpcTestClient) -> int:
    subscription = pb.Subscription(
        group=pb.Resource(name=GROUP),
        subscriptions=[pb.SubscriptionEntry(topic=pb.Resource(name="normal"))],
    )
    kind = ClientType.PUSH_CONSUMER
    return await client.settings(client_type=kind, subscription=subscription)


def asked(
    bed: BrokerBed, command: Command, timeout_s: float = TIMEOUT_S
) -> Coroutine[Any, Any, Command]:
    """As the handlers of the broker ask."""
    group = bed.broker.clients.consumers.find(GROUP)
    assert group is not None
    connection = group.connection_of("test@1@0@a")
    assert connection is not None
    return connection.call(command, timeout_s)


def running_info(*, jstack: bool) -> Command:
    header = RunningInfoHeader(consumer_group=GROUP, client_id="test@1@0@a", jstack_enable=jstack)
    return Command(RequestCode.GET_CONSUMER_RUNNING_INFO, fields=fields_of(header))


def verification() -> Command:
    record = record_of(draft(b"hello", topic="normal"))
    return Command(RequestCode.CONSUME_MESSAGE_DIRECTLY, body=record)


async def telemetry_request(client: GrpcTestClient, stream_id: int) -> Message:
    return pb.TelemetryCommand.FromString(await client.message(stream_id, 1))


async def test_what_a_consumer_subscribes_needs_no_request(bed: BrokerBed, stream_id: int) -> None:
    assert stream_id
    answer = await asked(bed, running_info(jstack=False))
    info = read_body(ConsumerRunningInfo, answer.body)
    assert [each.topic for each in info.subscription_set] == ["normal"]
    assert info.jstack is None


async def test_stacks_come_from_the_client(
    bed: BrokerBed, client: GrpcTestClient, stream_id: int
) -> None:
    asking = asyncio.ensure_future(asked(bed, running_info(jstack=True)))
    given = await telemetry_request(client, stream_id)
    nonce = given.print_thread_stack_trace_command.nonce
    trace = pb.ThreadStackTrace(nonce=nonce, thread_stack_trace="main waits")
    client.send(stream_id, pb.TelemetryCommand(thread_stack_trace=trace))
    assert read_body(ConsumerRunningInfo, (await asking).body).jstack == "main waits"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (Code.OK, ConsumeResult.SUCCESS),
        (Code.MESSAGE_CORRUPTED, ConsumeResult.RETURN_NULL),
        (Code.INTERNAL_SERVER_ERROR, ConsumeResult.LATER),
    ],
)
async def test_a_message_is_consumed_out_of_turn(
    bed: BrokerBed, client: GrpcTestClient, stream_id: int, code: Code, result: ConsumeResult
) -> None:
    asking = asyncio.ensure_future(asked(bed, verification()))
    given = (await telemetry_request(client, stream_id)).verify_message_command
    assert (given.message.topic.name, given.message.body) == ("normal", b"hello")
    answer = pb.TelemetryCommand(
        status=pb.Status(code=code), verify_message_result=pb.VerifyMessageResult(nonce=given.nonce)
    )
    client.send(stream_id, answer)
    found = read_body(DirectConsumeResult, (await asking).body)
    assert found.consume_result == result


async def test_a_client_that_does_not_answer_is_not_waited_for(
    bed: BrokerBed, client: GrpcTestClient, stream_id: int
) -> None:
    with raises(CallTimedOut, code=RequestCode.CONSUME_MESSAGE_DIRECTLY):
        await asked(bed, verification(), 0.01)
    late = pb.VerifyMessageResult(
        nonce=(await telemetry_request(client, stream_id)).verify_message_command.nonce
    )
    client.send(stream_id, pb.TelemetryCommand(verify_message_result=late))
    again = pb.TelemetryCommand(settings=pb.Settings(publishing=pb.Publishing()))
    client.send(stream_id, again)
    assert await client.message(stream_id, 2)


async def test_what_no_sdk_knows_is_not_asked(bed: BrokerBed, stream_id: int) -> None:
    assert stream_id
    with raises(ConnectionLost):
        await asked(bed, Command(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT))

"""The methods of a proxy in front of a cluster, as a client sees them."""

import asyncio
import time
from typing import Any

import pytest

from roquet.grpc.clients import GONE_AFTER_S
from roquet.grpc.codes import ClientType, Code, MessageType
from roquet.grpc.outgoing import consistent_hash, java_hash
from roquet.grpc.schema import Message, pb
from roquet.protocol.bodies.groups import GroupConfig
from tests.support.eventually import eventually
from tests.support.grpc_client import GrpcTestClient, grpc_client
from tests.support.grpc_requests import (
    ENDPOINTS,
    GROUP,
    ack,
    as_consumer,
    message,
    receive_request,
    received,
    sent,
)
from tests.support.live_cluster import LiveCluster

PATIENT = pb.Duration(seconds=15)


def in_flight(cluster: LiveCluster) -> int:
    return cluster.brokers["broker-a"].waiting.pops.in_flight.count


def change(given: Message, seconds: int, topic: str = "normal") -> Any:
    return pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name=topic),
        receipt_handle=given.system_properties.receipt_handle,
        invisible_duration=pb.Duration(seconds=seconds),
    )


async def test_a_route_has_the_address_that_the_client_used(client: GrpcTestClient) -> None:
    request = pb.QueryRouteRequest(topic=pb.Resource(name="fifo"), endpoints=ENDPOINTS)
    route = await client.call("QueryRoute", request)
    assert [(queue.id, queue.broker.name) for queue in route.message_queues] == [
        (0, "broker-a"),
        (1, "broker-a"),
    ]
    assert all(queue.broker.endpoints == ENDPOINTS for queue in route.message_queues)
    assert list(route.message_queues[0].accept_message_types) == [MessageType.FIFO]


@pytest.mark.parametrize(
    ("topic", "code"), [("lost", Code.TOPIC_NOT_FOUND), ("", Code.ILLEGAL_TOPIC)]
)
async def test_a_route_of_no_topic_is_refused(
    client: GrpcTestClient, topic: str, code: Code
) -> None:
    request = pb.QueryRouteRequest(topic=pb.Resource(name=topic), endpoints=ENDPOINTS)
    assert await client.refused("QueryRoute", request) == code


async def test_an_ordered_group_is_assigned_each_queue(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    groups = cluster.brokers["broker-a"].tables.groups
    groups.update(GroupConfig(group_name="ordered", consume_message_orderly=True))
    found = {}
    for group in ("ordered", "other"):
        request = pb.QueryAssignmentRequest(
            topic=pb.Resource(name="fifo"), group=pb.Resource(name=group), endpoints=ENDPOINTS
        )
        answer = await client.call("QueryAssignment", request)
        found[group] = [each.message_queue.id for each in answer.assignments]
    assert found == {"ordered": [0, 1], "other": [-1]}


async def test_a_message_is_stored_with_all_that_it_has(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    answer = await sent(client, message(tag="new", keys=["k1", "k2"]))
    assert answer.status.code == Code.OK
    assert [entry.message_id for entry in answer.entries] == ["0102FC01"]
    (found,) = cluster.all_stored("normal")
    assert (found.body, found.tags, found.keys) == (b"hello", "new", ("k1", "k2"))
    assert found.message_id == "0102FC01"
    assert found.properties["city"] == "Rome"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (message(body=b""), Code.MESSAGE_BODY_EMPTY),
        (message("fifo"), Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (message("lost"), Code.TOPIC_NOT_FOUND),
    ],
)
async def test_a_message_that_is_wrong_is_refused(
    cluster: LiveCluster, client: GrpcTestClient, given: Message, code: Code
) -> None:
    assert (await sent(client, given)).status.code == code
    assert not cluster.all_stored(given.topic.name)


async def test_messages_of_one_request_have_a_result_each(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    given = [message(body=b"%d" % index, message_id=f"id-{index}") for index in range(3)]
    answer = await sent(client, *given)
    assert [entry.message_id for entry in answer.entries] == ["id-0", "id-1", "id-2"]
    assert [each.body for each in cluster.all_stored("normal")] == [b"0", b"1", b"2"]


async def test_a_message_group_keeps_to_one_queue(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    for index in range(4):
        given = message("fifo", b"%d" % index, message_group="orders-7")
        assert (await sent(client, given)).status.code == Code.OK
    queue_id = consistent_hash(java_hash("orders-7"), 2)
    assert [each.body for each in cluster.stored("fifo", queue_id)] == [b"0", b"1", b"2", b"3"]


async def test_a_delayed_message_is_recalled(cluster: LiveCluster, client: GrpcTestClient) -> None:
    due_s = int(time.time()) + 60
    given = message("delay", delivery_timestamp=pb.Timestamp(seconds=due_s))
    handle = (await sent(client, given)).entries[0].recall_handle
    assert not cluster.all_stored("delay")
    request = pb.RecallMessageRequest(topic=pb.Resource(name="delay"), recall_handle=handle)
    answer = await client.call("RecallMessage", request)
    assert (answer.status.code, answer.message_id) == (Code.OK, "0102FC01")
    request.recall_handle = "nonsense"
    assert await client.refused("RecallMessage", request) == Code.BAD_REQUEST


@pytest.mark.parametrize(("resolution", "count"), [(1, 1), (2, 0)])
async def test_a_transaction_is_ended_once(
    cluster: LiveCluster, client: GrpcTestClient, resolution: int, count: int
) -> None:
    given = message("transaction", message_type=MessageType.TRANSACTION)
    answer = await sent(client, given)
    assert not cluster.all_stored("transaction")
    request = pb.EndTransactionRequest(
        topic=pb.Resource(name="transaction"),
        message_id="0102FC01",
        transaction_id=answer.entries[0].transaction_id,
        resolution=resolution,
    )
    for _ in range(2):
        assert await client.refused("EndTransaction", request) == Code.OK
    assert len(cluster.all_stored("transaction")) == count
    request.transaction_id = "nothing"
    assert await client.refused("EndTransaction", request) == Code.INVALID_TRANSACTION_ID


async def test_received_messages_are_acknowledged(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    for index in range(3):
        await sent(client, message(body=b"%d" % index, tag="new", message_id=f"id-{index}"))
    found: list[Message] = []
    while len(found) < 3:
        found += await received(client, receive_request(long_polling_timeout=PATIENT))
    assert {each.body for each in found} == {b"0", b"1", b"2"}
    assert found[0].system_properties.delivery_attempt == 1
    assert found[0].system_properties.tag == "new"
    assert [(each.key, each.value) for each in found[0].user_properties] == [("city", "Rome")]
    assert in_flight(cluster) == 3
    answer = await client.call("AckMessage", ack(*found))
    assert [entry.status.code for entry in answer.entries] == [Code.OK] * 3
    assert in_flight(cluster) == 0
    assert await received(client, receive_request()) == []


async def test_a_receive_waits_for_a_message(client: GrpcTestClient) -> None:
    await as_consumer(client)
    stream = client.start("ReceiveMessage", receive_request(long_polling_timeout=PATIENT))
    await sent(client, message())
    assert len((await client.finished(stream)).messages) == 3


@pytest.mark.parametrize(
    "expression",
    [pb.FilterExpression(type=1, expression="b"), pb.FilterExpression(type=2, expression="n > 1")],
)
async def test_only_what_is_wanted_is_received(client: GrpcTestClient, expression: Any) -> None:
    await as_consumer(client)
    for number, tag in enumerate("ab", 1):
        given = message(body=tag.encode(), tag=tag)
        given.user_properties.add(key="n", value=str(number))
        await sent(client, given)
    request = receive_request(long_polling_timeout=PATIENT, filter_expression=expression)
    assert [each.body for each in await received(client, request)] == [b"b"]


async def test_a_filter_that_is_no_sql_is_refused(client: GrpcTestClient) -> None:
    expression = pb.FilterExpression(type=2, expression="n >")
    stream = client.start("ReceiveMessage", receive_request(filter_expression=expression))
    (answer,) = (await client.finished(stream)).messages
    status = pb.ReceiveMessageResponse.FromString(answer).status
    assert status.code == Code.ILLEGAL_FILTER_EXPRESSION


async def test_what_a_cancelled_receive_was_to_get_comes_to_others(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    polls = cluster.brokers["broker-a"].waiting.pop_polls
    stream = client.start("ReceiveMessage", receive_request(long_polling_timeout=PATIENT))
    await eventually(lambda: polls.count == 1)
    client.reset(stream)
    await sent(client, message())
    (found,) = await received(client, receive_request(long_polling_timeout=PATIENT))
    assert found.system_properties.delivery_attempt == 1


@pytest.mark.parametrize("handle", ["nonsense", "0 1 10000 0 0 broker-a 1 0 7"])
async def test_a_receipt_that_is_wrong_or_too_old_is_refused(
    client: GrpcTestClient, handle: str
) -> None:
    request = ack()
    request.entries.add(receipt_handle=handle)
    assert await client.refused("AckMessage", request) == Code.INVALID_RECEIPT_HANDLE


async def test_a_message_that_is_given_back_comes_again(client: GrpcTestClient) -> None:
    await as_consumer(client)
    await sent(client, message())
    (found,) = await received(client, receive_request(long_polling_timeout=PATIENT))
    answer = await client.call("ChangeInvisibleDuration", change(found, 0))
    assert answer.receipt_handle != found.system_properties.receipt_handle
    (again,) = await received(client, receive_request(long_polling_timeout=PATIENT))
    assert (again.body, again.topic.name) == (b"hello", "normal")
    assert again.system_properties.delivery_attempt == 2
    answer = await client.call("AckMessage", ack(again))
    assert answer.status.code == Code.OK


async def test_what_was_received_too_often_is_a_dead_letter(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    groups = cluster.brokers["broker-a"].tables.groups
    groups.update(GroupConfig(group_name=GROUP, retry_max_times=0))
    await as_consumer(client)
    await sent(client, message())
    (found,) = await received(client, receive_request(long_polling_timeout=PATIENT))
    await client.call("ChangeInvisibleDuration", change(found, 0))
    assert await received(client, receive_request(long_polling_timeout=PATIENT)) == []
    (dead,) = cluster.stored(f"%DLQ%{GROUP}")
    assert (dead.body, dead.message_id) == (b"hello", "0102FC01")
    assert in_flight(cluster) == 0


async def test_a_client_can_send_a_message_to_the_dead_letters(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    await sent(client, message())
    (found,) = await received(client, receive_request(long_polling_timeout=PATIENT))
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name="normal"),
        receipt_handle=found.system_properties.receipt_handle,
    )
    assert await client.refused("ForwardMessageToDeadLetterQueue", request) == Code.OK
    assert len(cluster.stored(f"%DLQ%{GROUP}")) == 1
    assert in_flight(cluster) == 0


async def test_ordered_groups_get_one_message_group_in_order(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    groups = cluster.brokers["broker-a"].tables.groups
    groups.update(GroupConfig(group_name=GROUP, consume_message_orderly=True))
    await as_consumer(client, "fifo")
    for index in range(3):
        await sent(client, message("fifo", b"%d" % index, message_group="g"))
    request = receive_request("fifo", batch_size=1, long_polling_timeout=PATIENT)
    (first,) = await received(client, request)
    assert first.body == b"0"
    assert await received(client, receive_request("fifo", batch_size=1)) == []
    await client.call("AckMessage", ack(first, topic="fifo"))
    (second,) = await received(client, request)
    assert second.body == b"1"


async def test_the_messages_of_a_lost_push_consumer_come_again_soon(
    port: int, client: GrpcTestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.grpc.clients.GONE_AFTER_S", GONE_AFTER_S / 100)
    async with grpc_client(port, "push@1@0@b") as other:
        await as_consumer(other)
        await sent(client, message())
        request = receive_request(auto_renew=True, long_polling_timeout=PATIENT)
        assert len(await received(other, request)) == 1
    async with asyncio.timeout(10):
        (again,) = await received(client, receive_request(long_polling_timeout=PATIENT))
    assert again.system_properties.delivery_attempt == 1


async def test_heartbeats_are_for_those_who_have_sent_their_settings(
    client: GrpcTestClient,
) -> None:
    request = pb.HeartbeatRequest(client_type=ClientType.SIMPLE_CONSUMER)
    assert await client.refused("Heartbeat", request) == Code.UNRECOGNIZED_CLIENT_TYPE
    await as_consumer(client)
    assert await client.refused("Heartbeat", request) == Code.OK
    goodbye = pb.NotifyClientTerminationRequest(group=pb.Resource(name=GROUP))
    assert await client.refused("NotifyClientTermination", goodbye) == Code.OK
    assert await client.refused("Heartbeat", request) == Code.UNRECOGNIZED_CLIENT_TYPE


async def test_settings_of_a_group_are_those_of_its_broker(
    cluster: LiveCluster, client: GrpcTestClient
) -> None:
    config = GroupConfig(group_name=GROUP, retry_max_times=2, consume_message_orderly=True)
    cluster.brokers["broker-a"].tables.groups.update(config)
    stream = await as_consumer(client)
    settings = pb.TelemetryCommand.FromString(await client.message(stream)).settings
    assert settings.backoff_policy.max_attempts == 3
    assert settings.subscription.fifo


async def test_settings_of_no_client_end_the_stream(client: GrpcTestClient) -> None:
    stream = client.start("Telemetry")
    client.send(stream, pb.TelemetryCommand(settings=pb.Settings()))
    assert (await client.finished(stream)).status == 3


@pytest.mark.parametrize("name", ["PullMessage", "GetOffset", "SyncLiteSubscription"])
async def test_what_apache_does_not_implement_is_not_implemented(
    client: GrpcTestClient, name: str
) -> None:
    assert (await client.finished(client.start(name, b""))).status == 12

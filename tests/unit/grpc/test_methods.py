"""The methods, as a client sees them: from routes to acknowledged messages."""

import math
from typing import Final

import pytest
from h2.settings import SettingCodes

from roquet.broker.pop.redelivery import redeliver_slice
from roquet.grpc.clients import GONE_AFTER_S
from roquet.grpc.codes import ClientType, Code, MessageType
from roquet.grpc.outgoing import consistent_hash, java_hash
from roquet.grpc.schema import Message, pb
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.messages.message import Property, StoredMessage
from tests.support.broker_bed import BrokerBed
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
from tests.support.stores import messages

# Of HTTP/2, if a client does not say otherwise.
WINDOW_SIZE: Final = 65_535


def stored(bed: BrokerBed, topic: str) -> list[StoredMessage]:
    return [each for queue in range(2) for each in messages(bed.broker.store, topic, queue)]


async def test_a_route_has_the_address_that_the_client_used(client: GrpcTestClient) -> None:
    request = pb.QueryRouteRequest(topic=pb.Resource(name="fifo"), endpoints=ENDPOINTS)
    route = await client.call("QueryRoute", request)
    assert [queue.id for queue in route.message_queues] == [0, 1]
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


async def test_a_call_without_a_client_id_is_refused(client: GrpcTestClient) -> None:
    client.client_id = ""
    request = pb.QueryRouteRequest(topic=pb.Resource(name="normal"))
    assert await client.refused("QueryRoute", request) == Code.CLIENT_ID_REQUIRED


async def test_a_message_is_stored_with_all_that_it_has(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    answer = await sent(client, message(tag="new", keys=["k1", "k2"]))
    assert answer.status.code == Code.OK
    assert [entry.message_id for entry in answer.entries] == ["0102FC01"]
    (found,) = stored(bed, "normal")
    assert (found.body, found.tags, found.keys) == (b"hello", "new", ("k1", "k2"))
    assert found.message_id == "0102FC01"
    assert found.properties["city"] == "Rome"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (message(body=b""), Code.MESSAGE_BODY_EMPTY),
        (message(message_id=" "), Code.ILLEGAL_MESSAGE_ID),
        (message(tag="a|b"), Code.ILLEGAL_MESSAGE_TAG),
        (message(keys=["\x01"]), Code.ILLEGAL_MESSAGE_KEY),
        (message(message_group="g"), Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (message("fifo"), Code.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (message("fifo", message_group=" "), Code.ILLEGAL_MESSAGE_GROUP),
        (message("lost"), Code.TOPIC_NOT_FOUND),
        (
            message("delay", delivery_timestamp=pb.Timestamp(seconds=1 << 40)),
            Code.ILLEGAL_DELIVERY_TIME,
        ),
    ],
)
async def test_a_message_that_is_wrong_is_refused(
    bed: BrokerBed, client: GrpcTestClient, given: Message, code: Code
) -> None:
    assert (await sent(client, given)).status.code == code
    assert not stored(bed, given.topic.name)


async def test_a_property_of_the_system_is_no_property_of_a_user(client: GrpcTestClient) -> None:
    given = message()
    given.user_properties.add(key=Property.UNIQUE_KEY, value="1")
    assert (await sent(client, given)).status.code == Code.ILLEGAL_MESSAGE_PROPERTY_KEY


async def test_a_message_group_keeps_to_one_queue(bed: BrokerBed, client: GrpcTestClient) -> None:
    for index in range(4):
        given = message("fifo", b"%d" % index, message_group="orders-7")
        assert (await sent(client, given)).status.code == Code.OK
    queue_id = consistent_hash(java_hash("orders-7"), 2)
    assert [each.body for each in messages(bed.broker.store, "fifo", queue_id)] == [
        b"0",
        b"1",
        b"2",
        b"3",
    ]


def test_hashes_are_those_of_java_and_guava() -> None:
    # As Java's String.hashCode gives them.
    assert java_hash("hello") == 99162322
    assert java_hash("Überraschung 🎉") == java_hash("Überraschung \ud83c\udf89")
    assert {consistent_hash(number, 8) for number in range(100)} == set(range(8))
    moved = [n for n in range(1000) if consistent_hash(n, 8) != consistent_hash(n, 9)]
    assert all(consistent_hash(number, 9) == 8 for number in moved)


async def test_a_delayed_message_waits(bed: BrokerBed, client: GrpcTestClient) -> None:
    due_s = bed.clock.now_ms() // 1000 + 60
    given = message("delay", delivery_timestamp=pb.Timestamp(seconds=due_s))
    assert (await sent(client, given)).status.code == Code.OK
    assert not stored(bed, "delay")
    assert bed.broker.store.max_offset("rmq_sys_wheel_timer", 0) == 1


async def test_a_delayed_message_is_recalled(bed: BrokerBed, client: GrpcTestClient) -> None:
    due_s = bed.clock.now_ms() // 1000 + 60
    given = message("delay", delivery_timestamp=pb.Timestamp(seconds=due_s))
    handle = (await sent(client, given)).entries[0].recall_handle
    request = pb.RecallMessageRequest(topic=pb.Resource(name="delay"), recall_handle=handle)
    answer = await client.call("RecallMessage", request)
    assert (answer.status.code, answer.message_id) == (Code.OK, "0102FC01")
    request.recall_handle = "nonsense"
    assert await client.refused("RecallMessage", request) == Code.INTERNAL_SERVER_ERROR


@pytest.mark.parametrize(("resolution", "count"), [(1, 1), (2, 0)])
async def test_a_transaction_is_ended_once(
    bed: BrokerBed, client: GrpcTestClient, resolution: int, count: int
) -> None:
    given = message("transaction", message_type=MessageType.TRANSACTION)
    answer = await sent(client, given)
    request = pb.EndTransactionRequest(
        topic=pb.Resource(name="transaction"),
        message_id="0102FC01",
        transaction_id=answer.entries[0].transaction_id,
        resolution=resolution,
    )
    for _ in range(2):
        assert await client.refused("EndTransaction", request) == Code.OK
    assert len(stored(bed, "transaction")) == count
    request.transaction_id = "nothing"
    assert await client.refused("EndTransaction", request) == Code.INVALID_TRANSACTION_ID


async def test_received_messages_are_acknowledged(bed: BrokerBed, client: GrpcTestClient) -> None:
    await as_consumer(client)
    for index in range(3):
        await sent(client, message(body=b"%d" % index, tag="new", message_id=f"id-{index}"))
    found = await received(client, receive_request())
    assert {each.body for each in found} == {b"0", b"1", b"2"}
    assert found[0].system_properties.delivery_attempt == 1
    assert found[0].system_properties.tag == "new"
    assert [(each.key, each.value) for each in found[0].user_properties] == [("city", "Rome")]
    assert bed.broker.waiting.pops.in_flight.count == 3
    answer = await client.call("AckMessage", ack(*found))
    assert [entry.status.code for entry in answer.entries] == [Code.OK] * 3
    assert bed.broker.waiting.pops.in_flight.count == 0
    assert await received(client, receive_request()) == []


async def test_acks_that_come_together_are_written_together(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    queued = [message(body=b"%d" % index, message_id=f"id-{index}") for index in range(8)]
    await sent(client, *queued)  # To one queue.
    found = await received(client, receive_request())
    assert len(found) == 8
    broker = bed.broker
    before = broker.store.log_end
    stream_ids = [client.start("AckMessage", ack(each)) for each in found]
    for each in stream_ids:
        answered = pb.AckMessageResponse.FromString((await client.finished(each)).messages[0])
        assert [entry.status.code for entry in answered.entries] == [Code.OK]
    together = broker.store.log_end - before
    assert broker.waiting.pops.in_flight.count == 0
    await sent(client, *queued)
    found = await received(client, receive_request())
    before = broker.store.log_end
    for each in found:
        assert await client.refused("AckMessage", ack(each)) == Code.OK
    assert together < broker.store.log_end - before


async def test_a_number_that_no_queue_can_have_holds_up_no_ack(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    await sent(client, message())
    (found,) = await received(client, receive_request())
    request = ack(found)
    pop = found.system_properties.receipt_handle.rpartition(" ")[0]
    for number in (2**63 - 1, 2**63, 10**19 - 1):
        request.entries.add(receipt_handle=f"{pop} {number}")
    answer = await client.call("AckMessage", request)
    assert [entry.status.code for entry in answer.entries] == [
        *[Code.OK] * 2,
        *[Code.INVALID_RECEIPT_HANDLE] * 2,
    ]
    assert bed.broker.waiting.pops.in_flight.count == 0


async def test_a_change_comes_after_the_acks_before_it(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    await sent(client, message())
    (found,) = await received(client, receive_request())
    change = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name="normal"),
        receipt_handle=found.system_properties.receipt_handle,
        invisible_duration=pb.Duration(seconds=10),
    )
    stream_ids = [
        client.start("AckMessage", ack(found)),
        client.start("ChangeInvisibleDuration", change),
    ]
    for each in stream_ids:
        await client.finished(each)
    assert bed.broker.waiting.pops.in_flight.count == 0


async def test_a_receive_waits_for_a_message(client: GrpcTestClient) -> None:
    await as_consumer(client)
    stream = client.start(
        "ReceiveMessage", receive_request(long_polling_timeout=pb.Duration(seconds=20))
    )
    await sent(client, message())
    answer = await client.finished(stream)
    assert len(answer.messages) == 3


async def test_a_cancelled_receive_waits_no_more(bed: BrokerBed, client: GrpcTestClient) -> None:
    await as_consumer(client)
    stream = client.start(
        "ReceiveMessage", receive_request(long_polling_timeout=pb.Duration(seconds=20))
    )
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 1)
    client.reset(stream)
    await eventually(lambda: bed.broker.waiting.pop_polls.count == 0)


async def test_what_a_cancelled_receive_was_to_get_comes_again_at_once(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    await sent(client, message())
    # The client lets less come than the answer has.
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: 10})
    pops = bed.broker.waiting.pops
    stream = client.start("ReceiveMessage", receive_request())
    await eventually(lambda: pops.in_flight.count)
    client.h2.update_settings({SettingCodes.INITIAL_WINDOW_SIZE: WINDOW_SIZE})
    bed.clock.advance(1)
    client.reset(stream)
    await eventually(lambda: (pops.in_flight.next_due_ms or math.inf) <= pops.steady_ms)
    redeliver_slice(bed.broker)
    (found,) = await received(client, receive_request())
    # Nobody has seen it.
    assert found.system_properties.delivery_attempt == 1


async def test_a_message_comes_again_when_its_time_is_over_and_not_before(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    await sent(client, message())
    assert len(await received(client, receive_request())) == 1
    bed.clock.advance(15 - 1 / 16)
    redeliver_slice(bed.broker)
    assert await received(client, receive_request()) == []
    bed.clock.advance(1 / 16)
    redeliver_slice(bed.broker)
    (again,) = await received(client, receive_request())
    assert again.system_properties.delivery_attempt == 2


async def test_before_its_settings_a_client_may_receive_but_is_no_member(
    client: GrpcTestClient,
) -> None:
    request = pb.HeartbeatRequest(client_type=ClientType.SIMPLE_CONSUMER)
    assert await client.refused("Heartbeat", request) == Code.UNRECOGNIZED_CLIENT_TYPE
    await sent(client, message())
    assert len(await received(client, receive_request())) == 1


@pytest.mark.parametrize("handle", ["nonsense", "0 1 10000 0 0 broker 1 0"])
async def test_a_receipt_that_is_wrong_or_too_old_is_refused(
    client: GrpcTestClient, handle: str
) -> None:
    await as_consumer(client)
    request = ack()
    request.entries.add(receipt_handle=handle)
    assert await client.refused("AckMessage", request) == Code.INVALID_RECEIPT_HANDLE


async def test_a_message_that_is_given_back_comes_again(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    await sent(client, message())
    (found,) = await received(client, receive_request())
    request = pb.ChangeInvisibleDurationRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name="normal"),
        receipt_handle=found.system_properties.receipt_handle,
        invisible_duration=pb.Duration(seconds=1),
    )
    answer = await client.call("ChangeInvisibleDuration", request)
    assert answer.receipt_handle != request.receipt_handle
    bed.clock.advance(1.5)
    redeliver_slice(bed.broker)
    (again,) = await received(client, receive_request())
    assert again.body == b"hello"
    assert again.system_properties.delivery_attempt == 2
    assert again.topic.name == "normal"


async def test_what_was_received_too_often_is_a_dead_letter(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name=GROUP, retry_max_times=0))
    await as_consumer(client)
    await sent(client, message())
    assert len(await received(client, receive_request())) == 1
    bed.clock.advance(16)
    redeliver_slice(bed.broker)
    assert await received(client, receive_request()) == []
    (dead,) = messages(bed.broker.store, f"%DLQ%{GROUP}", 0)
    assert dead.body == b"hello"
    assert bed.broker.waiting.pops.in_flight.count == 0


async def test_as_many_attempts_as_a_group_may_have_can_be_counted(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    most = 2**31 - 1
    bed.broker.tables.groups.update(GroupConfig(group_name=GROUP, retry_max_times=most))
    await as_consumer(client)
    for times in (most, most - 1):
        bed.put(topic="normal", properties={"UNIQ_KEY": "1"}, reconsume_times=times)
    (found,) = await received(client, receive_request())
    assert found.system_properties.delivery_attempt == most
    (dead,) = messages(bed.broker.store, f"%DLQ%{GROUP}", 0)
    assert dead.reconsume_times == most


async def test_a_client_can_send_a_message_to_the_dead_letters(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    await sent(client, message())
    (found,) = await received(client, receive_request())
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name="normal"),
        receipt_handle=found.system_properties.receipt_handle,
    )
    assert await client.refused("ForwardMessageToDeadLetterQueue", request) == Code.OK
    assert len(messages(bed.broker.store, f"%DLQ%{GROUP}", 0)) == 1
    assert bed.broker.waiting.pops.in_flight.count == 0


async def test_ordered_groups_get_one_message_group_in_order(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name=GROUP, consume_message_orderly=True))
    await as_consumer(client, "fifo")
    for index in range(3):
        await sent(client, message("fifo", b"%d" % index, message_group="g"))
    (first,) = await received(client, receive_request("fifo", batch_size=1))
    assert first.body == b"0"
    assert await received(client, receive_request("fifo", batch_size=1)) == []
    await client.call("AckMessage", ack(first, topic="fifo"))
    (second,) = await received(client, receive_request("fifo", batch_size=1))
    assert second.body == b"1"


async def test_clients_are_members_until_they_say_goodbye(
    bed: BrokerBed, client: GrpcTestClient
) -> None:
    await as_consumer(client)
    group = bed.broker.clients.consumers.find(GROUP)
    assert group is not None
    assert group.client_ids == [client.client_id]
    request = pb.NotifyClientTerminationRequest(group=pb.Resource(name=GROUP))
    assert await client.refused("NotifyClientTermination", request) == Code.OK
    assert bed.broker.clients.consumers.find(GROUP) is None


async def test_the_messages_of_a_lost_push_consumer_come_again_soon(
    bed: BrokerBed, port: int, client: GrpcTestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.grpc.clients.GONE_AFTER_S", GONE_AFTER_S / 100)
    async with grpc_client(port, "push@1@0@b") as other:
        await as_consumer(other)
        await sent(client, message())
        assert len(await received(other, receive_request(auto_renew=True))) == 1
        bed.clock.advance(1)
    in_flight = bed.broker.waiting.pops.in_flight
    await eventually(
        lambda: (
            in_flight.next_due_ms is not None
            and in_flight.next_due_ms <= bed.broker.waiting.pops.steady_ms
        )
    )
    assert bed.broker.clients.consumers.find(GROUP) is None


async def test_settings_return_with_what_the_server_decides(client: GrpcTestClient) -> None:
    stream = await as_consumer(client)
    answer = pb.TelemetryCommand.FromString(await client.message(stream))
    assert answer.status.code == Code.OK
    assert answer.settings.backoff_policy.max_attempts == 17
    assert answer.settings.subscription.receive_batch_size == 32
    stream = await client.settings(publishing=pb.Publishing(topics=[pb.Resource(name="normal")]))
    answer = pb.TelemetryCommand.FromString(await client.message(stream))
    assert answer.settings.publishing.max_body_size == 4194304


async def test_settings_of_no_client_end_the_stream(client: GrpcTestClient) -> None:
    stream = client.start("Telemetry")
    client.send(stream, pb.TelemetryCommand(settings=pb.Settings()))
    assert (await client.finished(stream)).status == 3


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\xff\xff\xff\xff\xff"])
async def test_bytes_that_are_no_message_are_refused(client: GrpcTestClient, data: bytes) -> None:
    stream = await client.finished(client.start("SendMessage", data))
    assert stream.status == 3


@pytest.mark.parametrize("name", ["PullMessage", "GetOffset", "SyncLiteSubscription"])
async def test_what_apache_does_not_implement_is_not_implemented(
    client: GrpcTestClient, name: str
) -> None:
    assert (await client.finished(client.start(name, b""))).status == 12

"""The pop consumer, at a live broker."""

from collections.abc import Sequence

import pytest

from roquet import AsyncPopConsumer, AsyncProducer, Message, ReceivedMessage
from roquet.client.errors import BadArgument, RequestRefused, TopicNotFound, Unreachable
from roquet.client.queue_ref import QueueRef
from roquet.protocol.codes import ResponseCode
from tests.support.live_cluster import LiveCluster
from tests.support.raising import raises
from tests.support.scripted_cluster import ScriptedCluster, refuse

TOPIC = "orders"
QUEUE = QueueRef(TOPIC, "broker-a", 0)
# Long enough for a slow machine.
PATIENT_S = 20.0


async def send(producer: AsyncProducer, *bodies: bytes, group: str | None = None) -> None:
    properties = {"__SHARDINGKEY": group} if group else {}
    for body in bodies:
        await producer.send(Message(TOPIC, body, properties=properties), queue=QUEUE)


def bodies(messages: Sequence[ReceivedMessage]) -> list[bytes]:
    return [message.body for message in messages]


async def test_acknowledged_messages_do_not_come_again(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"1", b"2", b"3")
    async with AsyncPopConsumer(cluster.name_server, "billing") as consumer:
        first = await consumer.receive(TOPIC, 2, invisible_s=0.2)
        assert bodies(first) == [b"1", b"2"]
        await consumer.ack(first[0])
        again = await consumer.receive(TOPIC, wait_s=0)
        assert bodies(again) == [b"3"]
        (retried,) = await consumer.receive(TOPIC, wait_s=PATIENT_S)
        assert (retried.body, retried.topic, retried.retry_count) == (b"2", TOPIC, 1)
        await consumer.ack(retried)
        assert await consumer.receive(TOPIC, wait_s=0) == []


async def test_a_changed_time_is_the_one_that_counts(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"1")
    async with AsyncPopConsumer(cluster.name_server, "billing") as consumer:
        (message,) = await consumer.receive(TOPIC)
        await consumer.change_invisible(message, 0)
        (again,) = await consumer.receive(TOPIC, wait_s=PATIENT_S)
        await consumer.change_invisible(again, 60)
        await consumer.ack(again)
        assert await consumer.receive(TOPIC, wait_s=0) == []


async def test_ordered_messages_wait_for_earlier_ones_of_their_group(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"1", b"2", group="a")
    await send(producer, b"3", group="b")
    async with AsyncPopConsumer(cluster.name_server, "billing", ordered=True) as consumer:
        (first,) = await consumer.receive(TOPIC, 1)
        (other,) = await consumer.receive(TOPIC)
        assert (first.body, other.body) == (b"1", b"3")
        await consumer.change_invisible(first, 0)
        again = await consumer.receive(TOPIC, wait_s=PATIENT_S)
        assert bodies(again) == [b"1", b"2"]
        assert [message.retry_count for message in again] == [1, 0]


async def test_only_wanted_tags_are_received(cluster: LiveCluster, producer: AsyncProducer) -> None:
    await producer.send(Message(TOPIC, b"1", tags="new"), queue=QUEUE)
    await producer.send(Message(TOPIC, b"2", tags="paid"), queue=QUEUE)
    async with AsyncPopConsumer(cluster.name_server, "billing") as consumer:
        assert bodies(await consumer.receive(TOPIC, tags="paid", wait_s=0)) == [b"2"]


async def test_wrong_arguments_are_named(cluster: LiveCluster, producer: AsyncProducer) -> None:
    await send(producer, b"1")
    async with AsyncPopConsumer(cluster.name_server, "billing") as consumer:
        for count in (0, 33):
            with raises(BadArgument, argument="count"):
                await consumer.receive(TOPIC, count)
        with raises(BadArgument, argument="invisible_s"):
            await consumer.receive(TOPIC, invisible_s=-1)
        with raises(BadArgument, argument="message"):
            await consumer.ack(None)  # type: ignore[arg-type]
        with pytest.raises(TopicNotFound):
            await consumer.receive("nowhere")
    with raises(BadArgument, argument="timeout_s"):
        AsyncPopConsumer(cluster.name_server, "billing", timeout_s=0)


async def test_a_refusal_is_an_error(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = refuse(ResponseCode.NO_PERMISSION)
    async with AsyncPopConsumer(scripted.name_server, "billing") as consumer:
        with pytest.raises((RequestRefused, Unreachable, TopicNotFound)):
            await consumer.receive(TOPIC)

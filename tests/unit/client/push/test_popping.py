"""A push consumer that pops: where from, what becomes of messages, and what it cannot do."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from roquet import AsyncProducer, AsyncPushConsumer, Message, ReceivedMessage
from roquet.client.errors import BadArgument
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.outcome import BROKER_DECIDES, Consequence, DeadLetter, RetryLater
from roquet.client.push.popping import pop_places, retry_delay_s
from roquet.client.queue_ref import QueueRef
from roquet.protocol.bodies.body import MessageQueue
from roquet.protocol.bodies.pop import MessageRequestMode, QueueAssignment
from roquet.protocol.messages.message import Property
from roquet.testing import Cluster, received
from tests.support.raising import raises

GROUP = "billing"
TIMEOUT_S = 30.0


def assigned(broker: str, queue_id: int, mode: str) -> QueueAssignment:
    queue = MessageQueue(topic="t", broker_name=broker, queue_id=queue_id)
    return QueueAssignment(message_queue=queue, mode=mode)


POP, PULL = MessageRequestMode.POP, MessageRequestMode.PULL
QUEUES = [QueueRef("t", "a", 0), QueueRef("t", "a", 1), QueueRef("t", "b", 0)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([assigned("a", -1, POP), assigned("b", -1, POP)], [("a", -1), ("b", -1)]),
        ([assigned("a", 1, POP)], [("a", 1)]),
        ([assigned("a", 0, PULL)], [("a", -1), ("b", -1)]),
        ([], [("a", -1), ("b", -1)]),
    ],
)
def test_where_it_pops(found: list[QueueAssignment], expected: list[tuple[str, int]]) -> None:
    assert pop_places("t", found, QUEUES) == [QueueRef("t", *each) for each in expected]


@pytest.mark.parametrize(
    ("consequence", "expected_s"),
    [
        (Consequence(0, BROKER_DECIDES), 10.0),
        (Consequence(0, 1), 1.0),
        (Consequence(0, 99), 7200.0),
        (Consequence(0, 1, 0.2), 0.2),
        (Consequence(0, 1, 1e6), 12 * 3600.0),
    ],
)
def test_when_a_failed_message_comes_again(consequence: Consequence, expected_s: float) -> None:
    assert retry_delay_s(received(Message("t", b"1")), consequence) == expected_s


@pytest.mark.parametrize(
    ("argument", "options"),
    [
        ("orderly", {"orderly": True}),
        ("broadcasting", {"broadcasting": True}),
        ("message_filter", {"message_filter": bool}),
        ("start_from", {"start_from": datetime(2026, 1, 1, tzinfo=UTC)}),
        ("mode", {"mode": "push"}),
    ],
)
def test_what_it_cannot_do_is_refused(argument: str, options: dict[str, Any]) -> None:
    with raises(BadArgument, argument=argument):
        PushConsumerConfig(name_server="h:1", group="g", **{"mode": "pop", **options})


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster() as cluster:
        yield cluster


class Shop:
    """A listener that fails as told, and what it got."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.tries: list[tuple[bytes, int]] = []
        self.came = asyncio.Event()

    async def listen(self, message: ReceivedMessage) -> None:
        self.tries.append((message.body, message.retry_count))
        self.came.set()
        if self.errors:
            raise self.errors.pop(0)

    async def until(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.tries) < count:
                self.came.clear()
                await self.came.wait()


def consumer_of(cluster: Cluster, shop: Shop, topic: str, **options: Any) -> AsyncPushConsumer:
    consumer = AsyncPushConsumer(cluster.name_server, GROUP, shop.listen, mode="pop", **options)
    consumer.subscribe(topic)
    return consumer


async def send(cluster: Cluster, topic: str, *bodies: bytes) -> None:
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        for body in bodies:
            await producer.send(Message(topic, body))


async def test_every_message_comes_once_also_to_more_members_than_queues(cluster: Cluster) -> None:
    topic = await cluster.new_topic(queues=1)
    shop = Shop()
    members = [consumer_of(cluster, shop, topic) for _ in range(3)]
    bodies = [b"%d" % number for number in range(30)]
    async with members[0], members[1], members[2]:
        await send(cluster, topic, *bodies)
        await shop.until(len(bodies))
        assert members[0].queues() == [QueueRef(topic, "broker-a", -1)]
    assert sorted(body for body, _ in shop.tries) == sorted(bodies)
    # All were acknowledged: none of them comes again when its time is over.
    await cluster.consumed(GROUP)


async def test_a_failed_message_is_redelivered_when_its_listener_chose(cluster: Cluster) -> None:
    topic = await cluster.new_topic(queues=1)
    shop = Shop(RetryLater(timedelta(milliseconds=200)), RetryLater(timedelta(milliseconds=100)))
    async with consumer_of(cluster, shop, topic):
        await send(cluster, topic, b"1")
        await shop.until(3)
    assert shop.tries == [(b"1", 0), (b"1", 1), (b"1", 2)]


async def test_a_message_without_tries_left_is_a_dead_letter(cluster: Cluster) -> None:
    topic = await cluster.new_topic(queues=1)
    shop = Shop(RetryLater(timedelta(milliseconds=100)), ValueError("no"), DeadLetter("never"))
    async with consumer_of(cluster, shop, topic, retry_count_max=1):
        await send(cluster, topic, b"1")
        await shop.until(2)
        await send(cluster, topic, b"2")
        await shop.until(3)
        found = await cluster.wait_received(f"%DLQ%{GROUP}", 2)
    assert sorted(message.body for message in found) == [b"1", b"2"]
    # A later pop of them has a receipt of its own.
    assert all(Property.POP_CHECK_POINT not in message.properties for message in found)


async def test_pausing_holds_up_deliveries(cluster: Cluster) -> None:
    topic = await cluster.new_topic(queues=1)
    shop = Shop()
    consumer = consumer_of(cluster, shop, topic)
    async with consumer:
        consumer.pause()
        await send(cluster, topic, b"1")
        consumer.resume()
        await shop.until(1)
    assert shop.tries == [(b"1", 0)]


async def test_without_a_listener_messages_are_acknowledged_by_the_next_one(
    cluster: Cluster,
) -> None:
    topic = await cluster.new_topic(queues=1)
    consumer = AsyncPushConsumer(cluster.name_server, GROUP, mode="pop")
    consumer.subscribe(topic)
    found = []
    async with consumer:
        await send(cluster, topic, b"1", b"2")
        async with asyncio.timeout(TIMEOUT_S):
            async for message in consumer:
                found.append(message.body)
                with raises(BadArgument, argument="mode"):
                    await consumer.retry_later(message)
                if len(found) == 2:
                    break
    assert sorted(found) == [b"1", b"2"]

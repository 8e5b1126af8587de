"""What a topic has received, and when a group is done."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from roquet import (
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    StartFrom,
)
from roquet.client.errors import BadArgument
from roquet.client.received import DlqReason
from roquet.testing import BlockingCluster, Cluster, HasDeadLetters, NotConsumed, NotReceived
from tests.support.raising import raises


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture
async def producer(cluster: Cluster) -> AsyncIterator[AsyncProducer]:
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        yield producer


async def send(producer: AsyncProducer, topic: str, count: int = 20) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    for body in bodies:
        await producer.send(Message(topic, body, tags="even" if int(body) % 2 == 0 else "odd"))
    return bodies


def bodies(messages: list[ReceivedMessage]) -> list[bytes]:
    return [message.body for message in messages]


async def test_what_a_topic_received_is_there_in_order(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic = await cluster.new_topic(queues=1)
    assert cluster.received(topic) == cluster.received("never-heard-of") == []
    sent = await send(producer, topic)
    found = cluster.received(topic)
    assert sorted(bodies(found)) == sorted(sent)
    # Of two brokers: what they stored in one millisecond has no order.
    times = [message.stored for message in found]
    assert times == sorted(times)
    assert {(message.topic, message.tags) for message in found} == {(topic, "even"), (topic, "odd")}


async def test_a_group_is_done_when_every_message_was_listened_to(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic = await cluster.new_topic()
    seen = []

    async def listen(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        seen.append(message.body)

    consumer = AsyncPushConsumer(cluster.name_server, "billing", listen, start_from=StartFrom.FIRST)
    consumer.subscribe(topic)
    sent = await send(producer, topic)
    async with consumer:
        await cluster.consumed("billing")
        assert sorted(seen) == sorted(sent)
        # Not only what was there when it began.
        sent += await send(producer, topic)
        await cluster.consumed("billing")
        assert sorted(seen) == sorted(sent)
    await cluster.consumed("billing")


async def test_messages_that_a_filter_leaves_out_are_not_waited_for(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic = await cluster.new_topic()
    seen: list[ReceivedMessage] = []
    consumer = AsyncPushConsumer(
        cluster.name_server, "billing", seen.append, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic, tags="even")
    await send(producer, topic)
    async with consumer:
        await cluster.consumed("billing")
    assert len(seen) == 10


@pytest.mark.slow
async def test_a_retry_that_waits_is_waited_for(cluster: Cluster, producer: AsyncProducer) -> None:
    topic = await cluster.new_topic()
    tries = []

    async def listen(message: ReceivedMessage) -> None:
        tries.append(message.body)
        if len(tries) == 1:
            raise RetryLater

    consumer = AsyncPushConsumer(cluster.name_server, "billing", listen, start_from=StartFrom.FIRST)
    consumer.subscribe(topic)
    await send(producer, topic, 1)
    async with consumer:
        with pytest.raises(NotConsumed, match="1 wait for their next try or time; use skip_delays"):
            await cluster.consumed("billing", timeout_s=2)
        cluster.clock.advance(timedelta(minutes=1))
        await cluster.consumed("billing")
    assert tries == [b"0", b"0"]


async def test_delays_are_skipped_one_after_the_other(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic = await cluster.new_topic()
    tries = []

    async def listen(message: ReceivedMessage) -> None:
        tries.append((message.body, message.retry_count))
        if message.retry_count < 3:
            raise RetryLater

    consumer = AsyncPushConsumer(cluster.name_server, "billing", listen, start_from=StartFrom.FIRST)
    consumer.subscribe(topic)
    begin = cluster.clock.now()
    await producer.send(Message(topic, b"now"))
    await producer.send(Message(topic, b"by level"), delay_level=18)
    await producer.send(Message(topic, b"by timer"), delay=timedelta(days=1))
    async with consumer:
        await cluster.consumed("billing", skip_delays=True)
    bodies = (b"now", b"by level", b"by timer")
    assert tries == [(body, count) for body in bodies for count in range(4)]
    assert timedelta(days=1) <= cluster.clock.now() - begin < timedelta(days=1, hours=1)


async def test_the_delays_of_others_are_not_skipped(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic, other = await cluster.new_topic(), await cluster.new_topic()
    await producer.send(Message(other, b"tomorrow"), delay=timedelta(days=1))
    await producer.send(Message(topic, b"now"))
    consumer = AsyncPushConsumer(
        cluster.name_server, "billing", lambda _message: None, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic)
    begin = cluster.clock.now()
    async with consumer:
        await cluster.consumed("billing", skip_delays=True)
    assert cluster.clock.now() - begin < timedelta(hours=1)


async def test_dead_letters_fail_a_test_with_the_last_error_of_the_listener(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic = await cluster.new_topic()

    async def listen(_message: ReceivedMessage) -> None:
        raise ValueError("no such table")

    consumer = AsyncPushConsumer(
        cluster.name_server, "billing", listen, start_from=StartFrom.FIRST, retry_count_max=2
    )
    consumer.subscribe(topic)
    await send(producer, topic, 2)
    async with consumer:
        with raises(HasDeadLetters, group="billing") as raised:
            await cluster.consumed("billing", skip_delays=True)
        reason = DlqReason("no such table", "ValueError", 3)
        assert [(each.topic, each.dlq_reason) for each in raised.value.letters] == [
            (topic, reason)
        ] * 2
        assert sorted(bodies([*raised.value.letters])) == [b"0", b"1"]
        await cluster.consumed("billing", skip_delays=True, allow_dead_letters=True)


async def test_as_many_messages_as_expected_are_waited_for(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic = await cluster.new_topic()
    waiting = asyncio.create_task(cluster.wait_received(topic, 3))
    await send(producer, topic, 2)
    with raises(NotReceived, topic=topic, count=2):
        await cluster.wait_received(topic, 3, timeout_s=0.1)
    await send(producer, topic, 1)
    assert sorted(bodies(await waiting)) == [b"0", b"0", b"1"]


async def test_a_group_without_consumers_is_reported_by_name(
    cluster: Cluster, producer: AsyncProducer
) -> None:
    topic = await cluster.new_topic()
    with raises(NotConsumed, group="typo"):
        await cluster.consumed("typo", timeout_s=0.1)
    consumer = AsyncPullConsumer(cluster.name_server, "billing", start_from=StartFrom.FIRST)
    consumer.subscribe(topic)
    async with consumer:
        while not (await send(producer, topic) and await consumer.poll()):
            pass
        await consumer.commit()
    with pytest.raises(NotConsumed, match=f" of {topic} at broker-.*; no member of the group is"):
        await cluster.consumed("billing", timeout_s=0.1)


def test_programs_without_a_loop_wait_as_well() -> None:
    seen: list[ReceivedMessage] = []
    with BlockingCluster() as cluster, Producer(cluster.name_server, "shop") as producer:
        topic = cluster.new_topic()
        producer.send(Message(topic, b"coffee"))
        assert bodies(cluster.received(topic)) == [b"coffee"]
        consumer = PushConsumer(
            cluster.name_server, "billing", seen.append, start_from=StartFrom.FIRST
        )
        consumer.subscribe(topic)
        with consumer:
            cluster.consumed("billing", skip_delays=True)
        assert bodies(cluster.wait_received(topic, 1)) == bodies(seen) == [b"coffee"]


async def test_a_loop_is_not_made_to_wait_for_itself(roquet_cluster: BlockingCluster) -> None:
    with pytest.raises(BadArgument, match=r"asyncio\.to_thread"):
        roquet_cluster.consumed("billing")

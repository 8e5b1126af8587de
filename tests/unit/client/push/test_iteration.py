"""Programs that ask for their messages."""

import asyncio
from collections import Counter

import pytest

from roquet import AsyncProducer, Message
from roquet.client.errors import BadArgument
from roquet.client.push.consumer import AsyncPushConsumer
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import (
    TOPIC,
    Inbox,
    committed,
    consumer,
    new_topic,
    numbers,
    send,
)


async def test_a_message_is_done_when_the_next_one_is_asked_for(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await send(producer, *numbers(3))
    bodies = []
    async with consumer(cluster) as reading:
        async for message in reading:
            bodies.append(message.body)
            if len(bodies) == 3:
                break
    assert bodies == numbers(3)
    assert committed(cluster) == 2  # The third one was not done.
    async with consumer(cluster) as reading:
        async for message in reading:
            assert message.body == b"2"
            break


async def test_the_next_loop_starts_with_what_the_last_one_left(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await new_topic(cluster, 1)
    await send(producer, *numbers(3))
    async with consumer(cluster) as reading:
        async for message in reading:
            assert message.body == b"0"
            break
        bodies = []
        async for message in reading:
            bodies.append(message.body)
            if len(bodies) == 3:
                break
    assert bodies == numbers(3)


async def test_a_loop_ends_when_the_consumer_is_closed(cluster: LiveCluster) -> None:
    reading = consumer(cluster)
    await reading.open()

    async def read_all() -> list[bytes]:
        return [message.body async for message in reading]

    task = asyncio.create_task(read_all())
    await asyncio.sleep(0)
    await reading.close()
    assert await task == []


async def test_several_loops_share_the_messages(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, *numbers(20))
    bodies: list[bytes] = []

    async def read(reading: AsyncPushConsumer) -> None:
        async for message in reading:
            bodies.append(message.body)
            await asyncio.sleep(0)

    async with consumer(cluster) as reading:
        tasks = [asyncio.create_task(read(reading)) for _ in range(3)]
        await eventually(lambda: len(bodies) >= 20)
    await asyncio.gather(*tasks)
    assert Counter(bodies) == Counter(numbers(20))


async def test_batches_can_be_asked_for(cluster: LiveCluster, producer: AsyncProducer) -> None:
    await new_topic(cluster, 1)
    await producer.send_batch([Message(TOPIC, body) for body in numbers(5)])
    async with consumer(cluster, batch_size=2) as reading:
        batches = []
        async for batch in reading.batches():
            batches.append([message.body for message in batch])
            if len(batches) == 3:
                break
        with pytest.raises(BadArgument, match="batches"):
            aiter(reading)
    assert batches == [[b"0", b"1"], [b"2", b"3"], [b"4"]]


@pytest.mark.slow
async def test_a_loop_can_ask_for_a_message_again(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"x")
    counts = []
    async with consumer(cluster) as reading:
        async for message in reading:
            counts.append(message.retry_count)
            if len(counts) == 2:
                break
            await reading.retry_later(message, delay_level=1)
    assert counts == [0, 1]


async def test_a_client_that_has_a_listener_cannot_be_asked(cluster: LiveCluster) -> None:
    async with consumer(cluster, Inbox()) as reading:
        with pytest.raises(BadArgument, match="listener"):
            aiter(reading)


async def test_closing_does_not_wait_for_what_the_closer_itself_took(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"1", b"2")
    reading = consumer(cluster, close_timeout_s=600)
    async with asyncio.timeout(30):
        async with reading:
            messages = aiter(reading)
            await anext(messages)
            await anext(messages)
    assert committed(cluster) == 1


async def test_closing_waits_for_what_another_task_works_on(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    await send(producer, b"1")
    has_started, may_end = asyncio.Event(), asyncio.Event()
    reading = consumer(cluster, close_timeout_s=600)

    async def work() -> None:
        async for _ in reading:
            has_started.set()
            await may_end.wait()

    async with asyncio.timeout(30), asyncio.TaskGroup() as group:
        await reading.open()
        group.create_task(work())
        await has_started.wait()
        closing = group.create_task(reading.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        may_end.set()
    assert committed(cluster) == 1

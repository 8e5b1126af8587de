"""The push consumer against a live cluster of ours."""

import threading
from collections.abc import Sequence
from typing import Any

from roquet import AsyncProducer, Message
from roquet.client.push_consumer import AsyncPushConsumer, Listener
from roquet.client.received import ReceivedMessage
from roquet.client.starting import StartFrom
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster

TOPIC = "orders"
GROUP = "billing"


async def send(cluster: LiveCluster, bodies: Sequence[bytes], **options: Any) -> None:
    async with AsyncProducer(cluster.name_server, "shop") as producer:
        for body in bodies:
            await producer.send(Message(TOPIC, body, **options), timeout_s=10)


def consumer(
    cluster: LiveCluster, listener: Listener | None = None, **options: Any
) -> AsyncPushConsumer:
    options = {"start_from": StartFrom.FIRST} | options
    made = AsyncPushConsumer(cluster.name_server, GROUP, listener, **options)
    made.subscribe(TOPIC)
    return made


async def test_a_coroutine_gets_all_messages(cluster: LiveCluster) -> None:
    bodies = [b"%d" % number for number in range(100)]
    await send(cluster, bodies)
    got: list[bytes] = []

    async def listen(message: ReceivedMessage) -> None:
        got.append(message.body)

    async with consumer(cluster, listen):
        await eventually(lambda: len(got) >= 100)
    assert sorted(got) == sorted(bodies)


async def test_a_function_runs_in_threads(cluster: LiveCluster) -> None:
    await send(cluster, [b"%d" % number for number in range(100)])
    got: list[bytes] = []
    threads: set[int] = set()

    def listen(message: ReceivedMessage) -> None:
        threads.add(threading.get_ident())
        got.append(message.body)

    async with consumer(cluster, listen):
        await eventually(lambda: len(got) >= 100)
    assert len(set(got)) == 100
    assert threading.get_ident() not in threads


async def test_messages_can_be_asked_for(cluster: LiveCluster) -> None:
    await send(cluster, [b"%d" % number for number in range(10)])
    got: list[bytes] = []
    async with consumer(cluster) as reading:
        async for message in reading:
            got.append(message.body)
            if len(got) == 10:
                break
    assert len(set(got)) == 10

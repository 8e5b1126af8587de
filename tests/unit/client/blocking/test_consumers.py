"""Consumers for programs without an event loop, which here run in a thread of the test."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from itertools import islice

import pytest

from roquet import Message, Producer, PushConsumer, ReceivedMessage, StartFrom
from roquet.client.errors import BadArgument, NotOpen
from tests.support.eventually import wait_until
from tests.support.live_cluster import LiveCluster

TOPIC = "orders"
GROUP = "billing"
BODIES = [b"%d" % number for number in range(20)]


async def run(program: Callable[[str], None], cluster: LiveCluster) -> None:
    """The cluster needs the loop, so the program gets a thread."""

    def send_and_run() -> None:
        with Producer(cluster.name_server, "shop") as producer:
            for body in BODIES:
                producer.send(Message(TOPIC, body))
        program(cluster.name_server)

    await asyncio.to_thread(send_and_run)


async def test_a_function_gets_messages_in_other_threads(cluster: LiveCluster) -> None:
    bodies: list[bytes] = []
    threads: set[int] = set()

    def listen(message: ReceivedMessage) -> None:
        threads.add(threading.get_ident())
        bodies.append(message.body)

    def program(name_server: str) -> None:
        consumer = PushConsumer(name_server, GROUP, listen, start_from=StartFrom.FIRST)
        consumer.subscribe(TOPIC)
        with consumer:
            wait_until(lambda: len(bodies) == len(BODIES))
            assert len(consumer.queues()) == 4
            assert consumer.statistics().topics[TOPIC].pulled_count == len(BODIES)
            assert threading.get_ident() not in threads

    await run(program, cluster)
    assert Counter(bodies) == Counter(BODIES)
    offsets = cluster.brokers["broker-a"].tables.offsets.queues(GROUP, TOPIC)
    assert sum(offsets.values()) == len(BODIES)


async def test_messages_can_be_asked_for(cluster: LiveCluster) -> None:
    bodies: list[bytes] = []

    def program(name_server: str) -> None:
        consumer = PushConsumer(name_server, GROUP, start_from=StartFrom.FIRST)
        consumer.subscribe(TOPIC)
        with consumer:
            bodies.extend(message.body for message in islice(consumer, 5))
            # What the first loop left comes again.
            rest = [message.body for message in islice(consumer, 16)]
            assert rest[0] == bodies[-1]
            bodies.extend(rest[1:])

    await run(program, cluster)
    assert Counter(bodies) == Counter(BODIES)


async def test_batches_can_be_asked_for(cluster: LiveCluster) -> None:
    def program(name_server: str) -> None:
        consumer = PushConsumer(name_server, GROUP, start_from=StartFrom.FIRST, batch_size=3)
        consumer.subscribe(TOPIC)
        with consumer:
            for batch in consumer.batches():
                assert 1 <= len(batch) <= 3
                break
            with pytest.raises(BadArgument):
                next(iter(consumer))

    await run(program, cluster)


async def test_a_loop_ends_when_another_thread_closes(cluster: LiveCluster) -> None:
    def program(name_server: str) -> None:
        consumer = PushConsumer(name_server, GROUP, start_from=StartFrom.FIRST)
        consumer.subscribe(TOPIC)
        consumer.open()
        closer = threading.Timer(0.2, consumer.close)
        closer.start()
        assert len(list(consumer)) == len(BODIES)
        closer.join()

    await run(program, cluster)


async def test_it_can_want_rest_and_continue(cluster: LiveCluster) -> None:
    bodies: list[bytes] = []

    async def listen(message: ReceivedMessage) -> None:
        bodies.append(message.body)

    def program(name_server: str) -> None:
        with PushConsumer(name_server, GROUP, listen, start_from=StartFrom.FIRST) as consumer:
            consumer.pause()
            consumer.subscribe(TOPIC)
            wait_until(consumer.queues)
            consumer.resume()
            wait_until(lambda: len(bodies) == len(BODIES))
            consumer.unsubscribe(TOPIC)
            wait_until(lambda: not consumer.queues())

    await run(program, cluster)


async def test_a_message_can_be_sent_back(cluster: LiveCluster) -> None:
    def program(name_server: str) -> None:
        consumer = PushConsumer(name_server, GROUP, start_from=StartFrom.FIRST)
        consumer.subscribe(TOPIC)
        with consumer:
            first = next(iter(consumer))
            consumer.retry_later(first, delay_level=1)

    await run(program, cluster)
    assert cluster.all_stored("SCHEDULE_TOPIC_XXXX")


def test_a_client_that_is_not_open_raises_an_error() -> None:
    consumer = PushConsumer("127.0.0.1:1", GROUP)
    consumer.close()
    for use in (consumer.pause, consumer.queues, lambda: next(iter(consumer))):
        with pytest.raises(NotOpen):
            use()
    assert consumer.statistics().topics == {}

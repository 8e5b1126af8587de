"""The Kombu transport at Apache's brokers: routing, fanout, acknowledgement, delays, purging."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue

import roquet.kombu  # noqa: F401  Registers the scheme.
from tests.support.apache import ApacheCluster
from tests.support.eventually import wait_until

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]


@pytest.fixture
def connection(apache: ApacheCluster) -> Iterator[Connection]:
    options = {"queue_count": 2}
    with Connection(
        f"rocketmq://{apache.name_server.address}//", transport_options=options
    ) as connection:
        yield connection


def bodies(connection: Connection, queue: Queue, count: int) -> list[Any]:
    found: list[Any] = []

    def take(body: Any, message: Any) -> None:
        found.append(body)
        message.ack()

    with Consumer(connection.channel(), [queue], callbacks=[take], prefetch_count=2):
        while len(found) < count:
            connection.drain_events(timeout=30)
    return sorted(found)


def test_queues_and_exchanges_work_at_apache(connection: Connection, new_name: NewName) -> None:
    media = Exchange(new_name("media"), type="topic")
    queue = Queue(new_name("images"), media, routing_key="images.#")
    queue(connection.default_channel).declare()
    producer = Producer(connection)
    producer.publish("direct", exchange="", routing_key=queue.name)
    producer.publish("bound", exchange=media, routing_key="images.small")
    producer.publish("other", exchange=media, routing_key="sounds.small")
    assert bodies(connection, queue, 2) == ["bound", "direct"]


def test_a_fanout_reaches_transient_queues_at_apache(
    connection: Connection, new_name: NewName
) -> None:
    news = Exchange(new_name("news"), type="fanout")
    queue = Queue(new_name("reader"), news, auto_delete=True)
    queue(connection.default_channel).declare()
    Producer(connection).publish("hello", exchange=news)
    assert bodies(connection, queue, 1) == ["hello"]


def test_a_task_is_not_delivered_before_its_eta_at_apache(
    connection: Connection, new_name: NewName
) -> None:
    queue = Queue(new_name("late"))
    queue(connection.default_channel).declare()
    due = datetime.now(UTC) + timedelta(seconds=2.5)
    Producer(connection).publish("late", routing_key=queue.name, headers={"eta": due.isoformat()})
    assert bodies(connection, queue, 1) == ["late"]
    # What is due within a second is kept by the worker.
    assert datetime.now(UTC) >= due - timedelta(seconds=1)


def test_a_queue_is_purged_at_apache(connection: Connection, new_name: NewName) -> None:
    queue = Queue(new_name("full"))(connection.default_channel)
    queue.declare()
    for number in range(3):
        Producer(connection).publish(number, routing_key=queue.name)
    # Apache's broker counts a message a moment after it has acknowledged it.
    wait_until(lambda: queue.queue_declare(passive=True).message_count == 3)
    assert queue.purge() == 3
    assert queue.queue_declare(passive=True).message_count == 0

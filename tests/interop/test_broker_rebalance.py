"""Consumers of a group share the queues of our broker, and take over from those that die.

The clients here look after their queues every 20 seconds, as they do by default. What happens
sooner happens because the broker tells them.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import pytest

from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPushConsumer,
    Outgoing,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

UNHURRIED = {"rocketmq.client.rebalance.waitInterval": "20000"}
QUEUE_COUNT = 8
TAKE_OVER_S_MAX = 10.0


@pytest.fixture
def new_jvm(java: JavaDriver, tmp_path: Path) -> Iterator[Callable[[], JavaDriver]]:
    """Starts JVMs of the version at hand, to be killed."""
    with ExitStack() as running:

        def start() -> JavaDriver:
            directory = tmp_path / java.new_handle("jvm")
            directory.mkdir()
            return running.enter_context(JavaDriver(java.version, directory, UNHURRIED))

        yield start


def queue_ids(consumer: JavaPushConsumer, topic: str) -> list[int]:
    return sorted(queue.queue_id for queue in consumer.assignment(topic))


def is_shared(consumers: Sequence[JavaPushConsumer], topic: str) -> bool:
    """Whether each queue is with one consumer, and none has two more than another."""
    shares = [queue_ids(consumer, topic) for consumer in consumers]
    sizes = [len(share) for share in shares]
    all_ids = sorted(chain.from_iterable(shares))
    return all_ids == list(range(QUEUE_COUNT)) and max(sizes) - min(sizes) <= 1


def send_to_each_queue(producer: JavaProducer, topic: str) -> list[bytes]:
    queues = producer.queues(topic)
    for queue in queues:
        producer.send(Outgoing(topic, b"%d" % queue.queue_id), queue)
    return sorted(b"%d" % queue.queue_id for queue in queues)


def test_queues_move_when_consumers_join_die_and_leave(
    new_jvm: Callable[[], JavaDriver],
    names: str,
    new_name: NewName,
    our_topic: NewTopic,
    producer: JavaProducer,
) -> None:
    topic = our_topic(QUEUE_COUNT)
    group = new_name("group")
    survivors, victims = new_jvm(), new_jvm()

    def consumer(jvm: JavaDriver) -> JavaPushConsumer:
        return JavaPushConsumer(jvm, names, group, Subscription(topic))

    with consumer(survivors) as first:
        wait_until(lambda: is_shared([first], topic))
        # Never shut down: its JVM is killed.
        victim = consumer(victims).__enter__()
        wait_until(lambda: is_shared([first, victim], topic))
        with consumer(survivors) as third:
            wait_until(lambda: is_shared([first, victim, third], topic))
            victims.close()
            died_s = time.monotonic()
            wait_until(lambda: is_shared([first, third], topic))
            assert time.monotonic() - died_s < TAKE_OVER_S_MAX
            sent = send_to_each_queue(producer, topic)
            assert sorted(bodies(first.received(4) + third.received(4))) == sent
        wait_until(lambda: is_shared([first], topic))
        sent = send_to_each_queue(producer, topic)
        assert sorted(bodies(first.received(QUEUE_COUNT))) == sent


def test_clients_of_both_releases_share_a_group(
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    names: str,
    new_name: NewName,
    our_topic: NewTopic,
) -> None:
    topic = our_topic(QUEUE_COUNT)
    group = new_name("group")
    old, new = (java_drivers(version) for version in ApacheVersion)
    with (
        JavaPushConsumer(old, names, group, Subscription(topic)) as one,
        JavaPushConsumer(new, names, group, Subscription(topic)) as other,
        JavaProducer(new, names, new_name("producers")) as producer,
    ):
        wait_until(lambda: is_shared([one, other], topic))
        sent = send_to_each_queue(producer, topic)
        assert sorted(bodies(one.received(4) + other.received(4))) == sent

"""Real Java push consumers of 5.5.0 pop from our broker, which shares out their queues."""

import time
from collections.abc import Callable

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
from tests.support.our_cluster import Ours

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]
PopConsumer = Callable[..., JavaPushConsumer]

# Java's client of 5.x lets the broker share out its queues, and learns to pop from it.
POPPING = {"clientRebalance": False}


@pytest.fixture
def java(java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    """Clients before 5.0 cannot pop."""
    return java_drivers(ApacheVersion.V5_5_0)


@pytest.fixture
def group(java: JavaDriver, ours: Ours, new_name: NewName) -> str:
    name = new_name("poppers")
    made = java.mqadmin("updateSubGroup", "-b", ours.broker, "-g", name)
    assert "success" in made.output, made
    return name


@pytest.fixture
def popping(java: JavaDriver, ours: Ours, names: str, group: str) -> PopConsumer:
    """A consumer of the group that pops; the mode is set as an operator sets it."""

    def make(topic: str, *, tags: str = "*", failures: int = 0) -> JavaPushConsumer:
        words = ("setConsumeMode", "-b", ours.broker, "-t", topic, "-g", group)
        done = java.mqadmin(*words, "-m", "POP", "-q", "8")
        assert "success" in done.output, done
        options = {**POPPING, "popInvisibleTime": 5_000, "instanceName": f"i{time.monotonic_ns()}"}
        return JavaPushConsumer(
            java,
            names,
            group,
            Subscription(topic, tags),
            failures=failures,
            retry_level=0,  # Popping clients have levels of their own: the first is ten seconds.
            options=options,
        )

    return make


def test_every_message_is_popped_once(
    producer: JavaProducer, our_topic: NewTopic, popping: PopConsumer
) -> None:
    topic = our_topic(4)
    sent = [b"%d" % number for number in range(200)]
    with popping(topic) as consumer:
        for start in range(0, 200, 20):
            producer.send_batch(*(Outgoing(topic, body) for body in sent[start : start + 20]))
        assert sorted(bodies(consumer.received(len(sent)))) == sorted(sent)
        # They were acknowledged: none of them comes again when its time is over.
        assert consumer.received(1, wait_s=6.0) == []


def test_more_consumers_than_queues_all_get_messages(
    producer: JavaProducer, our_topic: NewTopic, popping: PopConsumer
) -> None:
    topic = our_topic(1)
    with popping(topic) as first, popping(topic) as second:
        got: dict[str, set[bytes]] = {"first": set(), "second": set()}

        def both_got_some() -> bool:
            producer.send_batch(*(Outgoing(topic, b"%d" % n) for n in range(40)))
            got["first"] |= set(bodies(first.received(40, wait_s=0.5)))
            got["second"] |= set(bodies(second.received(40, wait_s=0.5)))
            return all(got.values())

        wait_until(both_got_some)


def test_a_failed_message_comes_again_and_is_counted(
    producer: JavaProducer, our_topic: NewTopic, popping: PopConsumer
) -> None:
    topic = our_topic(1)
    with popping(topic, failures=1) as consumer:
        producer.send(Outgoing(topic, b"again", properties={"KEYS": "k"}))
        first, second = consumer.received(2, wait_s=30.0)
        assert (first.reconsume_times, second.reconsume_times) == (0, 1)
        assert (second.topic, second.body) == (topic, b"again")
        assert second.properties["KEYS"] == "k"


def test_only_wanted_tags_are_popped(
    producer: JavaProducer, our_topic: NewTopic, popping: PopConsumer
) -> None:
    topic = our_topic(2)
    with popping(topic, tags="b") as consumer:
        for tag in ("a", "b", "a", "b"):
            producer.send(Outgoing(topic, tag.encode(), properties={"TAGS": tag}))
        assert bodies(consumer.received(2)) == [b"b", b"b"]
        assert consumer.received(1, wait_s=1.0) == []

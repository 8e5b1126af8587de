"""Real Java push consumers take from our broker: concurrent, orderly, broadcast, filtered."""

import time
from collections.abc import Callable
from itertools import groupby
from typing import Any

import pytest

from tests.support.eventually import wait_until
from tests.support.java_client import (
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Received,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

# A delivery that waits for a timer takes seconds: a client's rebalance, or the broker's own look
# at what is parked.
AT_ONCE_S = 1.0


@pytest.fixture
def consume(java: JavaDriver, names: str, new_name: NewName) -> Callable[..., JavaPushConsumer]:
    """A consumer of a group of its own unless one is named."""

    def make(topic: str, tags: str = "*", group: str = "", **settings: Any) -> JavaPushConsumer:
        subscription = Subscription(topic, tags)
        return JavaPushConsumer(java, names, group or new_name("group"), subscription, **settings)

    return make


def test_every_message_is_consumed_once(
    producer: JavaProducer, our_topic: NewTopic, consume: Callable[..., JavaPushConsumer]
) -> None:
    topic = our_topic(4)
    sent = [b"%d" % number for number in range(200)]
    with consume(topic) as consumer:
        for start in range(0, 200, 20):
            producer.send_batch(*(Outgoing(topic, body) for body in sent[start : start + 20]))
        assert sorted(bodies(consumer.received(len(sent)))) == sorted(sent)
        assert consumer.received(1, wait_s=0.2) == []


def test_a_message_reaches_a_waiting_consumer_at_once(
    producer: JavaProducer, our_topic: NewTopic, consume: Callable[..., JavaPushConsumer]
) -> None:
    topic = our_topic()
    with consume(topic) as consumer:
        producer.send(Outgoing(topic, b"warm up"))
        consumer.received(1)
        times_s = []
        for number in range(5):
            started_s = time.monotonic()
            producer.send(Outgoing(topic, b"%d" % number))
            assert bodies(consumer.received(1)) == [b"%d" % number]
            times_s.append(time.monotonic() - started_s)
    # A machine that has other work is slow now and then, a timer always.
    assert min(times_s) < AT_ONCE_S


def test_an_orderly_consumer_gets_the_messages_of_each_key_in_order(
    producer: JavaProducer, our_topic: NewTopic, consume: Callable[..., JavaPushConsumer]
) -> None:
    topic = our_topic(4)
    steps = [(key, step) for step in range(20) for key in "abcdef"]
    for key, step in steps:
        producer.send(Outgoing(topic, f"{key}{step}".encode()), sharding_key=key)
    with consume(topic, orderly=True) as consumer:
        received = bodies(consumer.received(len(steps)))
    for key, of_key in groupby(sorted(received, key=lambda body: body[:1]), lambda b: b[:1]):
        assert list(of_key) == [key + b"%d" % step for step in range(20)]


def test_an_orderly_consumer_waits_for_the_failed_message(
    producer: JavaProducer, our_topic: NewTopic, consume: Callable[..., JavaPushConsumer]
) -> None:
    topic = our_topic()
    producer.send_batch(*(Outgoing(topic, body) for body in (b"1", b"2")))
    options = {"suspendCurrentQueueTimeMillis": 10}
    with consume(topic, orderly=True, failures=1, options=options) as consumer:
        assert bodies(consumer.received(4)) == [b"1", b"1", b"2", b"2"]


def test_of_two_orderly_consumers_one_has_the_queue_and_keeps_its_order(
    producer: JavaProducer,
    our_topic: NewTopic,
    new_name: NewName,
    consume: Callable[..., JavaPushConsumer],
) -> None:
    topic = our_topic()
    group = new_name("group")
    with (
        consume(topic, group=group, orderly=True) as one,
        consume(topic, group=group, orderly=True) as other,
    ):
        # Clients share queues in the order of their names.
        owner, idle = sorted((one, other), key=lambda consumer: consumer.handle)
        wait_until(lambda: owner.assignment(topic) and not idle.assignment(topic))
        producer.send_batch(*(Outgoing(topic, b"%d" % number) for number in range(50)))
        assert bodies(owner.received(50)) == [b"%d" % number for number in range(50)]
        assert idle.received(1, wait_s=0.2) == []


def test_every_broadcast_consumer_gets_every_message(
    producer: JavaProducer,
    our_topic: NewTopic,
    new_name: NewName,
    consume: Callable[..., JavaPushConsumer],
) -> None:
    topic = our_topic(4)
    group = new_name("group")
    sent = [b"%d" % number for number in range(20)]
    options = {"messageModel": "BROADCASTING"}
    with (
        consume(topic, group=group, options=options) as one,
        consume(topic, group=group, options=options) as other,
    ):
        for body in sent:
            producer.send(Outgoing(topic, body))
        for consumer in (one, other):
            assert sorted(bodies(consumer.received(len(sent)))) == sorted(sent)


def test_groups_do_not_take_from_each_other(
    producer: JavaProducer, our_topic: NewTopic, consume: Callable[..., JavaPushConsumer]
) -> None:
    topic = our_topic()
    producer.send(Outgoing(topic, b"for all"))
    with consume(topic) as one, consume(topic) as other:
        assert bodies(one.received(1)) == bodies(other.received(1)) == [b"for all"]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("*", [b"Aa", b"BB", b"none", b"red"]),
        ("red", [b"red"]),
        ("red || Aa", [b"Aa", b"red"]),
        # Java's hash of "Aa" is that of "BB". The broker compares hashes, the client texts.
        ("Aa", [b"Aa"]),
    ],
)
def test_tags_choose_messages(
    producer: JavaProducer,
    our_topic: NewTopic,
    consume: Callable[..., JavaPushConsumer],
    tags: str,
    expected: list[bytes],
) -> None:
    topic = our_topic()
    producer.send(Outgoing(topic, b"none"))
    for tag in ("BB", "red", "Aa"):
        producer.send(Outgoing(topic, tag.encode(), properties={"TAGS": tag}))
    with consume(topic, tags) as consumer:
        assert sorted(bodies(consumer.received(len(expected)))) == expected
        assert consumer.received(1, wait_s=0.2) == []


def test_filtered_messages_do_not_block_others(
    producer: JavaProducer, our_topic: NewTopic, consume: Callable[..., JavaPushConsumer]
) -> None:
    topic = our_topic()

    def send_batch(tag: str, *sent: bytes) -> None:
        producer.send_batch(*(Outgoing(topic, body, properties={"TAGS": tag}) for body in sent))

    with consume(topic, "wanted") as consumer:
        send_batch("wanted", b"first")
        assert bodies(consumer.received(1)) == [b"first"]
        # More than a broker looks at in one pull.
        for _ in range(5):
            send_batch("other", *[b"x"] * 200)
        send_batch("wanted", b"last")
        assert bodies(consumer.received(1)) == [b"last"]


def test_a_new_tag_in_the_subscription_counts_from_the_next_start(
    producer: JavaProducer,
    our_topic: NewTopic,
    new_name: NewName,
    consume: Callable[..., JavaPushConsumer],
) -> None:
    topic = our_topic()
    group = new_name("group")
    for tag, expected in (("red", b"red"), ("blue", b"blue")):
        with consume(topic, tag, group=group) as consumer:
            for other in ("red", "blue"):
                producer.send(Outgoing(topic, other.encode(), properties={"TAGS": other}))
            assert bodies(consumer.received(1)) == [expected]


def test_messages_look_to_the_consumer_as_they_look_to_the_puller(
    producer: JavaProducer,
    puller: JavaPullConsumer,
    our_topic: NewTopic,
    consume: Callable[..., JavaPushConsumer],
) -> None:
    topic = our_topic()
    sent = producer.send(Outgoing(topic, b"same", flag=3, properties={"KEYS": "k", "a": "b"}))
    (pulled,) = puller.pull(sent.queue, 0).messages
    with consume(topic) as consumer:
        (consumed,) = consumer.received(1)

    def stored(message: Received) -> dict[str, Any]:
        # The client adds properties of its own to those that came.
        facts = {name: getattr(message, name) for name in message.__struct_fields__}
        return facts | {"properties": message.properties.get("a")}

    assert stored(consumed) == stored(pulled)

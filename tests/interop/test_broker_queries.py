"""Real Java clients look for messages in our broker: by key, by unique key, by id."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.support.eventually import wait_until
from tests.support.java_client import JavaProducer, Outgoing, bodies

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewTopic = Callable[..., str]


def test_a_message_is_found_by_each_of_its_keys(
    producer: JavaProducer, our_topic: NewTopic
) -> None:
    topic = our_topic(4)
    for number in range(3):
        keys = {"KEYS": f"shared own-{number}"}
        producer.send(Outgoing(topic, b"%d" % number, properties=keys))
    assert bodies(producer.query_by_key(topic, "own-1")) == [b"1"]
    find = partial(producer.query_by_key, topic, "shared")
    wait_until(lambda: len(find()) == 3)
    assert sorted(bodies(find())) == [b"0", b"1", b"2"]
    assert len(find(2)) == 2


def test_a_key_is_found_in_its_topic_only(producer: JavaProducer, our_topic: NewTopic) -> None:
    one, other = our_topic(), our_topic()
    for topic in (one, other):
        producer.send(Outgoing(topic, topic.encode(), properties={"KEYS": "same"}))
    assert bodies(producer.query_by_key(one, "same")) == [one.encode()]
    assert bodies(producer.query_by_key(other, "same")) == [other.encode()]


def test_a_key_of_the_same_hash_is_not_found(producer: JavaProducer, our_topic: NewTopic) -> None:
    topic = our_topic()
    producer.send(Outgoing(topic, b"Aa", properties={"KEYS": "Aa"}))
    producer.send(Outgoing(topic, b"BB", properties={"KEYS": "BB"}))
    assert bodies(producer.query_by_key(topic, "BB")) == [b"BB"]
    assert bodies(producer.query_by_key(topic, "Aa")) == [b"Aa"]


def test_every_message_is_found_by_its_unique_key_and_by_its_offset_id(
    producer: JavaProducer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    sends = [producer.send(Outgoing(topic, b"%d" % number)) for number in range(5)]
    for number, sent in enumerate(sends):
        assert sent.offset_id is not None
        assert producer.view(topic, sent.offset_id).body == b"%d" % number
        assert producer.view(topic, sent.message_id).body == b"%d" % number


def test_each_message_of_a_batch_is_found(producer: JavaProducer, our_topic: NewTopic) -> None:
    topic = our_topic()
    sent = producer.send_batch(
        *(Outgoing(topic, b"%d" % n, properties={"KEYS": f"k{n}"}) for n in range(3))
    )
    assert bodies(producer.query_by_key(topic, "k2")) == [b"2"]
    assert sent.offset_id is not None
    for number, offset_id in enumerate(sent.offset_id.split(",")):
        assert producer.view(topic, offset_id).body == b"%d" % number
    for number, unique_key in enumerate(sent.message_id.split(",")):
        assert producer.view(topic, unique_key).body == b"%d" % number

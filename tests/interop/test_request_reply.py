"""Requests and replies of real Java clients through our broker, and what trace records become."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Unpack

import pytest

from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    ClientSettings,
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Queue,
    Subscription,
)
from tests.support.java_driver import JavaDriver, JavaFailure
from tests.support.our_cluster import OurCluster

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"


@pytest.fixture
def replier(
    java: JavaDriver,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    names: str,
    new_name: NewName,
) -> Iterator[JavaProducer]:
    """A producer of the other version than the one that asks."""
    other = next(version for version in ApacheVersion if version != java.version)
    with JavaProducer(java_drivers(other), names, new_name("repliers")) as started:
        yield started


@pytest.fixture
def topic(
    replier: JavaProducer, names: str, our_topic: NewTopic, new_name: NewName
) -> Iterator[str]:
    """Whoever asks there is replied to."""
    topic = our_topic(4)
    with JavaPushConsumer(
        replier._driver, names, new_name("group"), Subscription(topic), replier=replier
    ):
        yield topic


def test_a_request_is_replied_to_by_a_client_of_the_other_version(
    producer: JavaProducer, topic: str
) -> None:
    assert producer.request(Outgoing(topic, b"stressed")).body == b"desserts"


def test_many_requests_get_their_own_replies(producer: JavaProducer, topic: str) -> None:
    requests = [b"request %d" % number for number in range(30)]
    with ThreadPoolExecutor(10) as pool:
        replies = list(pool.map(lambda body: producer.request(Outgoing(topic, body)), requests))
    assert [reply.body for reply in replies] == [body[::-1] for body in requests]


def test_a_large_reply_arrives_whole(producer: JavaProducer, topic: str) -> None:
    body = b"0123456789" * 10_000  # Both ways it is compressed.
    assert producer.request(Outgoing(topic, body)).body == body[::-1]


def test_replies_are_kept_in_their_topic(
    ours: OurCluster, producer: JavaProducer, puller: JavaPullConsumer, topic: str
) -> None:
    queue = Queue(REPLY_TOPIC, ours.broker_name, 0)
    end = puller.max_offset(queue)
    reply = producer.request(Outgoing(topic, b"kept"))
    (message,) = puller.pull_or_wait(queue, end).messages
    assert message.body == b"tpek"
    assert message.properties["CORRELATION_ID"] == reply.properties["CORRELATION_ID"]
    assert message.properties["MSG_TYPE"] == "reply"


def test_a_request_without_a_reply_ends_in_time(
    producer: JavaProducer, our_topic: NewTopic
) -> None:
    with pytest.raises(JavaFailure) as failure:
        producer.request(Outgoing(our_topic(), b"hello?"), wait_s=1)
    assert failure.value.kind == "RequestTimeoutException"


class TracedProducer(JavaProducer):
    def __init__(
        self, driver: JavaDriver, name_server: str, group: str, **settings: Unpack[ClientSettings]
    ) -> None:
        super().__init__(driver, name_server, group, **settings)
        self._start_arguments["traced"] = True


def is_known(producer: JavaProducer, topic: str) -> bool:
    try:
        return bool(producer.queues(topic))
    except JavaFailure:
        return False


def test_trace_records_are_messages_like_any_other(
    java: JavaDriver,
    names: str,
    ours: OurCluster,
    puller: JavaPullConsumer,
    our_topic: NewTopic,
    new_name: NewName,
) -> None:
    topic = our_topic()
    with TracedProducer(java, names, new_name("traced")) as producer:
        sent = producer.send(Outgoing(topic, b"followed", properties={"KEYS": "parcel"}))
        wait_until(lambda: is_known(producer, TRACE_TOPIC))  # The first record makes it.
        # The id of what is traced is a key of its record.
        (record,) = producer.query_by_key(TRACE_TOPIC, sent.message_id)
    assert record.body.startswith(b"Pub\x01")
    assert sent.message_id.encode() in record.body
    assert topic.encode() in record.body

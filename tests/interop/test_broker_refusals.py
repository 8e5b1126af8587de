"""What our broker refuses, and the code that real Java clients get.

Names and sizes that the Java clients check themselves never leave them; for those see the unit
tests of the handlers.
"""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from tests.support.blocking_peer import BlockingPeer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Queue,
    Subscription,
)
from tests.support.java_driver import JavaDriver, JavaFailure
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

BODY_SIZE_MAX = 4 * 1024 * 1024
PROPERTIES_SIZE_MAX = 32767

# What 4.9.7 calls an error of the system, 5.5.0 calls by its name.
INVALID = {
    ApacheVersion.V4_9_7: ResponseCode.SYSTEM_ERROR,
    ApacheVersion.V5_5_0: ResponseCode.INVALID_PARAMETER,
}
# Codes of the Java client, which never travel.
NO_MESSAGE = 208
NO_ROUTE = 10005


class StrictCluster(NamedTuple):
    """Servers that make neither topics nor groups by themselves, and know SQL92."""

    names: str
    broker: OurBroker

    def new_topic(self, topic: str) -> Queue:
        create_topic(self.broker.address, topic)
        return Queue(topic, self.broker.broker_name, 0)

    def configure(self, setting: str) -> None:
        with BlockingPeer(self.broker.address) as broker:
            reply = broker.call(RequestCode.UPDATE_BROKER_CONFIG, body=setting.encode())
        assert reply.code == ResponseCode.SUCCESS, reply.remark


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StrictCluster]:
    directory = tmp_path_factory.mktemp("strict")
    settings = {
        "autoCreateTopicEnable": "false",
        "autoCreateSubscriptionGroup": "false",
        "enablePropertyFilter": "true",
    }
    with (
        OurNameServer(directory / "namesrv") as names,
        OurBroker(directory / "broker", names.address, configuration=settings) as broker,
    ):
        yield StrictCluster(names.address, broker)


def code_of(work: Callable[[], object]) -> int | None:
    """The code that the Java client got; None when nothing was refused."""
    try:
        work()
    except JavaFailure as failure:
        return failure.code
    return None


@pytest.mark.parametrize("way", ["send", "send_async"])
def test_a_body_that_is_too_large(
    java: JavaDriver, names: str, new_name: NewName, our_topic: NewTopic, way: str
) -> None:
    options = {"maxMessageSize": 2 * BODY_SIZE_MAX, "compressMsgBodyOverHowmuch": 2 * BODY_SIZE_MAX}
    body = random.Random(1).randbytes(BODY_SIZE_MAX + 1)
    with JavaProducer(java, names, new_name("producers"), options=options) as producer:
        send = getattr(producer, way)
        message = Outgoing(our_topic(), body)
        assert code_of(lambda: send(message)) == ResponseCode.MESSAGE_ILLEGAL


def test_properties_that_are_too_large(producer: JavaProducer, our_topic: NewTopic) -> None:
    message = Outgoing(our_topic(), b"x", properties={"p": "x" * PROPERTIES_SIZE_MAX})
    assert code_of(lambda: producer.send(message)) == ResponseCode.MESSAGE_ILLEGAL


def test_a_batch_that_is_too_large_is_not_stored_in_part(
    java: JavaDriver, names: str, new_name: NewName, our_topic: NewTopic, puller: JavaPullConsumer
) -> None:
    message = Outgoing(our_topic(), random.Random(1).randbytes(BODY_SIZE_MAX // 2 + 1))
    options = {"maxMessageSize": 2 * BODY_SIZE_MAX}
    with JavaProducer(java, names, new_name("producers"), options=options) as producer:
        code = code_of(lambda: producer.send_batch(message, message))
    assert code == ResponseCode.MESSAGE_ILLEGAL
    (queue,) = puller.queues(message.topic)
    assert puller.max_offset(queue) == 0


def test_a_queue_that_is_not_there(
    java: JavaDriver, producer: JavaProducer, puller: JavaPullConsumer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    (queue,) = producer.queues(topic)
    absent = Queue(topic, queue.broker_name, 1)
    puller.queues(topic)
    expected = INVALID[java.version]
    assert code_of(lambda: producer.send(Outgoing(topic, b"x"), absent)) == expected
    assert code_of(lambda: producer.send_async(Outgoing(topic, b"x"), absent)) == expected
    assert code_of(lambda: puller.pull(absent, 0)) == expected


def test_a_topic_that_is_not_there_and_may_not_be_made(
    java: JavaDriver, names: str, new_name: NewName, our_topic: NewTopic, puller: JavaPullConsumer
) -> None:
    # A template that is there, and that no topic may be made after.
    template = our_topic()
    (queue,) = puller.queues(template)
    puller.pull(queue, 0)  # A 5.5.0 client does not know brokers before.
    absent = Queue(new_name("absent"), queue.broker_name, 0)
    options = {"createTopicKey": template}
    with JavaProducer(java, names, new_name("producers"), options=options) as producer:
        message = Outgoing(absent.topic, b"x")
        assert code_of(lambda: producer.send(message)) == ResponseCode.TOPIC_NOT_EXIST
    assert code_of(lambda: puller.pull(absent, 0)) == ResponseCode.TOPIC_NOT_EXIST


def test_no_topic_is_made_where_none_shall_be(
    java: JavaDriver, strict: StrictCluster, new_name: NewName
) -> None:
    strict.new_topic(new_name("topic"))
    with JavaProducer(java, strict.names, new_name("producers")) as producer:
        message = Outgoing(new_name("absent"), b"x")
        assert code_of(lambda: producer.send(message)) == NO_ROUTE


def test_a_retry_of_a_group_that_is_not_there_and_may_not_be_made(
    java: JavaDriver, strict: StrictCluster, new_name: NewName
) -> None:
    queue = strict.new_topic(f"%RETRY%{new_name('absent')}")
    with JavaProducer(java, strict.names, new_name("producers")) as producer:
        code = code_of(lambda: producer.send(Outgoing(queue.topic, b"x")))
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


def test_sends_before_the_broker_takes_any(
    java: JavaDriver, strict: StrictCluster, new_name: NewName
) -> None:
    queue = strict.new_topic(new_name("topic"))
    strict.configure("startAcceptSendRequestTimeStamp=4102444800000")  # in the year 2100
    with JavaProducer(java, strict.names, new_name("producers")) as producer:
        message = Outgoing(queue.topic, b"x")
        assert code_of(lambda: producer.send(message, queue)) == ResponseCode.SYSTEM_ERROR
        strict.configure("startAcceptSendRequestTimeStamp=0")
        assert producer.send(message, queue).status == "SEND_OK"


def test_sends_to_an_ordered_topic_of_a_read_only_broker(
    java: JavaDriver, strict: StrictCluster, new_name: NewName
) -> None:
    queue = strict.new_topic(new_name("topic"))
    order = ("-t", queue.topic, "-m", "put", "-v", f"{queue.broker_name}:1")
    java.mqadmin("updateOrderConf", "-n", strict.names, *order)
    with JavaProducer(java, strict.names, new_name("producers")) as producer:
        message = Outgoing(queue.topic, b"x")
        producer.send(message, queue)
        strict.configure("brokerPermission=4")
        # The broker learns from the answer to its next registration which topics are ordered.
        wait_until(
            lambda: code_of(lambda: producer.send(message, queue)) == ResponseCode.NO_PERMISSION
        )
        strict.configure("brokerPermission=6")
        assert producer.send(message, queue).status == "SEND_OK"


def test_no_route_leads_producers_to_a_read_only_broker(
    java: JavaDriver, strict: StrictCluster, new_name: NewName
) -> None:
    topic = strict.new_topic(new_name("topic")).topic

    def is_writable() -> bool:
        route = java.mqadmin("topicRoute", "-n", strict.names, "-t", topic).output
        return '"perm":6' in "".join(route.split())

    assert is_writable()
    strict.configure("brokerPermission=4")
    wait_until(lambda: not is_writable())
    strict.configure("brokerPermission=6")
    wait_until(is_writable)


def test_pulls_from_a_topic_that_is_not_readable(
    java: JavaDriver, strict: StrictCluster, new_name: NewName
) -> None:
    queue = strict.new_topic(new_name("topic"))
    with JavaPullConsumer(java, strict.names, "TOOLS_CONSUMER") as puller:
        puller.queues(queue.topic)
        create_topic(strict.broker.address, queue.topic, permission=2)
        assert code_of(lambda: puller.pull(queue, 0)) == ResponseCode.NO_PERMISSION


def test_pulls_of_a_group_that_is_not_there_or_may_not_consume(
    java: JavaDriver, strict: StrictCluster, new_name: NewName
) -> None:
    queue = strict.new_topic(new_name("topic"))
    group = new_name("group")
    with JavaPullConsumer(java, strict.names, group) as puller:
        puller.queues(queue.topic)
        code = code_of(lambda: puller.pull(queue, 0))
        assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        make = ("updateSubGroup", "-n", strict.names, "-b", strict.broker.address, "-g", group)
        java.mqadmin(*make, "-s", "false")
        assert code_of(lambda: puller.pull(queue, 0)) == ResponseCode.NO_PERMISSION
        java.mqadmin(*make, "-s", "true")
        assert puller.pull(queue, 0).status == "NO_NEW_MSG"


def test_sql_where_it_is_switched_off(
    java: JavaDriver, names: str, new_name: NewName, our_topic: NewTopic, puller: JavaPullConsumer
) -> None:
    topic = our_topic()
    (queue,) = puller.queues(topic)
    subscription = Subscription(topic, sql="a > 1")

    def is_refused() -> bool:
        consumer = JavaPushConsumer(java, names, new_name("group"), subscription)
        code = code_of(consumer.__enter__)
        if code is None:
            consumer.__exit__(None, None, None)
        return code == ResponseCode.SYSTEM_ERROR

    # A consumer that has no route when it starts asks no broker.
    wait_until(is_refused)
    # Before its first heartbeat a pull consumer refuses by itself, with a code of its own.
    wait_until(
        lambda: code_of(lambda: puller.pull(queue, 0, sql="a > 1")) == ResponseCode.SYSTEM_ERROR
    )


def test_sql_that_means_nothing(java: JavaDriver, strict: StrictCluster, new_name: NewName) -> None:
    queue = strict.new_topic(new_name("topic"))
    subscription = Subscription(queue.topic, sql="a > 'x'")
    consumer = JavaPushConsumer(java, strict.names, "TOOLS_CONSUMER", subscription)
    assert code_of(consumer.__enter__) == ResponseCode.SUBSCRIPTION_PARSE_FAILED


def test_a_message_that_is_not_there(producer: JavaProducer, our_topic: NewTopic) -> None:
    topic = our_topic()
    sent = producer.send(Outgoing(topic, b"x", properties={"KEYS": "present"}))
    assert sent.offset_id is not None
    assert producer.query_by_key(topic, "absent", wait_s=0) == []
    absent = f"{sent.offset_id[:16]}{2**40:016X}"
    assert code_of(lambda: producer.view(topic, absent)) == NO_MESSAGE

"""The test bed itself: real Java clients against real Apache servers of the same version.

Whatever fails here is the bed's fault, not Roquet's.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.apache import ApacheCluster
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaLitePullConsumer,
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    JavaTransactionProducer,
    Outgoing,
    Queue,
    Received,
    Subscription,
)
from tests.support.java_driver import DriverGone, JavaDriver, JavaFailure

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]


@pytest.fixture
def java(apache: ApacheCluster, java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    """Clients of the servers' own version, instead of every version."""
    return java_drivers(apache.version)


@pytest.fixture
def names(apache: ApacheCluster) -> str:
    """The address of the name server."""
    return apache.name_server.address


@pytest.fixture
def producer(java: JavaDriver, names: str, new_name: NewName) -> Iterator[JavaProducer]:
    with JavaProducer(java, names, new_name("producers")) as started:
        yield started


@pytest.fixture
def puller(java: JavaDriver, names: str, new_name: NewName) -> Iterator[JavaPullConsumer]:
    with JavaPullConsumer(java, names, new_name("pullers")) as started:
        yield started


def test_every_way_to_send_arrives(
    producer: JavaProducer, puller: JavaPullConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    (queue,) = producer.queues(topic)
    sent = producer.send(Outgoing(topic, b"sync"), queue)
    assert (sent.status, sent.queue, sent.queue_offset) == ("SEND_OK", queue, 0)
    assert producer.send_async(Outgoing(topic, b"async"), queue).queue_offset == 1
    assert producer.send_batch(Outgoing(topic, b"b1"), Outgoing(topic, b"b2")).queue_offset == 2
    producer.send_oneway(Outgoing(topic, b"oneway"), queue)
    last = puller.pull_or_wait(queue, 4).messages
    assert bodies(puller.pull(queue, 0).messages) == [b"sync", b"async", b"b1", b"b2", b"oneway"]
    assert bodies(last) == [b"oneway"]


def test_a_sharding_key_chooses_the_queue(producer: JavaProducer, new_topic: NewTopic) -> None:
    topic = new_topic(4)
    sends = (producer.send, producer.send_async, producer.send)
    queues = {
        send(Outgoing(topic, b"order"), sharding_key="order 7").queue.queue_id for send in sends
    }
    assert len(queues) == 1


def test_a_message_keeps_all_that_was_set(
    producer: JavaProducer, puller: JavaPullConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    properties = {"TAGS": "red", "KEYS": "k1 k2", "city": "Köln", "a=b": '"{}"'}
    body = b"0123456789" * 1000  # long enough to be compressed
    sent = producer.send(Outgoing(topic, body, flag=7, properties=properties))
    (message,) = puller.pull_or_wait(sent.queue, 0).messages
    assert message.body == body
    assert message.flag == 7
    assert properties.items() <= message.properties.items()
    assert message.message_id == sent.message_id
    assert message.offset_id == sent.offset_id
    assert message.store_size < len(body)


def test_a_message_is_found_by_key_by_unique_key_and_by_offset_id(
    producer: JavaProducer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    sent = producer.send(Outgoing(topic, b"found", properties={"KEYS": "invoice"}))
    assert sent.offset_id is not None
    assert bodies(producer.query_by_key(topic, "invoice")) == [b"found"]
    assert producer.view(topic, sent.message_id).body == b"found"
    assert producer.view(topic, sent.offset_id).queue_offset == sent.queue_offset


def test_java_failures_carry_the_response_code(
    apache: ApacheCluster, puller: JavaPullConsumer, new_topic: NewTopic
) -> None:
    (queue,) = puller.queues(new_topic())
    with pytest.raises(JavaFailure) as failure:
        puller.pull(Queue(queue.topic, queue.broker_name, 1), 0)
    assert failure.value.kind == "MQBrokerException"
    expected = {ApacheVersion.V4_9_7: 1, ApacheVersion.V5_5_0: 29}
    assert failure.value.code == expected[apache.version]


def test_offsets_of_queues_and_groups(
    producer: JavaProducer, puller: JavaPullConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    (queue,) = puller.queues(topic)
    for body in (b"0", b"1"):
        producer.send(Outgoing(topic, body))
    puller.pull_or_wait(queue, 1)
    first, _ = puller.pull(queue, 0).messages
    assert (puller.min_offset(queue), puller.max_offset(queue)) == (0, 2)
    assert puller.search_offset(queue, first.store_timestamp) == 0
    assert puller.earliest_store_time(queue) == first.store_timestamp
    puller.update_consumer_offset(queue, 1)
    assert puller.consumer_offset(queue) == 1


@pytest.mark.parametrize(
    ("subscription", "expected"),
    [
        ({"tags": "red || blue"}, [b"1", b"3"]),
        ({"sql": "size > 2 AND TAGS IS NOT NULL"}, [b"2", b"3"]),
    ],
    ids=["tags", "sql"],
)
def test_a_push_consumer_gets_what_it_subscribed_to(
    java: JavaDriver,
    names: str,
    producer: JavaProducer,
    new_topic: NewTopic,
    new_name: NewName,
    subscription: dict[str, str],
    expected: list[bytes],
) -> None:
    topic = new_topic()
    for body, tag, size in ((b"1", "red", "1"), (b"2", "green", "3"), (b"3", "blue", "5")):
        producer.send(Outgoing(topic, body, properties={"TAGS": tag, "size": size}))
    with JavaPushConsumer(
        java, names, new_name("group"), Subscription(topic, **subscription)
    ) as consumer:
        assert sorted(bodies(consumer.received(2))) == expected


def test_a_failed_message_comes_again(
    java: JavaDriver, names: str, producer: JavaProducer, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    producer.send(Outgoing(topic, b"again"))
    with JavaPushConsumer(
        java, names, new_name("group"), Subscription(topic), failures=1
    ) as consumer:
        first, second = consumer.received(2)
    assert (first.reconsume_times, second.reconsume_times) == (0, 1)
    assert second.message_id == first.message_id


def test_an_orderly_consumer_waits_for_the_failed_message(
    java: JavaDriver, names: str, producer: JavaProducer, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    producer.send_batch(*(Outgoing(topic, body) for body in (b"1", b"2")))
    options = {"suspendCurrentQueueTimeMillis": 10}
    with JavaPushConsumer(
        java,
        names,
        new_name("group"),
        Subscription(topic),
        orderly=True,
        failures=1,
        options=options,
    ) as consumer:
        assert bodies(consumer.received(4)) == [b"1", b"1", b"2", b"2"]


def test_every_broadcast_consumer_gets_every_message(
    java: JavaDriver, names: str, producer: JavaProducer, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    group = new_name("group")
    everything = Subscription(topic)
    options = {"messageModel": "BROADCASTING"}
    with (
        JavaPushConsumer(java, names, group, everything, options=options) as one,
        JavaPushConsumer(java, names, group, everything, options=options) as other,
    ):
        producer.send(Outgoing(topic, b"all"))
        assert bodies(one.received(1)) == bodies(other.received(1)) == [b"all"]


def test_a_delayed_message_is_stored_later(
    producer: JavaProducer, puller: JavaPullConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    (queue,) = puller.queues(topic)
    producer.send(Outgoing(topic, b"late", properties={"DELAY": "1"}), queue)
    (message,) = puller.pull_or_wait(queue, 0).messages
    assert message.store_timestamp - message.born_timestamp > 900


def test_transactions_end_as_the_test_says(
    java: JavaDriver, names: str, puller: JavaPullConsumer, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    (queue,) = puller.queues(topic)
    with JavaTransactionProducer(java, names, new_name("producers")) as producer:
        unknown = producer.send(Outgoing(topic, b"asked"), "UNKNOW", "COMMIT_MESSAGE")
        producer.send(Outgoing(topic, b"dropped"), "ROLLBACK_MESSAGE")
        producer.send(Outgoing(topic, b"done"), "COMMIT_MESSAGE")
        (check,) = producer.checks(1)
        asked = puller.pull_or_wait(queue, 1).messages
    # To the listener the id of the half message is its place; the client's own is a property.
    assert check.properties["UNIQ_KEY"] == unknown.message_id
    assert bodies(asked) == [b"asked"]
    assert bodies(puller.pull(queue, 0).messages) == [b"done", b"asked"]


def test_a_request_is_replied_to(
    java: JavaDriver, names: str, producer: JavaProducer, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    with JavaPushConsumer(java, names, new_name("group"), Subscription(topic), replier=producer):
        assert producer.request(Outgoing(topic, b"stressed")).body == b"desserts"


def test_lite_pull_by_subscription_goes_on_where_it_committed(
    java: JavaDriver, names: str, producer: JavaProducer, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    group = new_name("group")
    options = {"autoCommit": False}
    everything = Subscription(topic)
    producer.send(Outgoing(topic, b"1"))
    with JavaLitePullConsumer(java, names, group, everything, options=options) as consumer:
        assert bodies(consumer.poll()) == [b"1"]
        consumer.commit()
        (queue,) = consumer.assignment()
        assert consumer.committed(queue) == 1
    producer.send(Outgoing(topic, b"2"))
    with JavaLitePullConsumer(java, names, group, everything, options=options) as consumer:
        assert bodies(consumer.poll()) == [b"2"]


def test_lite_pull_by_assignment_seeks(
    java: JavaDriver, names: str, producer: JavaProducer, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    for body in (b"0", b"1"):
        producer.send(Outgoing(topic, body))
    with JavaLitePullConsumer(java, names, new_name("group")) as consumer:
        (queue,) = consumer.queues(topic)
        consumer.assign(queue)
        # A pull under way may still deliver after a seek, so let there be none first.
        while consumer.poll()[-1].body != b"1":
            pass
        consumer.seek(queue, 0)
        assert consumer.poll()[0].body == b"0"


def test_mqadmin_prints(java: JavaDriver, names: str, apache: ApacheCluster) -> None:
    clusters = java.mqadmin("clusterList", "-n", names)
    assert apache.broker.address in clusters.output
    failed = java.mqadmin("topicRoute", "-n", names, "-t", "no-such-topic")
    assert "No topic route info" in failed.complaints


@pytest.mark.parametrize("version", ApacheVersion)
def test_a_dead_driver_says_so(version: ApacheVersion, tmp_path: Path) -> None:
    with JavaDriver(version, tmp_path) as driver:
        assert driver.reserialize("body.TopicList", b'{"topicList":["t"]}')
        driver.close()
        with pytest.raises(DriverGone, match="ended"):
            driver.mqadmin("clusterList")


def bodies(messages: list[Received]) -> list[bytes]:
    return [message.body for message in messages]

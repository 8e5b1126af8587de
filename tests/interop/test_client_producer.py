"""Our producer at Apache's brokers and at ours: one contract, and a Java consumer is the judge."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from roquet import Message, Producer, QueueRef, TlsConfig
from roquet.client.errors import SendFailed, SendImpossible
from roquet.protocol.compression import Compression
from tests.support.apache import ApacheBroker, ApacheNameServer
from tests.support.client_servers import ClientServer
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Queue,
    Received,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver
from tests.support.tls_server import CERTIFICATE
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

# A loaded machine must not turn slowness into failures.
TIMEOUT_S = 20.0


@pytest.fixture
def java(server: ClientServer, java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    return java_drivers(server.java_version)


@pytest.fixture
def new_topic(server: ClientServer, new_name: NewName) -> NewTopic:
    def make(queue_count: int = 1, permission: int = 6) -> str:
        topic = new_name("topic")
        create_topic(server.broker, topic, queue_count, permission=permission)
        return topic

    return make


@pytest.fixture
def producer(server: ClientServer, new_name: NewName) -> Iterator[Producer]:
    with Producer(server.name_server, new_name("producers")) as producer:
        yield producer


@pytest.fixture
def puller(java: JavaDriver, server: ClientServer, new_name: NewName) -> Iterator[JavaPullConsumer]:
    with JavaPullConsumer(java, server.name_server, new_name("pullers")) as started:
        yield started


def java_queue(queue: QueueRef) -> Queue:
    return Queue(queue.topic, queue.broker_name, queue.queue_id)


def test_every_way_to_send_arrives(
    producer: Producer, puller: JavaPullConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    sent = producer.send(Message(topic, b"sync"), timeout_s=TIMEOUT_S)
    assert sent.queue_offset == 0
    batch = producer.send_batch([Message(topic, b"b1"), Message(topic, b"b2")])
    assert [receipt.queue_offset for receipt in batch] == [1, 2]
    assert producer.send(Message(topic, b"key"), order_key="order 7").queue_offset == 3
    assert producer.send_many([Message(topic, b"many")])[0].queue_offset == 4
    producer.send_oneway(Message(topic, b"oneway"))
    queue = java_queue(sent.queue)
    assert bodies(puller.pull_or_wait(queue, 5).messages) == [b"oneway"]
    assert bodies(puller.pull(queue, 0).messages) == [
        *(b"sync", b"b1", b"b2", b"key", b"many", b"oneway")
    ]


def test_a_message_keeps_all_that_was_set(
    producer: Producer, puller: JavaPullConsumer, new_topic: NewTopic
) -> None:
    properties = {"city": "Köln 𝄞", "a=b": '"{}"', "blank": " "}
    message = Message(
        new_topic(), b"\x00\xff", tags="red", keys=("k1", "k2"), properties=properties, flag=-7
    )
    sent = producer.send(message, timeout_s=TIMEOUT_S)
    (received,) = puller.pull(java_queue(sent.queue), 0).messages
    assert (received.body, received.flag) == (b"\x00\xff", -7)
    assert (properties | {"TAGS": "red", "KEYS": "k1 k2"}).items() <= received.properties.items()
    assert (received.message_id, received.offset_id) == (sent.message_id, sent.offset_id)


@pytest.mark.parametrize("compression", Compression)
def test_java_reads_our_compressed_bodies(
    server: ClientServer,
    puller: JavaPullConsumer,
    new_topic: NewTopic,
    new_name: NewName,
    compression: Compression,
) -> None:
    body = b"0123456789abcdef" * 65536
    with Producer(server.name_server, new_name("producers"), compression=compression) as producer:
        sent = producer.send(Message(new_topic(), body), timeout_s=TIMEOUT_S)
    (received,) = puller.pull(java_queue(sent.queue), 0).messages
    assert received.body == body
    assert received.store_size < len(body) / 10


def test_each_message_of_a_batch_is_a_message_of_its_own(
    producer: Producer, puller: JavaPullConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    batch = [
        Message(topic, b"%d" % number, tags=f"t{number}", keys=(f"k{number}",), flag=number)
        for number in range(100)
    ]
    receipts = producer.send_batch(batch, timeout_s=TIMEOUT_S)
    queue = java_queue(receipts[0].queue)
    pulled: list[Received] = []
    while len(pulled) < len(batch):
        pulled += puller.pull(queue, len(pulled)).messages
    assert [(each.body, each.flag, each.properties["TAGS"]) for each in pulled] == [
        (message.body, message.flag, message.tags) for message in batch
    ]
    assert [each.message_id for each in pulled] == [each.message_id for each in receipts]
    assert [each.offset_id for each in pulled] == [each.offset_id for each in receipts]


def test_gathered_messages_arrive_once_each(
    server: ClientServer, java: JavaDriver, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic(4)
    with (
        JavaPushConsumer(
            java,
            server.name_server,
            new_name("readers"),
            Subscription(topic),
            options={"consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET"},
        ) as reader,
        Producer(server.name_server, new_name("producers"), linger_ms=5) as producer,
    ):
        producer.send_many(
            (Message(topic, b"%d" % number) for number in range(500)), timeout_s=TIMEOUT_S
        )
        received = bodies(reader.received(500))
    assert sorted(map(int, received)) == list(range(500))


def test_a_key_leads_to_the_queue_that_a_java_producer_chooses(
    server: ClientServer,
    producer: Producer,
    java: JavaDriver,
    new_topic: NewTopic,
    new_name: NewName,
) -> None:
    topic = new_topic(7)
    with JavaProducer(java, server.name_server, new_name("producers")) as java_producer:
        for key in ("", "order 7", "订单", "order-123456789", "𝄞" * 50):
            theirs = java_producer.send(Outgoing(topic, b"x"), sharding_key=key)
            ours = producer.send(Message(topic, b"x"), order_key=key, timeout_s=TIMEOUT_S)
            assert ours.queue.queue_id == theirs.queue.queue_id


def test_a_missing_topic_is_created_by_the_first_send(
    producer: Producer, puller: JavaPullConsumer, new_name: NewName
) -> None:
    topic = new_name("unmade")
    sent = producer.send(Message(topic, b"first"), timeout_s=TIMEOUT_S)
    assert bodies(puller.pull(java_queue(sent.queue), 0).messages) == [b"first"]
    assert len(puller.queues(topic)) == 4


def test_a_delayed_message_arrives_later(
    producer: Producer, puller: JavaPullConsumer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    sent = producer.send(Message(topic, b"later"), delay_level=1, timeout_s=TIMEOUT_S)
    (received,) = puller.pull_or_wait(java_queue(sent.queue), 0).messages
    assert received.body == b"later"
    assert received.store_timestamp - received.born_timestamp >= 900


def test_a_moment_is_refused_by_brokers_without_timers(
    producer: Producer, new_topic: NewTopic, server: ClientServer
) -> None:
    topic = new_topic()
    message = Message(topic, b"in an hour")
    if not server.is_apache:
        producer.send(message, delay=timedelta(hours=1))
        return
    # 4.9 has no timers, and the 5.5.0 of the tests has them switched off.
    with pytest.raises(SendFailed):
        producer.send(message, delay=timedelta(hours=1), timeout_s=TIMEOUT_S)


def test_a_broker_that_says_no_is_quoted(
    producer: Producer, new_topic: NewTopic, server: ClientServer
) -> None:
    topic = new_topic(2)
    queue = producer.queues(topic)[0]._replace(queue_id=99)
    # Brokers have no code for it: 5.5.0 says "invalid parameter" where 4.9.7 says "system error".
    with pytest.raises(SendImpossible, match="99"):
        producer.send(Message(topic, b"x"), queue=queue, timeout_s=TIMEOUT_S)


def test_a_topic_closed_for_writing_cannot_be_sent_to(
    producer: Producer, new_topic: NewTopic
) -> None:
    with pytest.raises(SendFailed, match="accepts messages"):
        producer.send(Message(new_topic(permission=4), b"x"), timeout_s=2.0)


@pytest.mark.parametrize("version", ApacheVersion)
def test_apache_takes_encrypted_messages(
    version: ApacheVersion,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    tmp_path: Path,
    new_name: NewName,
) -> None:
    properties = {
        "tls.server.mode": "permissive",  # as it is by default, but not in tests
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(CERTIFICATE),
        "tls.server.keyPath": str(CERTIFICATE),
    }
    topic = new_name("topic")
    with (
        ApacheNameServer(version, tmp_path / "names", properties) as names,
        ApacheBroker(version, tmp_path / "broker", names.address, properties=properties) as broker,
    ):
        create_topic(broker.address, topic)
        trusting = TlsConfig(ca_file=CERTIFICATE)
        with Producer(names.address, new_name("producers"), tls=trusting) as producer:
            sent = producer.send(Message(topic, b"0123456789" * 10_000), timeout_s=TIMEOUT_S)
        driver = java_drivers(version)
        with JavaPullConsumer(driver, names.address, new_name("pullers")) as puller:
            (received,) = puller.pull(java_queue(sent.queue), 0).messages
    assert received.body == b"0123456789" * 10_000

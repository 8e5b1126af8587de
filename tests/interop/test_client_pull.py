"""Our pull consumer at Apache's brokers and at ours: one contract, and Java members beside it."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from roquet import Admin, Message, Producer, PullConsumer, QueueRef, ReceivedMessage, StartFrom
from roquet.client.cluster.pulling import PullStatus
from roquet.client.errors import BadArgument, RequestRefused
from tests.support.client_servers import ClientServer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaLitePullConsumer,
    JavaProducer,
    JavaPullConsumer,
    Outgoing,
    Queue,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

TIMEOUT_S = 20.0


@pytest.fixture
def java(server: ClientServer, java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    return java_drivers(server.java_version)


@pytest.fixture
def new_topic(server: ClientServer, new_name: NewName) -> NewTopic:
    def make(queue_count: int = 1) -> str:
        topic = new_name("topic")
        create_topic(server.broker, topic, queue_count)
        return topic

    return make


@pytest.fixture
def group(new_name: NewName) -> str:
    return new_name("group")


@pytest.fixture
def producer(server: ClientServer, new_name: NewName) -> Iterator[Producer]:
    with Producer(server.name_server, new_name("producers")) as producer:
        yield producer


@pytest.fixture
def consumer(server: ClientServer, group: str) -> Iterator[PullConsumer]:
    """Each test decides what it reads and when it commits."""
    with PullConsumer(
        server.name_server, group, start_from=StartFrom.FIRST, auto_commit=False
    ) as consumer:
        yield consumer


def send(producer: Producer, topic: str, count: int, start: int = 0) -> list[QueueRef]:
    return [
        producer.send(
            Message(topic, b"%d" % number, tags=("red", "blue")[number % 2]), timeout_s=TIMEOUT_S
        ).queue
        for number in range(start, start + count)
    ]


def poll(consumer: PullConsumer, count: int) -> list[ReceivedMessage]:
    messages: list[ReceivedMessage] = []

    def has_all() -> bool:
        messages.extend(consumer.poll(timeout_s=1))
        return len(messages) >= count

    wait_until(has_all, 30)
    return messages


def numbers(messages: list[ReceivedMessage]) -> list[int]:
    return [int(message.body) for message in messages]


def java_queue(queue: QueueRef) -> Queue:
    return Queue(queue.topic, queue.broker_name, queue.queue_id)


def test_a_subscriber_polls_everything_once(
    consumer: PullConsumer, producer: Producer, new_topic: NewTopic
) -> None:
    topic = new_topic(4)
    send(producer, topic, 50)
    consumer.subscribe(topic)
    assert sorted(numbers(poll(consumer, 50))) == list(range(50))
    send(producer, topic, 10, 50)
    assert sorted(numbers(poll(consumer, 10))) == list(range(50, 60))
    assert consumer.poll(timeout_s=0.1) == []


def test_messages_of_java_producers_come_whole(
    consumer: PullConsumer,
    server: ClientServer,
    java: JavaDriver,
    new_topic: NewTopic,
    new_name: NewName,
) -> None:
    topic = new_topic()
    properties = {"TAGS": "red", "KEYS": "k1 k2", "city": "Köln 𝄞"}
    with JavaProducer(java, server.name_server, new_name("producers")) as java_producer:
        sent = java_producer.send(Outgoing(topic, b"\x00\xff" * 5000, properties=properties))
    consumer.subscribe(topic)
    (message,) = poll(consumer, 1)
    assert (message.body, message.topic, message.tags) == (b"\x00\xff" * 5000, topic, "red")
    assert (message.keys, message.properties["city"]) == (("k1", "k2"), "Köln 𝄞")
    assert message.message_id == sent.message_id


def test_tags_and_expressions_pick_messages(
    server: ClientServer,
    consumer: PullConsumer,
    producer: Producer,
    new_topic: NewTopic,
    new_name: NewName,
) -> None:
    if not server.is_apache:
        with Admin(server.name_server) as admin:
            admin.update_broker_config(server.broker, {"enablePropertyFilter": "true"})
    topic = new_topic()
    send(producer, topic, 6)
    consumer.subscribe(topic, tags="blue || green")
    assert numbers(poll(consumer, 3)) == [1, 3, 5]
    by_expression = PullConsumer(server.name_server, new_name("group"), start_from=StartFrom.FIRST)
    by_expression.subscribe(topic, sql="TAGS = 'red'")
    with by_expression:
        assert numbers(poll(by_expression, 3)) == [0, 2, 4]
    nonsense = PullConsumer(server.name_server, new_name("group"))
    nonsense.subscribe(topic, sql="TAGS = (")
    with pytest.raises(RequestRefused):
        nonsense.open()
    nonsense.close()


def test_a_commit_is_seen_by_java_and_by_the_next_member(
    server: ClientServer,
    java: JavaDriver,
    consumer: PullConsumer,
    producer: Producer,
    new_topic: NewTopic,
    group: str,
) -> None:
    topic = new_topic()
    queue = send(producer, topic, 3)[0]
    consumer.assign([queue])
    assert numbers(poll(consumer, 3)) == [0, 1, 2]
    consumer.commit({queue: 2})
    assert consumer.committed(queue) == 2
    consumer.close()
    with JavaPullConsumer(java, server.name_server, group) as java_consumer:
        assert java_consumer.consumer_offset(java_queue(queue)) == 2
        java_consumer.update_consumer_offset(java_queue(queue), 1)
    with PullConsumer(server.name_server, group) as successor:
        successor.assign([queue])
        assert numbers(poll(successor, 2)) == [1, 2]


def test_seeking_goes_back_and_forth(
    consumer: PullConsumer, producer: Producer, new_topic: NewTopic
) -> None:
    topic = new_topic()
    queue = send(producer, topic, 10)[0]
    consumer.assign([queue])
    poll(consumer, 10)
    consumer.seek(queue, 7)
    assert numbers(poll(consumer, 3)) == [7, 8, 9]
    consumer.seek_to_begin(queue)
    assert numbers(poll(consumer, 10)) == list(range(10))
    consumer.seek(queue, 5)
    consumer.seek_to_end(queue)
    assert consumer.poll(timeout_s=0.2) == []
    assert (consumer.begin_offset(queue), consumer.end_offset(queue)) == (0, 10)
    with pytest.raises(BadArgument):
        consumer.seek(queue, 11)
    hour = timedelta(hours=1)
    assert consumer.offset_for_time(queue, datetime.now(UTC) - hour) == 0
    assert consumer.offset_for_time(queue, datetime.now(UTC) + hour) >= 9


def test_a_paused_queue_rests(
    consumer: PullConsumer, producer: Producer, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    queues = consumer.queues(topic)
    consumer.assign(queues)
    wait_until(lambda: consumer.assignment() == queues)
    consumer.pause(queues[:1])
    # The pull that may be waiting already would still bring a message, so it is given up.
    consumer.seek_to_end(queues[0])
    for queue, body in zip(queues, (b"0", b"1"), strict=True):
        producer.send(Message(topic, body), queue=queue, timeout_s=TIMEOUT_S)
    assert numbers(poll(consumer, 1)) == [1]
    assert consumer.poll(timeout_s=0.2) == []
    consumer.resume(queues[:1])
    assert numbers(poll(consumer, 1)) == [0]


def test_plain_pulls(consumer: PullConsumer, producer: Producer, new_topic: NewTopic) -> None:
    topic = new_topic()
    queue = send(producer, topic, 4)[0]
    pulled = consumer.pull(queue, 1, count_max=2)
    assert (numbers(pulled.messages), pulled.next_offset) == ([1, 2], 3)
    assert (pulled.min_offset, pulled.max_offset) == (0, 4)
    assert numbers(consumer.pull(queue, 0, tags="blue").messages) == [1, 3]
    assert consumer.pull(queue, 4).status is PullStatus.NOTHING_NEW
    assert consumer.pull(queue, 9).status is PullStatus.OUT_OF_RANGE
    assert consumer.pull(queue, 4, wait_s=0.1).status is PullStatus.NOTHING_NEW


def test_a_schedule_takes_everything(
    server: ClientServer, producer: Producer, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(2)
    send(producer, topic, 20)
    taken: list[int] = []
    with PullConsumer(server.name_server, group, prefetch=False) as consumer:

        def work(queue: QueueRef) -> float:
            pulled = consumer.pull(queue, consumer.committed(queue) or 0)
            taken.extend(numbers(pulled.messages))
            consumer.commit({queue: pulled.next_offset})
            return 0.01

        consumer.subscribe(topic)
        wait_until(lambda: len(consumer.assignment()) == 2)
        consumer.schedule(work)
        wait_until(lambda: len(taken) >= 20)
    assert sorted(taken) == list(range(20))


def test_members_of_both_languages_share_queues(
    server: ClientServer,
    java: JavaDriver,
    consumer: PullConsumer,
    producer: Producer,
    new_topic: NewTopic,
    group: str,
) -> None:
    topic = new_topic(4)
    consumer.subscribe(topic)
    wait_until(lambda: len(consumer.assignment()) == 4)
    with JavaLitePullConsumer(
        java, server.name_server, group, Subscription(topic)
    ) as java_consumer:
        wait_until(lambda: len(consumer.assignment()) == 2, 60)
        ours = {queue.queue_id for queue in consumer.assignment()}
        wait_until(lambda: len(java_consumer.assignment()) == 2, 60)
        theirs = {queue.queue_id for queue in java_consumer.assignment()}
        assert ours | theirs == {0, 1, 2, 3}
        send(producer, topic, 40)
        taken = numbers(poll(consumer, 20))
        java_taken: list[bytes] = []
        while len(java_taken) < 20 and (polled := bodies(java_consumer.poll())):
            java_taken += polled
        assert sorted(taken + [int(body) for body in java_taken]) == list(range(40))
    wait_until(lambda: len(consumer.assignment()) == 4, 60)

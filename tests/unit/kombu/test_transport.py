"""Kombu's own objects over the transport, against a cluster inside the test."""

import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection, Consumer, Exchange, Producer, Queue
from kombu.exceptions import ChannelError

import roquet.kombu  # noqa: F401  Registers the scheme.
from roquet import BadArgument, Message, NoNameServer, Producer as ProducerOfOthers
from roquet.testing import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.ports import free_port

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        yield cluster


@pytest.fixture
def url(cluster: BlockingCluster) -> str:
    return f"rocketmq://{cluster.name_server}//"


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    with Connection(url, transport_options={"queue_count": 2}) as connection:
        yield connection


class Received:
    """Consumes queues in a channel, and notes what comes."""

    def __init__(self, connection: Connection, *queues: Queue, **options: Any) -> None:
        self.connection = connection
        self.messages: list[Any] = []
        self.channel = connection.channel()
        prefetch_count = options.pop("prefetch_count", None)
        self.consumer = Consumer(self.channel, queues, on_message=self.messages.append, **options)
        if prefetch_count is not None:
            self.consumer.qos(prefetch_count=prefetch_count)
        self.consumer.consume()

    def bodies(self, count: int) -> list[Any]:
        while len(self.messages) < count:
            self.connection.drain_events(timeout=20)
        return [message.payload for message in self.messages]

    def has_more(self) -> bool:
        try:
            self.connection.drain_events(timeout=0.3)
        except TimeoutError:
            return False
        return True


def publish(connection: Connection, body: Any, exchange: str, routing_key: str) -> None:
    Producer(connection).publish(body, exchange=exchange, routing_key=routing_key)


def test_exchanges_route_to_queues_that_their_senders_do_not_know(
    connection: Connection, url: str
) -> None:
    media = Exchange("media", type="topic")
    images = Received(connection, Queue("images", media, routing_key="images.#"))
    with Connection(url) as other:
        for key in ("images", "images.a.b", "sounds.a"):
            Producer(other).publish(key, exchange=media, routing_key=key)
    assert sorted(images.bodies(2)) == ["images", "images.a.b"]
    assert not images.has_more()


def test_every_queue_of_a_fanout_gets_each_message(connection: Connection, url: str) -> None:
    news = Exchange("news", type="fanout")
    with Connection(url) as second:
        readers = [
            Received(each, Queue(f"reader-{number}", news, auto_delete=True), no_ack=True)
            for number, each in enumerate((connection, second))
        ]
        publish(connection, "hello", "news", "")
        assert [reader.bodies(1) for reader in readers] == [["hello"], ["hello"]]


def test_a_transient_queue_is_reached_by_its_name(connection: Connection, url: str) -> None:
    replies = Received(connection, Queue("replies-1", exclusive=True), no_ack=True)
    with Connection(url) as other:
        publish(other, "reply", "", "replies-1")
    assert replies.bodies(1) == ["reply"]


def test_no_more_messages_come_than_the_prefetch_count(connection: Connection) -> None:
    queue = Queue("few")
    queue(connection.default_channel).declare()
    for number in range(5):
        publish(connection, number, "", "few")
    received = Received(connection, queue, prefetch_count=2)
    received.bodies(2)
    assert not received.has_more()
    received.messages[0].ack()
    received.bodies(3)
    assert not received.has_more()


def test_a_requeued_message_comes_again_and_only_once(connection: Connection) -> None:
    received = Received(connection, Queue("again"))
    publish(connection, "again", "", "again")
    received.bodies(1)
    assert received.messages[0].delivery_info["routing_key"] == "again"
    received.messages[0].requeue()
    received.bodies(2)
    received.messages[1].ack()
    assert not received.has_more()


def test_a_rejected_message_is_a_dead_letter(
    connection: Connection, cluster: BlockingCluster
) -> None:
    received = Received(connection, Queue("refused"))
    publish(connection, "bad", "", "refused")
    received.bodies(1)
    received.messages[0].reject()
    wait_until(lambda: len(cluster.received("%DLQ%refused")) == 1)


def test_a_message_that_is_not_finished_in_time_comes_again(
    url: str, cluster: BlockingCluster
) -> None:
    options = {"visibility_timeout": 0.5, "queue_count": 1}
    with Connection(url, transport_options=options) as connection:
        received = Received(connection, Queue("slow"))
        publish(connection, "slow", "", "slow")
        received.bodies(1)
        while not received.has_more():
            cluster.clock.advance(timedelta(seconds=10))
        assert received.bodies(2) == ["slow", "slow"]


def test_a_message_of_another_program_is_a_dead_letter(
    connection: Connection, cluster: BlockingCluster
) -> None:
    received = Received(connection, Queue("mixed"))
    with ProducerOfOthers(cluster.name_server, "others") as producer:
        producer.send(Message("mixed", b"no envelope"))
    publish(connection, "ours", "", "mixed")
    assert received.bodies(1) == ["ours"]
    wait_until(lambda: len(cluster.received("%DLQ%mixed")) == 1)


def test_a_single_message_can_be_got(connection: Connection) -> None:
    queue = Queue("single")(connection.default_channel)
    queue.declare()
    assert queue.get() is None
    publish(connection, "one", "", "single")
    message = queue.get()
    assert message.payload == "one"
    message.ack()


def test_a_queue_cannot_be_bound_to_the_address_of_another(connection: Connection) -> None:
    queue = Queue("mine", Exchange("yours"), routing_key="yours")
    with pytest.raises(ChannelError, match="the address of the queue of that name: use another"):
        queue(connection.default_channel).declare()


def test_a_connection_without_servers_is_refused_in_words() -> None:
    with Connection(f"rocketmq://127.0.0.1:{free_port()}//") as connection:
        assert issubclass(NoNameServer, connection.connection_errors)
        with pytest.raises(NoNameServer, match="check `name_server`"):
            connection.connect()


def test_an_attempt_to_connect_leaves_no_descriptors() -> None:
    def attempt() -> int:
        with (
            Connection(f"rocketmq://127.0.0.1:{free_port()}//") as connection,
            pytest.raises(NoNameServer),
        ):
            connection.connect()
        return len(list(Path("/proc/self/fd").iterdir()))

    first = attempt()
    assert attempt() == first


def test_a_bad_option_is_refused_in_words(url: str) -> None:
    with (
        Connection(url, transport_options={"queue_count": "many"}) as connection,
        pytest.raises(BadArgument, match="queue_count"),
    ):
        connection.connect()


def test_a_delay_of_levels_takes_several_steps(url: str) -> None:
    with Connection(url, transport_options={"queue_count": 1}) as connection:
        received = Received(connection, Queue("steps"))
        # As a broker of 4.9, which has levels only.
        connection.transport.link._has_timers = False
        due_s = time.time() + 2.5
        eta = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(due_s + 1))
        Producer(connection).publish("due", routing_key="steps", headers={"eta": eta})
        assert received.bodies(1) == ["due"]
        assert time.time() >= due_s - 1

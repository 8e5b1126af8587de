"""What real Java clients find again when they or our broker were away."""

import itertools
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Self

import pytest

from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver, JavaFailure
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

# A broker that was away knows no subscription before the next heartbeat, and a 4.9.7 client
# sends one every 30 seconds, whatever happens.
LIVELY = {"heartbeatBrokerInterval": 1000}


class Servers(NamedTuple):
    name_server: OurNameServer
    broker: OurBroker

    @property
    def names(self) -> str:
        return self.name_server.address


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    """Servers of this test alone."""
    settings = {"registerNameServerPeriod": "10000"}  # There is no shorter one.
    with (
        OurNameServer(tmp_path / "namesrv") as name_server,
        OurBroker(tmp_path / "broker", name_server.address, configuration=settings) as broker,
    ):
        yield Servers(name_server, broker)


def test_a_consumer_goes_on_where_it_stopped(
    java: JavaDriver, names: str, new_name: NewName, producer: JavaProducer, our_topic: NewTopic
) -> None:
    topic = our_topic(4)
    group = new_name("group")
    for round_number in range(3):
        sent = [b"%d-%d" % (round_number, number) for number in range(20)]
        for body in sent:
            producer.send(Outgoing(topic, body))
        with JavaPushConsumer(java, names, group, Subscription(topic)) as consumer:
            assert sorted(bodies(consumer.received(len(sent)))) == sorted(sent)
            assert consumer.received(1, wait_s=0.2) == []


def test_everything_is_there_after_a_clean_restart(
    java: JavaDriver, servers: Servers, new_name: NewName
) -> None:
    topic, group = new_name("topic"), new_name("group")
    create_topic(servers.broker.address, topic, 2)
    at_broker = ("-n", servers.names, "-b", servers.broker.address)
    java.mqadmin("updateSubGroup", *at_broker, "-g", group, "-r", "7")
    with JavaProducer(java, servers.names, new_name("producers")) as producer:
        keys = {"KEYS": "kept"}
        sends = [producer.send(Outgoing(topic, b"%d" % n, properties=keys)) for n in range(10)]
    with JavaPullConsumer(java, servers.names, group) as puller:
        queues = puller.queues(topic)
        for queue in queues:
            puller.update_consumer_offset(queue, 3)
        wait_until(lambda: [puller.consumer_offset(queue) for queue in queues] == [3, 3])

    servers.broker.stop()
    servers.broker.start()

    with (
        JavaProducer(java, servers.names, new_name("producers")) as producer,
        JavaPullConsumer(java, servers.names, group) as puller,
    ):
        assert len(puller.queues(topic)) == 2
        assert [puller.consumer_offset(queue) for queue in queues] == [3, 3]
        assert sum(puller.max_offset(queue) for queue in queues) == 10
        assert sorted(bodies(producer.query_by_key(topic, "kept"))) == [
            b"%d" % n for n in range(10)
        ]
        for number, sent in enumerate(sends):
            assert sent.offset_id is not None
            assert producer.view(topic, sent.offset_id).body == b"%d" % number
        after = producer.send(Outgoing(topic, b"after"), queues[0])
        assert after.queue_offset == puller.max_offset(queues[0]) - 1
    settings = java.mqadmin("getConsumerConfig", "-n", servers.names, "-g", group).output
    assert ["retryMaxTimes", "=", "7"] in [line.split() for line in settings.splitlines()]


def test_clients_go_on_when_the_broker_is_back(
    java: JavaDriver, servers: Servers, new_name: NewName
) -> None:
    topic = new_name("topic")
    create_topic(servers.broker.address, topic, 2)
    with (
        JavaProducer(java, servers.names, new_name("producers")) as producer,
        JavaPushConsumer(
            java, servers.names, new_name("group"), Subscription(topic), options=LIVELY
        ) as consumer,
    ):
        producer.send(Outgoing(topic, b"before"))
        assert bodies(consumer.received(1)) == [b"before"]

        servers.broker.stop()
        with pytest.raises(JavaFailure):
            producer.send(Outgoing(topic, b"meanwhile"))
        servers.broker.start()

        wait_until(lambda: is_sent(producer, Outgoing(topic, b"after")))
        # A poll that was lost with its connection is given up by Java after half a minute.
        assert bodies(consumer.received(1, wait_s=90)) == [b"after"]


def test_clients_and_brokers_live_without_a_name_server_for_a_while(
    java_drivers: Callable[[ApacheVersion], JavaDriver], servers: Servers, new_name: NewName
) -> None:
    old, new = (java_drivers(version) for version in ApacheVersion)
    topic = new_name("topic")
    create_topic(servers.broker.address, topic, 3)
    with JavaProducer(old, servers.names, new_name("producers")) as producer:
        producer.send(Outgoing(topic, b"before"))
        servers.name_server.kill()
        producer.send(Outgoing(topic, b"meanwhile"))
        servers.name_server.start()
    with JavaProducer(new, servers.names, new_name("producers")) as producer:
        wait_until(lambda: is_sent(producer, Outgoing(topic, b"after")))
        assert len(producer.queues(topic)) == 3


def is_sent(producer: JavaProducer, message: Outgoing) -> bool:
    try:
        producer.send(message)
    except JavaFailure:
        return False
    return True


class Load:
    """Threads that send numbered messages, whatever happens, and note what was acknowledged."""

    thread_count = 4

    def __init__(self, producer: JavaProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._stop = threading.Event()
        self._threads = ThreadPoolExecutor(self.thread_count)
        self.attempted: set[bytes] = set()
        self.acknowledged: set[bytes] = set()

    def __enter__(self) -> Self:
        self._work = [self._threads.submit(self._send, n) for n in range(self.thread_count)]
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._threads.shutdown()

    def go_on(self, count: int) -> None:
        """Returns when that many more were acknowledged."""
        goal = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= goal)

    def _send(self, thread: int) -> None:
        for number in itertools.count():
            if self._stop.is_set():
                return
            body = b"%d-%d" % (thread, number)
            self.attempted.add(body)
            if is_sent(self._producer, Outgoing(self._topic, body)):
                self.acknowledged.add(body)


def test_no_acknowledged_message_is_lost_when_the_broker_is_killed_under_load(
    java: JavaDriver, servers: Servers, new_name: NewName
) -> None:
    topic, group = new_name("topic"), new_name("group")
    create_topic(servers.broker.address, topic, 4)
    received: set[bytes] = set()
    with (
        JavaProducer(java, servers.names, new_name("producers")) as producer,
        JavaPushConsumer(
            java, servers.names, group, Subscription(topic), options=LIVELY
        ) as consumer,
    ):
        with Load(producer, topic) as load:
            for _ in range(3):
                load.go_on(random.randrange(50, 300))
                servers.broker.kill()
                servers.broker.start()
            load.go_on(100)

        def all_received() -> bool:
            received.update(bodies(consumer.received(1000, wait_s=0.2)))
            return load.acknowledged <= received

        # A 4.9.7 client may sit on a pull to the dead broker for 30 seconds.
        wait_until(all_received, patience_s=60)
    assert received <= load.attempted

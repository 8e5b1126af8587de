"""One cluster of two brokers, Apache's and ours, at Apache's name server and at ours."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from tests.support.apache import CLUSTER_NAME, ApacheBroker, ApacheCluster
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Queue,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]

QUEUE_COUNT = 2


class MixedCluster(NamedTuple):
    """Both brokers are at both name servers."""

    version: ApacheVersion
    apache_names: str
    our_names: str
    apache_broker: ApacheBroker
    our_broker: OurBroker

    @property
    def broker_names(self) -> set[str]:
        return {self.apache_broker.broker_name, self.our_broker.broker_name}

    def create_topic(self, topic: str) -> None:
        for broker in (self.apache_broker, self.our_broker):
            create_topic(broker.address, topic, QUEUE_COUNT)


@pytest.fixture(scope="module", params=list(ApacheVersion), ids=lambda version: f"apache-{version}")
def mixed(
    request: pytest.FixtureRequest,
    apache_clusters: Callable[[ApacheVersion], ApacheCluster],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[MixedCluster]:
    directory = tmp_path_factory.mktemp("mixed")
    apache_names = apache_clusters(request.param).name_server.address
    with (
        OurNameServer(directory / "names") as our_names,
        ApacheBroker(
            request.param,
            directory / "apache",
            apache_names,
            our_names.address,
            broker_name="mixed-apache",
        ) as apache_broker,
        OurBroker(
            directory / "ours", apache_names, our_names.address, broker_name="mixed-ours"
        ) as our_broker,
    ):
        yield MixedCluster(
            request.param, apache_names, our_names.address, apache_broker, our_broker
        )


@pytest.fixture(params=["apache_names", "our_names"])
def names(request: pytest.FixtureRequest, mixed: MixedCluster) -> str:
    """The name server that clients ask; they run once with each."""
    address: str = getattr(mixed, request.param)
    return address


@pytest.fixture
def java(mixed: MixedCluster, java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    """Clients of Apache's version, instead of every version."""
    return java_drivers(mixed.version)


@pytest.fixture
def topic(mixed: MixedCluster, new_name: NewName) -> str:
    """A topic with queues on both brokers."""
    topic = new_name("mixed")
    mixed.create_topic(topic)
    return topic


def send_to_all(producer: JavaProducer, topic: str) -> list[bytes]:
    queues = producer.queues(topic)
    for queue in queues:
        producer.send(Outgoing(topic, body_for(queue)), queue)
    return sorted(map(body_for, queues))


def body_for(queue: Queue) -> bytes:
    return f"{queue.broker_name} {queue.queue_id}".encode()


def test_a_client_produces_and_consumes_over_both(
    mixed: MixedCluster,
    java: JavaDriver,
    names: str,
    new_name: NewName,
    producer: JavaProducer,
    topic: str,
) -> None:
    assert {queue.broker_name for queue in producer.queues(topic)} == mixed.broker_names
    with JavaPushConsumer(java, names, new_name("group"), Subscription(topic)) as consumer:
        sent = send_to_all(producer, topic)
        assert len(sent) == 2 * QUEUE_COUNT
        assert sorted(bodies(consumer.received(len(sent)))) == sent


def test_orderly_consumers_share_the_queues_of_both(
    java: JavaDriver, names: str, new_name: NewName, producer: JavaProducer, topic: str
) -> None:
    group = new_name("group")
    with (
        JavaPushConsumer(java, names, group, Subscription(topic), orderly=True) as one,
        JavaPushConsumer(java, names, group, Subscription(topic), orderly=True) as other,
    ):
        wait_until(lambda: len(one.assignment(topic)) == len(other.assignment(topic)) == 2)
        sent = send_to_all(producer, topic)
        # Java asks every 20 s for a lock that another member had not given back yet.
        assert sorted(bodies(one.received(2, 90) + other.received(2, 90))) == sent


def test_messages_of_both_are_found(
    mixed: MixedCluster, producer: JavaProducer, puller: JavaPullConsumer, topic: str
) -> None:
    sent = send_to_all(producer, topic)
    for queue in puller.queues(topic):
        (message,) = puller.pull_or_wait(queue, 0).messages
        assert message.body == body_for(queue)
        assert message.offset_id is not None
        assert producer.view(topic, message.offset_id).body == message.body
    for queue in producer.queues(topic):
        producer.send(Outgoing(topic, body_for(queue), properties={"KEYS": "common"}), queue)
    wait_until(lambda: len(producer.query_by_key(topic, "common")) == len(sent))
    assert sorted(bodies(producer.query_by_key(topic, "common"))) == sent


def test_tools_see_both(mixed: MixedCluster, java: JavaDriver, names: str, topic: str) -> None:
    clusters = java.mqadmin("clusterList", "-n", names).output
    status = java.mqadmin("topicStatus", "-n", names, "-t", topic).output
    for broker in (mixed.apache_broker, mixed.our_broker):
        assert broker.address in clusters
        assert status.count(f"{broker.broker_name} ") == QUEUE_COUNT
    made = java.mqadmin("updateTopic", "-n", mixed.our_names, "-c", CLUSTER_NAME, "-t", topic)
    assert made.output.count("success") == 2


def test_when_our_broker_is_killed_apaches_takes_the_messages(
    mixed: MixedCluster, java: JavaDriver, names: str, producer: JavaProducer, topic: str
) -> None:
    send_to_all(producer, topic)
    mixed.our_broker.kill()
    try:
        for number in range(8):
            sent = producer.send(Outgoing(topic, b"%d" % number))
            assert sent.queue.broker_name == mixed.apache_broker.broker_name
    finally:
        mixed.our_broker.start()
    wait_until(
        lambda: (
            producer.send(Outgoing(topic, b"back")).queue.broker_name
            == mixed.our_broker.broker_name
        )
    )

"""Java clients that say the same in other ways: binary headers, long names, the fast port."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaLitePullConsumer,
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver
from tests.support.our_cluster import OurCluster

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]
NewTopic = Callable[..., str]

OTHER_DIALECT = {
    "rocketmq.serialize.type": "ROCKETMQ",
    # Sends have the header of the first protocol, with whole words.
    "org.apache.rocketmq.client.sendSmartMsg": "false",
}


@pytest.fixture(scope="module", params=list(ApacheVersion), ids=lambda version: f"client-{version}")
def java(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaDriver]:
    directory = tmp_path_factory.mktemp("dialect")
    with JavaDriver(request.param, directory, OTHER_DIALECT) as driver:
        yield driver


def test_binary_headers_send_and_pull(
    producer: JavaProducer, puller: JavaPullConsumer, our_topic: NewTopic
) -> None:
    topic = our_topic()
    properties = {"TAGS": "red", "KEYS": "invoice", "city": "Köln"}
    sent = producer.send(Outgoing(topic, b"single", properties=properties))
    producer.send_batch(Outgoing(topic, b"b1"), Outgoing(topic, b"b2"))
    producer.send_oneway(Outgoing(topic, b"oneway"))
    assert bodies(puller.pull_or_wait(sent.queue, 3).messages) == [b"oneway"]
    pulled = puller.pull(sent.queue, 0).messages
    assert bodies(pulled) == [b"single", b"b1", b"b2", b"oneway"]
    assert properties.items() <= pulled[0].properties.items()
    assert bodies(producer.query_by_key(topic, "invoice")) == [b"single"]
    assert producer.view(topic, sent.message_id).offset_id == sent.offset_id


def test_binary_headers_consume(
    java: JavaDriver, names: str, new_name: NewName, producer: JavaProducer, our_topic: NewTopic
) -> None:
    topic = our_topic(2)
    with (
        JavaPushConsumer(java, names, new_name("group"), Subscription(topic)) as push,
        JavaPushConsumer(java, names, new_name("group"), Subscription(topic), orderly=True) as one,
        JavaLitePullConsumer(java, names, new_name("group"), Subscription(topic)) as lite,
    ):
        producer.send(Outgoing(topic, b"x"))
        assert bodies(push.received(1)) == bodies(one.received(1)) == bodies(lite.poll()) == [b"x"]


def is_anybody_connected_to(port: int) -> bool:
    """Whether a socket of this machine is, as the kernel lists them."""
    tables = [Path("/proc/net") / name for name in ("tcp", "tcp6")]
    return any(f":{port:04X} 01 " in table.read_text() for table in tables)


def test_the_fast_port_takes_what_answers_at_once(
    ours: OurCluster,
    java: JavaDriver,
    names: str,
    new_name: NewName,
    puller: JavaPullConsumer,
    our_topic: NewTopic,
) -> None:
    topic = our_topic()
    fast_port = int(ours.broker.rpartition(":")[2]) - 2
    options = {"vipChannelEnabled": True}
    with JavaProducer(java, names, new_name("producers"), options=options) as producer:
        sent = producer.send(Outgoing(topic, b"by the side door", properties={"KEYS": "k"}))
        assert bodies(producer.query_by_key(topic, "k")) == [b"by the side door"]
        assert is_anybody_connected_to(fast_port)
    assert bodies(puller.pull(sent.queue, 0).messages) == [b"by the side door"]

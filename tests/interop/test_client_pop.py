"""Our pop consumer at a broker of Apache 5.5.0, and at ours."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet import Message, PopConsumer, Producer, QueueRef
from tests.support.apache import ApacheBroker
from tests.support.jars import ApacheVersion
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

TOPIC = "orders"
NAME = "broker-a"
# Apache redelivers up to ten seconds late.
PATIENT_S = 30.0


@pytest.fixture(params=["ours", "Apache"])
def name_server(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a broker with one queue of the topic."""
    with OurNameServer(tmp_path / "names") as names:
        directory = tmp_path / "broker"
        broker: OurBroker | ApacheBroker
        if request.param == "ours":
            broker = OurBroker(directory, names.address, broker_name=NAME)
        else:
            broker = ApacheBroker(
                ApacheVersion.V5_5_0,
                directory,
                names.address,
                broker_name=NAME,
                configuration={"timerWheelEnable": "true"},
            )
        with broker:
            create_topic(broker.address, TOPIC, 1)
            yield names.address


def test_messages_are_popped_acknowledged_and_redelivered(name_server: str) -> None:
    with (
        Producer(name_server, "shop") as producer,
        PopConsumer(name_server, "billing") as consumer,
    ):
        queue = QueueRef(TOPIC, NAME, 0)
        for body in (b"1", b"2"):
            producer.send(Message(TOPIC, body), queue=queue)
        first, second = consumer.receive(TOPIC, invisible_s=30)
        assert (first.body, second.body) == (b"1", b"2")
        consumer.ack(first)
        consumer.change_invisible(second, 1)
        (again,) = consumer.receive(TOPIC, wait_s=PATIENT_S)
        assert (again.body, again.topic, again.retry_count) == (b"2", TOPIC, 1)
        consumer.ack(again)


def test_ordered_messages_wait_for_earlier_ones(name_server: str) -> None:
    with (
        Producer(name_server, "shop") as producer,
        PopConsumer(name_server, "ordering", ordered=True) as consumer,
    ):
        queue = QueueRef(TOPIC, NAME, 0)
        for body in (b"1", b"2"):
            message = Message(TOPIC, body, properties={"__SHARDINGKEY": "a"})
            producer.send(message, queue=queue)
        (first,) = consumer.receive(TOPIC, 1)
        assert consumer.receive(TOPIC, wait_s=0) == []
        consumer.ack(first)
        (second,) = consumer.receive(TOPIC, wait_s=PATIENT_S)
        assert second.body == b"2"
        consumer.change_invisible(second, 1)
        (again,) = consumer.receive(TOPIC, wait_s=PATIENT_S)
        assert (again.body, again.retry_count) == (b"2", 1)

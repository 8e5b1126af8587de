"""Our pop consumer at a broker of Apache 5.5.0, and at ours."""

import pytest

from roquet import Message, PopConsumer, Producer, QueueRef
from tests.support.client_servers import PopServer

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

# Apache redelivers up to ten seconds late.
PATIENT_S = 30.0


def test_messages_are_popped_acknowledged_and_redelivered(
    pop_server: PopServer, pop_topic: str
) -> None:
    name_server, _, broker_name = pop_server
    with (
        Producer(name_server, "shop") as producer,
        PopConsumer(name_server, "billing") as consumer,
    ):
        queue = QueueRef(pop_topic, broker_name, 0)
        for body in (b"1", b"2"):
            producer.send(Message(pop_topic, body), queue=queue)
        first, second = consumer.receive(pop_topic, invisible_s=30)
        assert (first.body, second.body) == (b"1", b"2")
        consumer.ack(first)
        consumer.change_invisible(second, 1)
        (again,) = consumer.receive(pop_topic, wait_s=PATIENT_S)
        assert (again.body, again.topic, again.retry_count) == (b"2", pop_topic, 1)
        consumer.ack(again)


def test_ordered_messages_wait_for_earlier_ones(pop_server: PopServer, pop_topic: str) -> None:
    name_server, _, broker_name = pop_server
    with (
        Producer(name_server, "shop") as producer,
        PopConsumer(name_server, "ordering", ordered=True) as consumer,
    ):
        queue = QueueRef(pop_topic, broker_name, 0)
        for body in (b"1", b"2"):
            message = Message(pop_topic, body, properties={"__SHARDINGKEY": "a"})
            producer.send(message, queue=queue)
        (first,) = consumer.receive(pop_topic, 1)
        assert consumer.receive(pop_topic, wait_s=0) == []
        consumer.ack(first)
        (second,) = consumer.receive(pop_topic, wait_s=PATIENT_S)
        assert second.body == b"2"
        consumer.change_invisible(second, 1)
        (again,) = consumer.receive(pop_topic, wait_s=PATIENT_S)
        assert (again.body, again.retry_count) == (b"2", 1)

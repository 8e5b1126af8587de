"""Our pop consumer at a broker of Apache 5.5.0, and at ours."""

from datetime import timedelta

import pytest

from roquet import (
    Message,
    PopConsumer,
    Producer,
    PushConsumer,
    QueueRef,
    ReceivedMessage,
    RetryLater,
)
from tests.support.client_servers import PopServer
from tests.support.eventually import wait_until

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


def test_a_push_consumer_pops_and_has_its_failures_redelivered(
    pop_server: PopServer, pop_topic: str
) -> None:
    name_server = pop_server.name_server
    bodies = {b"%d" % number for number in range(20)}
    done: set[bytes] = set()
    tries: list[int] = []

    def listen(message: ReceivedMessage) -> None:
        if message.body == b"7":
            tries.append(message.retry_count)
            if message.retry_count == 0:
                raise RetryLater(timedelta(seconds=1))
        done.add(message.body)

    # More members than queues, which the broker shares out.
    members = [PushConsumer(name_server, "pushed", listen, mode="pop") for _ in range(2)]
    for member in members:
        member.subscribe(pop_topic)
    with members[0], members[1], Producer(name_server, "shop") as producer:
        for body in bodies:
            producer.send(Message(pop_topic, body))
        wait_until(lambda: done == bodies, PATIENT_S)
    assert tries == [0, 1]
    with PopConsumer(name_server, "pushed") as consumer:
        # Everything was acknowledged.
        assert consumer.receive(pop_topic, wait_s=1) == []

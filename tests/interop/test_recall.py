"""A real Java producer of 5.5.0 calls messages back that wait at our broker."""

from collections.abc import Callable

import pytest

from tests.support.jars import ApacheVersion
from tests.support.java_client import JavaProducer, JavaPushConsumer, Outgoing, Subscription, bodies
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]


@pytest.fixture
def java(java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    """Clients before 5.0 cannot recall."""
    return java_drivers(ApacheVersion.V5_5_0)


def test_a_recalled_message_is_not_delivered(
    java: JavaDriver,
    producer: JavaProducer,
    names: str,
    our_topic: Callable[..., str],
    new_name: Callable[[str], str],
) -> None:
    topic = our_topic(1)
    with JavaPushConsumer(java, names, new_name("group"), Subscription(topic)) as consumer:
        timed = {"TIMER_DELAY_MS": "3000"}
        sent = producer.send(Outgoing(topic, b"recalled", properties=timed))
        assert sent.recall_handle
        assert producer.recall(topic, sent.recall_handle) == sent.message_id
        producer.send(Outgoing(topic, b"later", properties={"TIMER_DELAY_MS": "4000"}))
        assert bodies(consumer.received(1, wait_s=20.0)) == [b"later"]

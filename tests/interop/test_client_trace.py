"""Traces of ours as mqadmin reads them, and traces of Java clients as we read them."""

from collections.abc import Callable
from typing import Unpack

import pytest

from roquet import (
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    StartFrom,
    TransactionProducer,
    TransactionState,
)
from roquet.client.trace.tracing import PubRecord, parse_traces
from roquet.protocol.names import TRACE_TOPIC
from tests.support.client_servers import ClientServer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import ClientSettings, JavaProducer, Outgoing
from tests.support.java_driver import JavaDriver, JavaFailure
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]

TIMEOUT_S = 20.0


class TracedProducer(JavaProducer):
    def __init__(
        self, driver: JavaDriver, name_server: str, group: str, **settings: Unpack[ClientSettings]
    ) -> None:
        super().__init__(driver, name_server, group, **settings)
        self._start_arguments["traced"] = True


@pytest.fixture
def java(server: ClientServer, java_drivers: Callable[[ApacheVersion], JavaDriver]) -> JavaDriver:
    return java_drivers(server.java_version)


def is_known(producer: JavaProducer, topic: str) -> bool:
    try:
        return bool(producer.queues(topic))
    except JavaFailure:
        return False


def shown(java: JavaDriver, server: ClientServer, message_id: str) -> str:
    words = ("queryMsgTraceById", "-n", server.name_server, "-i", message_id)
    return java.mqadmin(*words).output


def test_mqadmin_shows_what_we_sent(
    server: ClientServer, java: JavaDriver, new_name: NewName
) -> None:
    topic, group = new_name("topic"), new_name("traced")
    create_topic(server.broker, topic)
    with Producer(server.name_server, group, trace=True) as producer:
        sent = producer.send(Message(topic, b"followed", tags="red"), timeout_s=TIMEOUT_S)
    wait_until(lambda: "Pub" in shown(java, server, sent.message_id))
    output = shown(java, server, sent.message_id)
    assert group in output
    assert "success" in output


def test_mqadmin_shows_the_end_of_a_transaction(
    server: ClientServer, java: JavaDriver, new_name: NewName
) -> None:
    topic, group = new_name("topic"), new_name("traced")
    create_topic(server.broker, topic)
    with TransactionProducer(
        server.name_server, group, check=lambda _: TransactionState.UNKNOWN, trace=True
    ) as producer:
        ended = producer.send_in_transaction(
            Message(topic, b"followed"), lambda _: TransactionState.COMMIT, timeout_s=TIMEOUT_S
        )
    wait_until(lambda: "Pub" in shown(java, server, ended.id))
    assert group in shown(java, server, ended.id)


def test_mqadmin_shows_what_we_consumed(
    server: ClientServer, java: JavaDriver, new_name: NewName
) -> None:
    topic, group = new_name("topic"), new_name("traced")
    create_topic(server.broker, topic)
    consumed: list[ReceivedMessage] = []
    consumer = PushConsumer(
        server.name_server, group, consumed.append, trace=True, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic)
    with Producer(server.name_server, new_name("producers"), trace=True) as producer, consumer:
        sent = producer.send(Message(topic, b"followed"), timeout_s=TIMEOUT_S)
        wait_until(lambda: consumed, TIMEOUT_S)
    # Only what is sent and consumed is shown.
    wait_until(lambda: group in shown(java, server, sent.message_id))
    assert "Sub" in shown(java, server, sent.message_id)


def test_we_read_what_java_clients_write(
    server: ClientServer, java: JavaDriver, new_name: NewName
) -> None:
    topic, group = new_name("topic"), new_name("traced")
    create_topic(server.broker, topic)
    with TracedProducer(java, server.name_server, group) as producer:
        message = Outgoing(topic, b"followed", properties={"KEYS": "parcel", "TAGS": "red"})
        sent = producer.send(message)
        wait_until(lambda: is_known(producer, TRACE_TOPIC))  # The first record makes it.
        (trace,) = producer.query_by_key(TRACE_TOPIC, sent.message_id)
    (record,) = (
        each for each in parse_traces(trace.body.decode()) if each.message_id == sent.message_id
    )
    assert isinstance(record, PubRecord)
    assert (record.group, record.topic, record.tags, record.keys) == (group, topic, "red", "parcel")
    assert (record.offset_id, record.body_size) == (sent.offset_id, 8)
    assert record.is_success

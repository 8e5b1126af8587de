"""Our transactions at Apache's brokers and at ours: one contract, and a Java consumer judges."""

from collections.abc import Callable, Iterator

import pytest

from roquet import Message, ReceivedMessage, TransactionProducer, TransactionState
from tests.support.apache import ApacheCluster
from tests.support.client_servers import ClientServer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaPullConsumer,
    JavaTransactionProducer,
    Outgoing,
    Queue,
    bodies,
)
from tests.support.java_driver import JavaDriver
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]

TIMEOUT_S = 20.0


@pytest.fixture
def puller(
    server: ClientServer,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    new_name: NewName,
) -> Iterator[JavaPullConsumer]:
    driver = java_drivers(server.java_version)
    with JavaPullConsumer(driver, server.name_server, new_name("pullers")) as started:
        yield started


class Ledger:
    """What a program that answers brokers knows of its transactions."""

    def __init__(self) -> None:
        self.asked: list[ReceivedMessage] = []
        self.state = TransactionState.UNKNOWN

    def check(self, message: ReceivedMessage) -> TransactionState:
        self.asked.append(message)
        return self.state


def test_transactions_end_as_their_block_does(
    server: ClientServer, puller: JavaPullConsumer, new_name: NewName
) -> None:
    topic = new_name("topic")
    create_topic(server.broker, topic)
    message = Message(topic, b"kept", tags="red", keys=("k",), properties={"city": "Köln"})
    with TransactionProducer(
        server.name_server, new_name("producers"), check=Ledger().check
    ) as producer:
        with (
            pytest.raises(ZeroDivisionError),
            producer.transaction(Message(topic, b"dropped"), timeout_s=TIMEOUT_S),
        ):
            raise ZeroDivisionError
        with producer.transaction(message, timeout_s=TIMEOUT_S) as transaction:
            queue = transaction.receipt.queue
            java_queue = Queue(topic, queue.broker_name, 0)
            assert puller.max_offset(java_queue) == 0
        (kept,) = puller.pull_or_wait(java_queue, 0).messages
    assert (kept.body, kept.message_id) == (b"kept", transaction.id)
    assert {"TAGS": "red", "KEYS": "k", "city": "Köln"}.items() <= kept.properties.items()


def test_a_broker_of_apache_asks_until_the_answer_is_known(
    apache: ApacheCluster,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    new_name: NewName,
) -> None:
    topic, names = new_name("topic"), apache.name_server.address
    create_topic(apache.broker.address, topic)
    ledger = Ledger()
    with (
        JavaPullConsumer(java_drivers(apache.version), names, new_name("pullers")) as puller,
        TransactionProducer(
            names, new_name("producers"), check=ledger.check, heartbeat_interval_s=0.5
        ) as producer,
    ):
        with producer.transaction(Message(topic, b"asked"), timeout_s=TIMEOUT_S) as transaction:
            transaction.outcome = TransactionState.UNKNOWN
        wait_until(lambda: ledger.asked)
        ledger.state = TransactionState.COMMIT
        queue = Queue(topic, apache.broker.broker_name, 0)
        assert bodies(puller.pull_or_wait(queue, 0).messages) == [b"asked"]
    asked = ledger.asked[0]
    assert (asked.topic, asked.body, asked.message_id) == (topic, b"asked", transaction.id)


def test_we_answer_for_a_java_producer_of_our_group_that_is_gone(
    apache: ApacheCluster,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    new_name: NewName,
) -> None:
    topic, group, names = new_name("topic"), new_name("producers"), apache.name_server.address
    create_topic(apache.broker.address, topic)
    java = java_drivers(apache.version)
    with JavaTransactionProducer(java, names, group) as theirs:
        theirs.send(Outgoing(topic, b"inherited"), "UNKNOW")
    ledger = Ledger()
    ledger.state = TransactionState.COMMIT
    with (
        JavaPullConsumer(java, names, new_name("pullers")) as puller,
        TransactionProducer(names, group, check=ledger.check, heartbeat_interval_s=0.5) as producer,
    ):
        producer.send_in_transaction(
            Message(topic, b"own"), lambda _: TransactionState.ROLLBACK, timeout_s=TIMEOUT_S
        )
        queue = Queue(topic, apache.broker.broker_name, 0)
        assert bodies(puller.pull_or_wait(queue, 0).messages) == [b"inherited"]

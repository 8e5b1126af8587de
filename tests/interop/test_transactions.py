"""Transactions of real Java producers at our broker, and over a directory that changes hands."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Unpack

import pytest

from roquet.protocol.codes import PullFlag, RequestCode
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import split_records
from tests.support.apache import ApacheBroker
from tests.support.blocking_peer import BlockingPeer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    ClientSettings,
    JavaPullConsumer,
    JavaTransactionProducer,
    Outgoing,
    Queue,
    Received,
    bodies,
)
from tests.support.java_driver import JavaDriver
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("our-broker")]

NewName = Callable[[str], str]

COMMIT, ROLLBACK, UNKNOWN = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"
CHECK_COUNT_MAX = 6
SETTINGS = {
    "transactionCheckInterval": "500",
    "transactionTimeOut": "500",
    "transactionCheckMax": str(CHECK_COUNT_MAX),
}
# Producers tell a broker who they are with the next heartbeat; by default twice a minute.
OPTIONS = {"heartbeatBrokerInterval": 500}


class Deputy(JavaTransactionProducer):
    """Commits transactions of other members of its group, whatever they are."""

    def __init__(
        self, driver: JavaDriver, name_server: str, group: str, **settings: Unpack[ClientSettings]
    ) -> None:
        super().__init__(driver, name_server, group, **settings)
        self._start_arguments["stateOfOthers"] = COMMIT


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNameServer]:
    with OurNameServer(tmp_path_factory.mktemp("namesrv")) as server:
        yield server


@pytest.fixture(scope="module")
def broker(
    name_server: OurNameServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[OurBroker]:
    """Our broker, quick to ask."""
    directory = tmp_path_factory.mktemp("transactions")
    with OurBroker(directory, name_server.address, configuration=SETTINGS) as server:
        yield server


@pytest.fixture
def names(name_server: OurNameServer) -> str:
    return name_server.address


@pytest.fixture
def queue(broker: OurBroker, new_name: NewName) -> Queue:
    topic = new_name("topic")
    create_topic(broker.address, topic)
    return Queue(topic, broker.broker_name, 0)


def test_transactions_end_as_their_producer_says(
    java: JavaDriver, names: str, puller: JavaPullConsumer, queue: Queue, new_name: NewName
) -> None:
    properties = {"TAGS": "red", "KEYS": "k", "city": "Köln"}
    message = Outgoing(queue.topic, b"asked", properties=properties)
    with JavaTransactionProducer(java, names, new_name("producers")) as producer:
        unknown = producer.send(message, UNKNOWN, COMMIT)
        producer.send(Outgoing(queue.topic, b"dropped"), ROLLBACK)
        producer.send(Outgoing(queue.topic, b"done"), COMMIT)
        (check,) = producer.checks(1)
        (asked,) = puller.pull_or_wait(queue, 1).messages
    assert (check.topic, check.queue_id, check.body) == (queue.topic, 0, b"asked")
    assert check.properties["UNIQ_KEY"] == unknown.message_id
    assert (asked.message_id, asked.body) == (unknown.message_id, b"asked")
    assert properties.items() <= asked.properties.items()
    assert bodies(puller.pull(queue, 0).messages) == [b"done", b"asked"]


def test_a_producer_that_does_not_know_is_asked_again(
    java: JavaDriver, names: str, puller: JavaPullConsumer, queue: Queue, new_name: NewName
) -> None:
    with JavaTransactionProducer(java, names, new_name("producers")) as producer:
        producer.send(Outgoing(queue.topic, b"at last"), UNKNOWN, UNKNOWN, COMMIT)
        first, second = (check_count(check) for check in producer.checks(2))
        assert bodies(puller.pull_or_wait(queue, 0).messages) == [b"at last"]
    # Before its first heartbeat a producer cannot be asked, but that counts.
    assert second == first + 1


def check_count(message: Received) -> int:
    return int(message.properties["TRANSACTION_CHECK_TIMES"])


def test_a_producer_that_never_knows_is_given_up(
    java: JavaDriver,
    names: str,
    broker: OurBroker,
    puller: JavaPullConsumer,
    queue: Queue,
    new_name: NewName,
) -> None:
    with JavaTransactionProducer(java, names, new_name("producers")) as producer:
        sent = producer.send(Outgoing(queue.topic, b"lost"), UNKNOWN)
        wait_until(lambda: sent.message_id in given_up(broker))
    properties = given_up(broker)[sent.message_id].properties
    assert properties["TRANSACTION_CHECK_TIMES"] == str(CHECK_COUNT_MAX)
    assert puller.max_offset(queue) == 0


def given_up(broker: OurBroker) -> dict[str, StoredMessage]:
    """By id. Java's clients would forget a broker of whose topics they use none."""
    header = PullMessageHeader(
        consumer_group="tools",
        topic="TRANS_CHECK_MAX_TIME_TOPIC",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=int(PullFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        sub_version=0,
        subscription="*",
    )
    with BlockingPeer(broker.address) as peer:
        reply = peer.call(RequestCode.PULL_MESSAGE, header)
    return {message.message_id: message for message in split_records(reply.body)}


def test_when_the_producer_is_gone_another_of_its_group_answers(
    java: JavaDriver, names: str, puller: JavaPullConsumer, queue: Queue, new_name: NewName
) -> None:
    group = new_name("producers")
    with JavaTransactionProducer(java, names, group, options=OPTIONS) as producer:
        producer.send(Outgoing(queue.topic, b"inherited"), UNKNOWN)
    with Deputy(java, names, group, options=OPTIONS) as deputy:
        # It knows our broker only when it has sent something.
        deputy.send(Outgoing(queue.topic, b"own"), ROLLBACK)
        (check,) = deputy.checks(1)
        assert check.body == b"inherited"
        assert bodies(puller.pull_or_wait(queue, 0).messages) == [b"inherited"]


def test_open_transactions_survive_a_kill(
    java: JavaDriver, name_server: OurNameServer, tmp_path: Path, new_name: NewName
) -> None:
    broker = OurBroker(
        tmp_path, name_server.address, broker_name=new_name("mortal"), configuration=SETTINGS
    )
    names = name_server.address
    with broker:
        create_topic(broker.address, "Survivors")
        queue = Queue("Survivors", broker.broker_name, 0)
        with JavaTransactionProducer(
            java, names, new_name("producers"), options=OPTIONS
        ) as producer:
            producer.send(Outgoing("Survivors", b"done"), COMMIT)
            producer.send(Outgoing("Survivors", b"asked"), UNKNOWN, COMMIT)
            broker.kill()
            broker.start()
            with JavaPullConsumer(java, names, new_name("pullers")) as puller:
                assert bodies(puller.pull_or_wait(queue, 1).messages) == [b"asked"]
                assert_nothing_else_comes(producer, puller, queue, [b"done", b"asked"], list)


# --- a directory that changes hands ---


@pytest.fixture(params=list(ApacheVersion), ids=lambda version: f"apache-{version}")
def version(request: pytest.FixtureRequest) -> ApacheVersion:
    found = request.param
    assert isinstance(found, ApacheVersion)
    return found


@dataclass
class Heirloom:
    """Two brokers with one directory and one name, of which one serves at a time."""

    ours: OurBroker
    theirs: ApacheBroker
    java: JavaDriver
    names: str
    queue: Queue


@pytest.fixture
def heirloom(
    version: ApacheVersion,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    name_server: OurNameServer,
    tmp_path: Path,
    new_name: NewName,
) -> Heirloom:
    names = name_server.address
    name = new_name("heirloom")
    # However long a broker takes to stop, it does not give up meanwhile.
    settings = SETTINGS | {"transactionCheckMax": "1000"}
    theirs = ApacheBroker(
        version, tmp_path / "apache", names, broker_name=name, configuration=settings
    )
    ours = OurBroker(tmp_path / "ours", names, broker_name=name, configuration=settings)
    ours.store_directory = theirs.store_directory
    return Heirloom(ours, theirs, java_drivers(version), names, Queue(new_name("topic"), name, 0))


def test_apache_goes_on_with_our_transactions(heirloom: Heirloom) -> None:
    with heirloom.ours as broker:
        leave_transactions(heirloom, broker)
    # Apache asks again while an answer is on its way, and then delivers twice.
    with heirloom.theirs:
        assert_transactions_end(heirloom, each_once=unique)


def test_we_go_on_with_the_transactions_of_a_killed_apache(heirloom: Heirloom) -> None:
    with heirloom.theirs as broker:
        leave_transactions(heirloom, broker)
    with heirloom.ours:
        assert_transactions_end(heirloom, each_once=list)


def leave_transactions(heirloom: Heirloom, broker: OurBroker | ApacheBroker) -> None:
    """One of each kind; about the open one its producer was asked already, and knew nothing."""
    topic = heirloom.queue.topic
    create_topic(broker.address, topic)
    with JavaTransactionProducer(
        heirloom.java, heirloom.names, "bequeathers", options=OPTIONS
    ) as producer:
        producer.send(Outgoing(topic, b"done"), COMMIT)
        producer.send(Outgoing(topic, b"dropped"), ROLLBACK)
        producer.send(Outgoing(topic, b"asked"), UNKNOWN)
        # A busy broker of Apache asks about one that has just ended, too.
        assert b"asked" in {check.body for check in producer.checks(2)}


def unique(found: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(found))


def assert_transactions_end(
    heirloom: Heirloom, each_once: Callable[[list[bytes]], list[bytes]]
) -> None:
    java, names, queue = heirloom.java, heirloom.names, heirloom.queue
    with JavaPullConsumer(java, names, "heirs") as puller:
        # A busy broker of Apache may have delivered it twice.
        left = bodies(puller.pull_or_wait(queue, 0).messages)
        assert set(left) == {b"done"}
        with Deputy(java, names, "bequeathers", options=OPTIONS) as deputy:
            deputy.send(Outgoing(queue.topic, b"own"), ROLLBACK)  # Now our broker knows it.
            assert each_once(bodies(puller.pull_or_wait(queue, len(left)).messages)) == [b"asked"]
            expected = each_once([*left, b"asked"])
            assert_nothing_else_comes(deputy, puller, queue, expected, each_once)


def assert_nothing_else_comes(
    producer: JavaTransactionProducer,
    puller: JavaPullConsumer,
    queue: Queue,
    expected: list[bytes],
    each_once: Callable[[list[bytes]], list[bytes]],
) -> None:
    """A transaction that starts now is asked about after all that are older."""
    producer.send(Outgoing(queue.topic, b"last"), UNKNOWN, COMMIT)
    wait_until(lambda: b"last" in bodies(puller.pull(queue, 0).messages))
    assert each_once(bodies(puller.pull(queue, 0).messages)) == [*expected, b"last"]

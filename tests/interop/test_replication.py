"""Masters and slaves, Apache's and ours: the copy is exact, and readers outlive the master.

Apache 5.5.0 replicates as 4.9 does unless it is asked to elect masters.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from roquet import Message, Producer, PullConsumer, StartFrom
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.bodies.offsets import ConsumerOffsetTable
from roquet.protocol.codes import RequestCode
from tests.support.apache import ApacheBroker
from tests.support.blocking_peer import BlockingPeer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import JavaPushConsumer, Subscription, bodies
from tests.support.java_driver import JavaDriver
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic, has_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("replication")]

NewName = Callable[[str], str]
Server = ApacheBroker | OurBroker

OURS = "ours"
PAIRS = [
    (ApacheVersion.V4_9_7, OURS),
    (OURS, ApacheVersion.V4_9_7),
    (OURS, OURS),
    (ApacheVersion.V5_5_0, OURS),
    pytest.param(
        (OURS, ApacheVersion.V5_5_0),
        marks=pytest.mark.full("a slave of 5.5.0 asks for tables once a minute"),
    ),
]
BROKER = "broker-a"
COUNT = 300


class Pair(NamedTuple):
    names: str
    master: Server
    slave: Server


def made(kind: str, directory: Path, names: str, configuration: dict[str, str]) -> Server:
    if kind == OURS:
        return OurBroker(directory, names, broker_name=BROKER, configuration=configuration)
    return ApacheBroker(
        ApacheVersion(kind), directory, names, broker_name=BROKER, configuration=configuration
    )


@pytest.fixture(params=PAIRS, ids=lambda pair: f"master-{pair[0]}-slave-{pair[1]}")
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """A master that runs, and a slave that does not yet."""
    master_kind, slave_kind = request.param
    with ExitStack() as running:
        names = running.enter_context(OurNameServer(tmp_path / "names"))
        slave = made(
            slave_kind,
            tmp_path / "slave",
            names.address,
            {"brokerRole": "SLAVE", "brokerId": "1", "slaveReadEnable": "true"},
        )
        master = made(master_kind, tmp_path / "master", names.address, {"slaveReadEnable": "true"})
        master.start()
        # Killed at the end: Apache's take seconds to stop.
        running.callback(master.kill)
        running.callback(slave.kill)
        yield Pair(names.address, master, slave)


def log_end(server: Server) -> int:
    """-1 of an Apache broker that has just started, and answers without a body."""
    with BlockingPeer(server.address) as peer:
        reply = peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
    table = read_body(KvTable, reply.body).table if reply.body else {}
    return int(table.get("commitLogMaxOffset", -1))


def committed(server: Server, topic: str, group: str) -> dict[int, int]:
    with BlockingPeer(server.address) as peer:
        reply = peer.call(RequestCode.GET_ALL_CONSUMER_OFFSET)
    return read_body(ConsumerOffsetTable, reply.body).offset_table.get(f"{topic}@{group}", {})


def saved(server: Server, topic: str, group: str) -> dict[int, int]:
    path = server.store_directory / "config" / "consumerOffset.json"
    if not path.exists():
        return {}
    return read_body(ConsumerOffsetTable, path.read_bytes()).offset_table.get(
        f"{topic}@{group}", {}
    )


def written_log(server: Server) -> dict[str, bytes]:
    """The files of the log that have anything in them."""
    paths = sorted((server.store_directory / "commitlog").iterdir())
    contents = {path.name: path.read_bytes() for path in paths}
    return {name: content for name, content in contents.items() if any(content)}


def send(pair: Pair, topic: str, first: int, count: int = COUNT) -> list[bytes]:
    sent = [b"%06d" % number + bytes(1000) for number in range(first, first + count)]
    with Producer(pair.names, "producers") as producer:
        for body in sent:
            producer.send(Message(topic, body))
    return sent


def consume(pair: Pair, topic: str, group: str, count: int) -> list[bytes]:
    """So many messages, committed."""
    found: list[bytes] = []
    with PullConsumer(pair.names, group, start_from=StartFrom.FIRST) as consumer:
        consumer.subscribe(topic)

        def is_done() -> bool:
            found.extend(each.body for each in consumer.poll(timeout_s=1.0))
            return len(found) >= count

        wait_until(is_done)
        consumer.commit()
    return found


def until_copied(pair: Pair) -> None:
    wait_until(lambda: log_end(pair.slave) == log_end(pair.master))


def test_the_copy_is_exact_and_readers_survive_their_master(
    pair: Pair, java_drivers: Callable[[ApacheVersion], JavaDriver], new_name: NewName
) -> None:
    topic, group = new_name("topic"), new_name("group")
    create_topic(pair.master.address, topic, 2)
    sent = send(pair, topic, 0)
    pair.slave.start()
    # Under load, too.
    sent += send(pair, topic, COUNT)
    until_copied(pair)
    assert written_log(pair.slave) == written_log(pair.master)
    half = consume(pair, topic, group, COUNT)
    at_master = committed(pair.master, topic, group)
    wait_until(lambda: has_topic(pair.slave.address, topic))
    wait_until(lambda: committed(pair.slave, topic, group) == at_master)
    printed = java_drivers(ApacheVersion.V4_9_7).mqadmin("clusterList", "-n", pair.names).output
    for broker_id, server in ((0, pair.master), (1, pair.slave)):
        assert [BROKER, str(broker_id), server.address] in [
            line.split()[1:4] for line in printed.splitlines()
        ]

    # What a master has not saved when it is killed, it has forgotten when it is back.
    wait_until(lambda: saved(pair.master, topic, group) == at_master)
    pair.master.kill()
    rest = consume(pair, topic, group, len(sent) - len(half))
    # What was fetched ahead and not handed out comes again.
    assert {*half, *rest} == {*sent}
    java = java_drivers(ApacheVersion.V4_9_7)
    with JavaPushConsumer(java, pair.names, new_name("java"), Subscription(topic)) as consumer:
        assert sorted(bodies(consumer.received(len(sent)))) == sorted(sent)
    at_slave = committed(pair.slave, topic, group)
    assert sum(at_slave.values()) == len(sent)

    pair.master.start()
    sent += send(pair, topic, 2 * COUNT, 10)
    until_copied(pair)
    assert written_log(pair.slave) == written_log(pair.master)
    if isinstance(pair.slave, OurBroker):
        # The master learns what it missed, and no member reads again what was done.
        wait_until(lambda: committed(pair.master, topic, group) == at_slave)
        assert sorted(consume(pair, topic, group, 10)) == sorted(sent[-10:])

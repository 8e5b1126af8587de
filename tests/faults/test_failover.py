"""Real brokers and a real etcd: the master is lost, and nothing that it acknowledged is."""

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import pytest

from roquet import Admin, Message, Producer
from roquet.client.errors import ClientError
from roquet.protocol.codes import RequestCode, ResponseCode
from tests.support.blocking_peer import BlockingPeer, PeerGone
from tests.support.common_requests import common_send_header
from tests.support.etcd import RealEtcd
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication-2")]

TOPIC = "orders"
LEASE_S = 2
MANY = 200


class Load:
    """Sends one message after the other, and knows which were acknowledged."""

    def __init__(self, names: str) -> None:
        self._names = names
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send_on)
        self.acknowledged: list[bytes] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def until_more(self, count: int) -> None:
        end = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= end, 90.0)

    def _send_on(self) -> None:
        number = 0
        with Producer(self._names, "load") as producer:
            while not self._is_over.wait(0.001):
                number += 1
                body = b"message %06d of the load" % number
                # What fails may be stored or not; it was not acknowledged.
                with suppress(ClientError):
                    producer.send(Message(TOPIC, body))
                    self.acknowledged.append(body)


class Pair:
    def __init__(self, directory: Path, names: str, etcd: str) -> None:
        secret = directory / "secret"
        secret.write_text("a secret of the brokers of one name\n")
        self.names = names
        self.brokers = [
            OurBroker(
                directory / f"broker-{number}",
                names,
                broker_name="broker-a",
                configuration={
                    "brokerId": str(number),
                    "brokerRole": "SYNC_MASTER" if number == 1 else "SLAVE",
                    "replication.secretFile": str(secret),
                    "replication.acknowledge": "quorum",
                    "replication.copies": "2",
                    "replication.etcd": etcd,
                    "replication.leaseSeconds": str(LEASE_S),
                },
            )
            for number in (1, 2)
        ]

    def until_in_sync(self, master: OurBroker) -> None:
        wait_until(lambda: master.runtime_info.get("inSyncSet") == "1,2")

    def until_copied(self) -> None:
        one, two = self.brokers
        wait_until(lambda: 0 <= one.log_end == two.log_end)


def log_of(broker: OurBroker) -> bytes:
    paths = sorted((broker.store_directory / "commitlog").iterdir())
    return b"".join(path.read_bytes() for path in paths).rstrip(b"\0")


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with ExitStack() as running:
        etcd = running.enter_context(RealEtcd(tmp_path / "etcd"))
        names = running.enter_context(OurNameServer(tmp_path / "names"))
        pair = Pair(tmp_path, names.address, etcd.address)
        for broker in pair.brokers:
            broker.start()
            running.callback(broker.kill)
        pair.until_in_sync(pair.brokers[0])
        create_topic(pair.brokers[0].address, TOPIC)
        yield pair


def test_a_killed_master_is_replaced_and_returns_as_a_slave(pair: Pair) -> None:
    one, two = pair.brokers
    with Load(pair.names) as load:
        load.until_more(MANY)
        one.kill()
        wait_until(lambda: two.runtime_info.get("brokerRole") == "SYNC_MASTER")
        one.start()
        pair.until_in_sync(two)
        load.until_more(MANY)
    pair.until_copied()
    assert one.runtime_info["brokerRole"] == "SLAVE"
    assert one.runtime_info["replicationEpoch"] == two.runtime_info["replicationEpoch"]
    with Admin(pair.names) as admin:
        assert {each.address: each.is_master for each in admin.brokers()} == {
            one.address: False,
            two.address: True,
        }
    log = log_of(two)
    assert [body for body in load.acknowledged if body not in log] == []
    assert log_of(one) == log


def test_a_master_that_stood_still_acknowledges_nothing_any_more(pair: Pair) -> None:
    one, two = pair.brokers
    answers: list[int | None] = []
    with BlockingPeer(one.address) as peer:
        peer.call(RequestCode.SEND_MESSAGE_V2, common_send_header(TOPIC, 0), b"before")
        os.kill(one.process_id, signal.SIGSTOP)
        # It lies in the socket of a process that will take itself for the master when it wakes.
        late = threading.Thread(target=lambda: answers.append(answer_to(peer, b"late")))
        late.start()
        wait_until(lambda: two.runtime_info.get("brokerRole") == "SYNC_MASTER")
        os.kill(one.process_id, signal.SIGCONT)
        late.join()
    assert answers != [ResponseCode.SUCCESS]
    wait_until(lambda: one.runtime_info.get("followedMaster"))
    assert "stepping down as master of epoch" in one.log_tail()
    pair.until_in_sync(two)
    with Producer(pair.names, "after") as producer:
        producer.send(Message(TOPIC, b"after"))
    pair.until_copied()
    assert log_of(one) == log_of(two)
    # Whatever only the old master had was not thrown away.
    kept = (one.store_directory / "divergent").glob("*")
    assert b"late" in log_of(two) + b"".join(path.read_bytes() for path in kept)


def answer_to(peer: BlockingPeer, body: bytes) -> int | None:
    """None without one."""
    try:
        return peer.call(RequestCode.SEND_MESSAGE_V2, common_send_header(TOPIC, 0), body).code
    except (PeerGone, OSError):
        return None

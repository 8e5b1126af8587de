"""How long senders are without a master: of three brokers with etcd, the elected one is killed.

From the kill to the first send that its successor acknowledges; the sender is a producer of ours,
which has to notice, to find the successor in the routes, and to try again.
"""

import time
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median

from roquet import Message, Producer
from roquet.client.errors import ClientError
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import RequestCode
from tests.support.blocking_peer import BlockingPeer, PeerGone
from tests.support.etcd import RealEtcd
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.topics import create_topic

LEASE_S = 4
REPLICA_IDS = (1, 2, 3)
TOPIC = "bench"
PATIENCE_S = 120.0
TRY_AGAIN_S = 0.02


def measure_outages(directory: Path, kill_count: int) -> list[float]:
    """In seconds, one for each kill."""
    with ExitStack() as running:
        etcd = running.enter_context(RealEtcd(directory / "etcd"))
        names = running.enter_context(OurNameServer(directory / "names"))
        brokers = members(directory, names.address, etcd.address)
        for broker in brokers:
            broker.start()
            running.callback(broker.kill)
        create_topic(master_of(brokers).address, TOPIC)
        producer = running.enter_context(Producer(names.address, "bench"))
        return [outage(producer, brokers) for _ in range(kill_count)]


def report_outages(found: list[float]) -> None:
    print(
        f"without a writable master, s: p50 {median(found):.2f}, worst of {len(found)}"
        f" {max(found):.2f}, with a lease of {LEASE_S} s"
    )


def outage(producer: Producer, brokers: list[OurBroker]) -> float:
    master = master_of(brokers)
    producer.send(Message(TOPIC, b"before"))
    begin = time.monotonic()
    master.kill()
    while not is_acknowledged(producer, b"after"):
        time.sleep(TRY_AGAIN_S)
    took_s = time.monotonic() - begin
    master.start()
    return took_s


def is_acknowledged(producer: Producer, body: bytes) -> bool:
    try:
        producer.send(Message(TOPIC, body))
    except ClientError:
        return False
    return True


def members(directory: Path, names: str, etcd: str) -> list[OurBroker]:
    secret = directory / "secret"
    secret.write_text("what only brokers of this name know")
    return [
        OurBroker(
            directory / f"broker-{number}",
            names,
            broker_name="elected",
            configuration={
                "brokerId": str(number),
                "brokerRole": "SYNC_MASTER" if number == REPLICA_IDS[0] else "SLAVE",
                "replication.secretFile": str(secret),
                "replication.acknowledge": "quorum",
                "replication.copies": str(len(REPLICA_IDS)),
                "replication.etcd": etcd,
                "replication.leaseSeconds": str(LEASE_S),
            },
        )
        for number in REPLICA_IDS
    ]


def master_of(brokers: list[OurBroker]) -> OurBroker:
    """Waits for one that all the others are in sync with."""
    everybody = ",".join(map(str, REPLICA_IDS))
    found: list[OurBroker] = []

    def is_found() -> bool:
        found[:] = [each for each in brokers if said_by(each).get("inSyncSet") == everybody]
        return len(found) == 1

    wait_until(is_found, PATIENCE_S)
    return found[0]


def said_by(broker: OurBroker) -> dict[str, str]:
    with suppress(OSError, PeerGone), BlockingPeer(broker.address) as peer:
        return read_body(KvTable, peer.call(RequestCode.GET_BROKER_RUNTIME_INFO).body).table
    return {}

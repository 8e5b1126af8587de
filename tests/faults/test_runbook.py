"""Steps of the runbook of docs/replication.md that no other test takes, with real processes."""

import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from roquet import Message, Producer
from roquet.client.errors import NotYetSafe, SendFailed
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.offsets import ConsumerOffsetTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.groups import UpdateConsumerOffsetHeader
from tests.support.blocking_peer import BlockingPeer
from tests.support.command_line import roquet
from tests.support.etcd import RealEtcd
from tests.support.eventually import wait_until
from tests.support.gates import few
from tests.support.our_cluster import OurBroker, OurNameServer, OurServerFailed
from tests.support.topics import create_topic

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication-2")]

BROKER_NAME = "broker-a"
TOPIC = "orders"
GROUP = "bills"
PATIENCE_S = 60.0


class Place:
    """A name server, and directories for brokers of one name."""

    def __init__(self, directory: Path, names: str, running: ExitStack) -> None:
        self.directory = directory
        self.names = names
        self.running = running
        self.secret = directory / "secret"
        self.secret.write_text("a secret of the brokers of one name\n")

    def start(self, home: str, *words: str, **settings: str) -> OurBroker:
        """In a directory that may have been another one's before; `words` follow the command."""
        configuration = {key.replace("__", "."): value for key, value in settings.items()}
        broker = OurBroker(
            self.directory / home,
            self.names,
            broker_name=BROKER_NAME,
            configuration={"haSendHeartbeatInterval": "500"} | configuration,
        )
        broker.words = words
        broker.start()
        self.running.callback(broker.kill)
        return broker


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with ExitStack() as running:
        names = running.enter_context(OurNameServer(tmp_path / "names"))
        yield Place(tmp_path, names.address, running)


def is_followed(broker: OurBroker, in_sync: set[str]) -> bool:
    """Whether it is a master with one slave, and these are in sync."""
    info = broker.runtime_info
    return info.get("slaveCount") == "1" and in_sync <= set(info["inSyncSet"].split(","))


def log_end(broker: OurBroker) -> int:
    return int(broker.runtime_info.get("commitLogMaxOffset", -1))


def log_of(broker: OurBroker) -> bytes:
    paths = sorted((broker.store_directory / "commitlog").iterdir())
    return b"".join(path.read_bytes() for path in paths).rstrip(b"\0")


def send(place: Place, *bodies: bytes) -> None:
    with Producer(place.names, "runbook") as producer:
        for body in bodies:
            producer.send(Message(TOPIC, body), timeout_s=PATIENCE_S)


def send_when_elected(place: Place, body: bytes) -> None:
    with Producer(place.names, "runbook") as producer:

        def is_sent() -> bool:
            try:
                producer.send(Message(TOPIC, body), timeout_s=PATIENCE_S)
            except (SendFailed, NotYetSafe):
                return False
            return True

        wait_until(is_sent, PATIENCE_S)


def electorate(place: Place, etcd: RealEtcd) -> dict[int, dict[str, str]]:
    """The settings of three brokers, by number."""
    return {
        number: {
            "replication__etcd": etcd.address,
            "replication__secretFile": str(place.secret),
            "replication__leaseSeconds": "2",
            "brokerId": str(number),
            "brokerRole": "SYNC_MASTER" if number == 1 else "SLAVE",
        }
        for number in (1, 2, 3)
    }


def started(place: Place, own: Mapping[int, dict[str, str]]) -> dict[int, OurBroker]:
    """All of them in sync, with a message that all of them have."""
    brokers = {number: place.start(f"home-{number}", **own[number]) for number in own}
    wait_until(lambda: brokers[1].runtime_info.get("inSyncSet") == "1,2,3", PATIENCE_S)
    create_topic(brokers[1].address, TOPIC)
    send(place, b"before")
    wait_until(lambda: len({log_end(each) for each in brokers.values()}) == 1, PATIENCE_S)
    return brokers


@pytest.mark.parametrize(
    "survivor", few([1, 3], 1, "the same with one that is a slave by its settings")
)
def test_the_last_broker_founds_again(place: Place, survivor: int) -> None:
    """Number 1 is the one whose settings say that it is a master."""
    etcd = place.running.enter_context(RealEtcd(place.directory / "etcd"))
    own = electorate(place, etcd)
    brokers = started(place, own)
    if survivor == 1:
        # So that it was a slave of another.
        demoted = roquet("broker", "demote", brokers[1].address, "-n", place.names)
        assert demoted.exit_code == 0, demoted.stderr
        wait_until(lambda: brokers[1].runtime_info.get("followedMaster"), PATIENCE_S)
    for number in {1, 2, 3} - {survivor}:
        brokers[number].kill()
    refused = roquet("broker", "promote", brokers[survivor].address, "-n", place.names)
    assert "etcd decides who is master" in refused.stderr
    brokers[survivor].stop()
    last = place.start(f"home-{survivor}", "--found", **own[survivor])
    wait_until(lambda: last.runtime_info.get("brokerRole") == "SYNC_MASTER", PATIENCE_S)
    with pytest.raises(NotYetSafe, match="no replica now"):
        send(place, b"alone")

    # A broker with the number of a lost one and an empty directory.
    new = place.start("home-new", **own[2])
    wait_until(lambda: is_followed(last, {"2", str(survivor)}), PATIENCE_S)
    send(place, b"after")
    wait_until(lambda: log_end(new) == log_end(last), PATIENCE_S)
    assert log_of(new) == log_of(last)
    assert [body in log_of(last) for body in (b"before", b"alone", b"after")] == [True] * 3

    # The word counts once.
    last.stop()
    with pytest.raises(OurServerFailed, match="--found"):
        place.start(f"home-{survivor}", "--found", **own[survivor])
    last = place.start(f"home-{survivor}", **own[survivor])
    both = {"2", str(survivor)}
    wait_until(lambda: any(is_followed(each, both) for each in (last, new)), PATIENCE_S)


def test_an_etcd_that_has_lost_its_data(place: Place) -> None:
    etcd = RealEtcd(place.directory / "etcd")
    own = electorate(place, etcd)
    with etcd:
        brokers = started(place, own)
        # One of them is away while the others go on, so it has an older log.
        brokers[1].kill()
        send_when_elected(place, b"later")
        for number in (2, 3):
            brokers[number].stop()
    shutil.rmtree(place.directory / "etcd")
    place.running.enter_context(etcd)

    stale = place.start("home-1", **own[1])
    wait_until(lambda: "etcd has no record of this broker name" in stale.log_tail(), PATIENCE_S)
    two = place.start("home-2", **own[2])
    stale.stop()
    stale = place.start("home-1", "--found", **own[1])
    wait_until(lambda: f"--found is refused: {two.address}" in stale.log_tail(), PATIENCE_S)
    assert stale.runtime_info["brokerRole"] == two.runtime_info["brokerRole"] == "SLAVE"

    two.stop()
    two = place.start("home-2", "--found", **own[2])
    wait_until(lambda: is_followed(two, {"1", "2"}), PATIENCE_S)
    send(place, b"again")
    wait_until(lambda: log_end(stale) == log_end(two), PATIENCE_S)
    assert log_of(stale) == log_of(two)
    assert [body in log_of(two) for body in (b"before", b"later", b"again")] == [True] * 3


def test_a_planned_switch_without_a_secret(place: Place) -> None:
    master = {"brokerRole": "SYNC_MASTER"}
    slave = {"brokerRole": "SLAVE", "brokerId": "1"}
    one = place.start("one", **master)
    create_topic(one.address, TOPIC)
    two = place.start("two", **slave)
    wait_until(lambda: one.runtime_info.get("slaveCount") == "1", PATIENCE_S)
    # At least one in each queue: no member can have consumed what is not there.
    send(place, *(b"before %d" % number for number in range(8)))
    wait_until(lambda: log_end(one) == log_end(two), PATIENCE_S)
    commit(one, 1)
    wait_until(lambda: committed(two) == 1, PATIENCE_S)
    one.stop()
    two.stop()
    one = place.start("one", **slave)
    two = place.start("two", **master)
    wait_until(lambda: two.runtime_info.get("slaveCount") == "1", PATIENCE_S)
    send(place, b"after")
    wait_until(lambda: log_end(one) == log_end(two), PATIENCE_S)
    assert log_of(one) == log_of(two)
    assert [body in log_of(two) for body in (b"before 7", b"after")] == [True] * 2
    assert committed(two) == 1


def commit(broker: OurBroker, offset: int) -> None:
    header = UpdateConsumerOffsetHeader(
        consumer_group=GROUP, topic=TOPIC, queue_id=0, commit_offset=offset
    )
    with BlockingPeer(broker.address) as peer:
        assert peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header).code == ResponseCode.SUCCESS


def committed(broker: OurBroker) -> int | None:
    with BlockingPeer(broker.address) as peer:
        reply = peer.call(RequestCode.GET_ALL_CONSUMER_OFFSET)
    table = read_body(ConsumerOffsetTable, reply.body).offset_table
    return table.get(f"{TOPIC}@{GROUP}", {}).get(0)

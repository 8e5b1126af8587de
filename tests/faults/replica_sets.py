"""Brokers of one name with a name server, perhaps an etcd, and what an operator does with them.

Nothing here looks inside a broker: they are processes that are started, killed and asked, and the
operator has the command `roquet`.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import ClusterInfo
from roquet.protocol.codes import RequestCode
from tests.support.blocking_peer import BlockingPeer
from tests.support.etcd_members import EtcdMember, loopback_etcd
from tests.support.eventually import happens
from tests.support.our_cluster import PROGRAM, OurBroker, OurNameServer
from tests.support.topics import has_topic

BROKER_NAME: Final = "replicated"
LEASE_S: Final = 2
LAG_S: Final = 3
PATIENCE_S: Final = 60.0
# Names of settings have dots, which words of Python have not.
ACKNOWLEDGE: Final = "replication.acknowledge"
COPIES: Final = "replication.copies"

_COMMAND_TIMEOUT_S: Final = 60.0
_SETTINGS: Final = {
    "haSendHeartbeatInterval": "500",
    "slaveTimeout": "500",
    # Brokers learn what name servers know of others when they register.
    "registerNameServerPeriod": "10000",
    "replication.lagSeconds": str(LAG_S),
}
_WITH_ETCD: Final = {"replication.leaseSeconds": str(LEASE_S)}


class Replica(OurBroker):
    """A broker whose settings an operator changes between two starts."""

    @property
    def settings(self) -> Mapping[str, str]:
        return self._configuration

    def set(self, **settings: str) -> None:
        self._configuration |= settings

    def unset(self, setting: str) -> None:
        self._configuration.pop(setting, None)

    def lose_store(self) -> None:
        """As with its machine: the next start finds an empty directory."""
        assert self.has_ended, "still running"
        shutil.rmtree(self.store_directory)

    @property
    def is_master(self) -> bool:
        """As far as it knows itself; one that does not answer is none."""
        return self.runtime_info.get("brokerRole", "SLAVE") != "SLAVE"

    @property
    def cut_off(self) -> list[str]:
        """What it took out of its log because the master never had it."""
        return sorted(path.name for path in (self.store_directory / "divergent").glob("*"))

    def log_bytes(self) -> bytes:
        paths = sorted((self.store_directory / "commitlog").iterdir())
        return b"".join(path.read_bytes() for path in paths).rstrip(b"\0")

    @property
    def living_process_id(self) -> int | None:
        process = self._process
        return None if process is None or process.poll() is not None else process.pid

    def paused(self) -> AbstractContextManager[None]:
        """SIGSTOP while the block runs."""
        return paused(self.process_id)


@contextmanager
def paused(process_id: int) -> Iterator[None]:
    """It stands still while the block runs, unless it is killed meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(process_id, signal.SIGCONT)


class CommandRefused(Exception):
    """The operator's command failed; the message is what it printed."""


class ReplicaSet:
    """While the block runs there are a name server and etcd; brokers are started by the rig.

    `own` are the settings of each broker, besides those that all of them share.
    """

    def __init__(
        self,
        directory: Path,
        own: Sequence[Mapping[str, str]],
        shared: Mapping[str, str] | None = None,
        *,
        etcd_count: int = 0,
        has_secret: bool = True,
    ) -> None:
        self._directory = directory
        self._stack = ExitStack()
        self._names = OurNameServer(directory / "names")
        self.name_server = self._names.address
        self._etcd_count = etcd_count
        # Further words of the command line of each member.
        self.etcd_words: tuple[str, ...] = ()
        self.etcd: list[EtcdMember] = []
        settings = {**_SETTINGS, **(_WITH_ETCD if etcd_count else {}), **(shared or {})}
        if has_secret:
            secret = directory / "secret"
            secret.write_text("what only brokers of this name know\n")
            settings["replication.secretFile"] = str(secret)
        self.brokers = [self.made({**settings, **each}) for each in own]

    def made(self, settings: Mapping[str, str]) -> Replica:
        """One more broker of the name, which is not started yet."""
        # The set that is being made has no brokers yet.
        number = len(list(self._directory.glob("broker-*"))) + 1
        replica = Replica(
            self._directory / f"broker-{number}",
            self.name_server,
            broker_name=BROKER_NAME,
            configuration=settings,
        )
        self._stack.callback(replica.kill)
        return replica

    def __enter__(self) -> Self:
        self._stack.callback(self._names.kill)
        self._names.start()
        if self._etcd_count:
            members = loopback_etcd(self._directory / "etcd", self._etcd_count, self.etcd_words)
            self.etcd = self._stack.enter_context(members)
            addresses = ",".join(each.address for each in self.etcd)
            for broker in self.brokers:
                broker.set(**{"replication.etcd": addresses})
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start(self, *brokers: Replica) -> None:
        for broker in brokers or self.brokers:
            broker.start()

    # What an operator does.

    def promote(self, broker: Replica, *words: str) -> str:
        return self.command("broker", "promote", broker.address, *words)

    def demote(self, broker: Replica, *words: str) -> str:
        return self.command("broker", "demote", broker.address, *words)

    def command(self, *words: str) -> str:
        """What `roquet` printed. Raises CommandRefused."""
        done = subprocess.run(
            [PROGRAM, *words, "-n", self.name_server],
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMMAND_TIMEOUT_S,
        )
        if done.returncode:
            raise CommandRefused(f"roquet {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def examined(self) -> str:
        """What `roquet doctor` prints, whatever it has found."""
        try:
            return self.command("doctor")
        except CommandRefused as error:
            return str(error)

    # What it sees.

    def masters(self) -> list[Replica]:
        """Those that take themselves for masters, the latest epoch last."""
        epochs = {
            each: int(each.runtime_info.get("replicationEpoch", 0))
            for each in self.brokers
            if not each.has_ended and each.is_master
        }
        return sorted(epochs, key=lambda each: epochs[each])

    def master(
        self, patience_s: float = PATIENCE_S, other_than: Replica | None = None
    ) -> Replica | None:
        """The one of the latest epoch, as soon as there is one; None if there is none in time."""
        found: list[Replica] = []

        def is_found() -> bool:
            found[:] = [each for each in self.masters() if each is not other_than]
            return bool(found)

        return found[-1] if happens(is_found, patience_s) else None

    def routed_master(self) -> str | None:
        """Where the name server sends those who want the master."""
        with BlockingPeer(self.name_server) as peer:
            reply = peer.call(RequestCode.GET_BROKER_CLUSTER_INFO)
        broker = read_body(ClusterInfo, reply.body).broker_addr_table.get(BROKER_NAME)
        return None if broker is None else broker.broker_addrs.get(0)

    def until_followed(self, master: Replica, *slaves: Replica) -> bool:
        """Whether all of them have the log that the master had when it was asked, in time.

        They are asked after it, and may have more by then: the traffic goes on.
        """

        def is_followed() -> bool:
            info = master.runtime_info
            if int(info.get("slaveCount", 0)) < len(slaves):
                return False
            end = int(info["commitLogMaxOffset"])
            return all(each.log_end >= end for each in slaves)

        return happens(is_followed)

    def until_in_sync(self, master: Replica, numbers: Iterable[int]) -> bool:
        wanted = ",".join(map(str, sorted(numbers)))
        return happens(lambda: master.runtime_info.get("inSyncSet") == wanted)


def until_known(topic: str, *brokers: Replica) -> bool:
    """Slaves copy the table of topics now and then."""
    return happens(lambda: all(has_topic(each.address, topic) for each in brokers))


def voters(count: int, role: str = "SYNC_MASTER") -> list[dict[str, str]]:
    """The settings of brokers that elect their master; the first one is the first master."""
    return [
        {"brokerId": str(number), "brokerRole": role if number == 1 else "SLAVE"}
        for number in range(1, count + 1)
    ]


def replica_settings(count: int, role: str = "SYNC_MASTER") -> list[dict[str, str]]:
    """The settings of a master and its slaves where an operator decides."""
    slaves = [{"brokerRole": "SLAVE", "brokerId": str(number)} for number in range(1, count)]
    return [{"brokerRole": role}, *slaves]

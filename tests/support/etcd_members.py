"""etcd with several members, which elect a leader among them.

On hosts of a network of its own, one member each, or all of them on this machine.
"""

import base64
import json
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.eventually import wait_until
from tests.support.namespaces import Network
from tests.support.ports import free_port

_LOOPBACK: Final = "127.0.0.1"
_CLIENT_PORT: Final = 2379
_PEER_PORT: Final = 2380
_TIMEOUT_S: Final = 2.0
_STOP_TIMEOUT_S: Final = 20.0
# A leader that is gone is noticed within a second, on a busy machine, too.
_ELECTION_MS: Final = 1000


def missing_etcd() -> str | None:
    """Why there can be none; None if there can."""
    return None if shutil.which("etcd") else "etcd is missing (Debian's etcd-server)"


class EtcdMember:
    """A process that can be killed and started again on its directory."""

    def __init__(self, host: str, words: list[str], address: str, data_directory: Path) -> None:
        self.host = host
        self.address = address
        self._words = [*words, f"--data-dir={data_directory}"]
        self._data_directory = data_directory
        self._log_path = data_directory.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None, "already started"
        with self._log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._words, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGKILL)
            process.wait(_STOP_TIMEOUT_S)

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def wipe(self) -> None:
        """Its directory is gone, as with its machine."""
        assert self._process is None, "still running"
        shutil.rmtree(self._data_directory)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """SIGSTOP while the block runs."""
        assert self._process is not None, "not started"
        process = self._process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def ask(self, path: str, **fields: Any) -> dict[str, Any]:
        """Of its JSON gateway. Raises OSError."""
        connection = HTTPConnection(self.address, timeout=_TIMEOUT_S)
        try:
            connection.request("POST", f"/v3/{path}", json.dumps(fields))
            with connection.getresponse() as reply:
                answer: dict[str, Any] = json.load(reply)
                if reply.status != HTTPStatus.OK:
                    raise OSError(f"{self.address} answered {answer}")
        finally:
            connection.close()
        return answer

    @property
    def is_leader(self) -> bool:
        """As far as it knows itself; one that cannot be asked is none."""
        try:
            status = self.ask("maintenance/status")
        except OSError:
            return False
        return bool(status.get("leader") == status["header"]["member_id"])

    def can_write(self, value: bytes = b"can-write") -> bool:
        key = base64.b64encode(b"can-write").decode()
        try:
            self.ask("kv/put", key=key, value=base64.b64encode(value).decode())
        except OSError:
            return False
        return True


class _Seat(NamedTuple):
    """Where a member listens, and what has to stand before the words of its command."""

    name: str
    clients: str
    peers: str
    under: tuple[str, ...] = ()


@contextmanager
def etcd_members(directory: Path, network: Network, *hosts: str) -> Iterator[list[EtcdMember]]:
    """While the block runs there is one at each host, and at first a leader.

    Whoever calls is on a host of the network, too.
    """
    seats = [
        _Seat(
            host,
            f"{network.address(host)}:{_CLIENT_PORT}",
            f"{network.address(host)}:{_PEER_PORT}",
            network.under(host),
        )
        for host in hosts
    ]
    with _running(directory, seats) as members:
        yield members


@contextmanager
def loopback_etcd(
    directory: Path, count: int = 1, words: tuple[str, ...] = ()
) -> Iterator[list[EtcdMember]]:
    """While the block runs there are so many on this machine, and at first a leader.

    `words` are added to the command line of each.
    """
    ports = [free_port() for _ in range(count)]
    seats = [
        _Seat(f"member-{number}", f"{_LOOPBACK}:{port}", f"{_LOOPBACK}:{port + 1}")
        for number, port in enumerate(ports, 1)
    ]
    with _running(directory, seats, words) as members:
        yield members


@contextmanager
def _running(
    directory: Path, seats: list[_Seat], further: tuple[str, ...] = ()
) -> Iterator[list[EtcdMember]]:
    directory.mkdir(parents=True, exist_ok=True)
    cluster = ",".join(f"{seat.name}=http://{seat.peers}" for seat in seats)
    members = []
    with ExitStack() as stack:
        for seat in seats:
            settings = {
                "name": seat.name,
                "listen-peer-urls": f"http://{seat.peers}",
                "initial-advertise-peer-urls": f"http://{seat.peers}",
                "listen-client-urls": f"http://{seat.clients}",
                "advertise-client-urls": f"http://{seat.clients}",
                "initial-cluster": cluster,
                "election-timeout": str(_ELECTION_MS),
                "logger": "zap",
            }
            words = [f"--{name}={value}" for name, value in settings.items()]
            member = EtcdMember(
                seat.name,
                [*seat.under, "etcd", *words, *further],
                seat.clients,
                directory / f"etcd-{seat.name}",
            )
            member.start()
            stack.callback(member.kill)
            members.append(member)
        wait_until(lambda: any(each.can_write() for each in members))
        yield members


def leader_of(members: list[EtcdMember]) -> EtcdMember:
    """Waits for one that most of the others follow."""
    found: list[EtcdMember] = []

    def is_found() -> bool:
        found[:] = [each for each in members if each.is_leader and each.can_write()]
        return bool(found)

    wait_until(is_found)
    return found[0]

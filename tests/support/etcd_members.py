"""etcd on hosts of a network of its own: one member each, which elect a leader among them."""

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
from typing import Any, Final

from tests.support.eventually import wait_until
from tests.support.namespaces import Network

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

    def __init__(self, host: str, words: list[str], address: str, log_path: Path) -> None:
        self.host = host
        self.address = address
        self._words = words
        self._log_path = log_path
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

    def can_write(self) -> bool:
        key = base64.b64encode(b"can-write").decode()
        try:
            self.ask("kv/put", key=key, value=key)
        except OSError:
            return False
        return True


@contextmanager
def etcd_members(directory: Path, network: Network, *hosts: str) -> Iterator[list[EtcdMember]]:
    """While the block runs there is one at each host, and at first a leader.

    Whoever calls is on a host of the network, too.
    """
    peers = {host: f"http://{network.address(host)}:{_PEER_PORT}" for host in hosts}
    everybody = ",".join(f"{host}={url}" for host, url in peers.items())
    members = []
    with ExitStack() as stack:
        for host in hosts:
            address = f"{network.address(host)}:{_CLIENT_PORT}"
            settings = {
                "name": host,
                "data-dir": str(directory / f"etcd-{host}"),
                "listen-peer-urls": peers[host],
                "initial-advertise-peer-urls": peers[host],
                "listen-client-urls": f"http://{address}",
                "advertise-client-urls": f"http://{address}",
                "initial-cluster": everybody,
                "election-timeout": str(_ELECTION_MS),
                "logger": "zap",
            }
            words = [f"--{name}={value}" for name, value in settings.items()]
            member = EtcdMember(
                host,
                [*network.under(host), "etcd", *words],
                address,
                directory / f"etcd-{host}.log",
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

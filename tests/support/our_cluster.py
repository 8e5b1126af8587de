"""Our own servers as processes: `roquet namesrv`, `broker`, `proxy` and `up`.

They can be stopped, killed and started again on the same directory and port. Used as context
managers they are stopped at the end, and then have to end well and to have logged no error.
"""

import os
import re
import signal
import subprocess
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import RequestCode
from tests.support.blocking_peer import BlockingPeer, PeerGone
from tests.support.eventually import wait_until
from tests.support.ports import free_port
from tests.support.signing import IS_SIGNED, broker_settings
from tests.support.small_files import SMALL_FILES

HOST = "127.0.0.1"

PROGRAM = Path(sysconfig.get_path("scripts")) / "roquet"
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 20.0
_ANSWER_TIMEOUT_S = 2.0
_LOG_TAIL_SIZE = 3000


class OurServerFailed(Exception):
    """A server did not start or stop as it should; the message ends with its log."""


class OurServer:
    """A process with a directory of its own. `ready` is its line when it serves."""

    # Its line when it was last ready.
    _ready_match: re.Match[str]
    # A program that runs it, with its words.
    under: tuple[str, ...] = ()
    # Further words of its command line, for its next start.
    words: tuple[str, ...] = ()

    def __init__(self, directory: Path, ready: str) -> None:
        self.directory = directory
        self._ready = re.compile(ready, re.MULTILINE)
        self._process: subprocess.Popen[bytes] | None = None
        self.start_count = 0
        self._log_path = directory / "server.log"
        directory.mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        """The words of the command line after `roquet`."""
        raise NotImplementedError

    @property
    def process_id(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def begin(self) -> int:
        """Starts without waiting; where in its log this start starts."""
        assert self._process is None, "already started"
        self.start_count += 1
        with self._log_path.open("ab") as log:
            log_start = log.tell()
            self._process = subprocess.Popen(
                [*self.under, PROGRAM, *self.command(), *self.words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # What is kept in the home directory or is temporary belongs to the test.
                env={**os.environ, "HOME": str(self.directory), "TMPDIR": str(self.directory)},
            )
        return log_start

    def start(self) -> None:
        """Returns when the server serves. Works again after `stop` and `kill`."""
        log_start = self.begin()
        try:
            wait_until(
                lambda: self.has_ended or self._ready.search(self._log(log_start)),
                _START_TIMEOUT_S,
            )
            self._ready_match = self._wait_for_ready(log_start)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM, and a good end. Raises OurServerFailed."""
        process = self._end(signal.SIGTERM)
        if process is not None and (process.returncode or " ERROR " in self._log(0)):
            raise OurServerFailed(f"{self} ended with {process.returncode}:\n{self.log_tail()}")

    def reload(self) -> None:
        """SIGHUP; returns when the server has read its certificates again."""
        assert self._process is not None, "not started"
        log_start = self._log_path.stat().st_size
        self._process.send_signal(signal.SIGHUP)
        wait_until(lambda: "certificates reloaded" in self._log(log_start))

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None, "not started"
        self._process.send_signal(number)

    def until_ended(self, patience_s: float = _STOP_TIMEOUT_S) -> int:
        """Returns how it ended by itself. Raises OurServerFailed when it keeps running."""
        process, self._process = self._process, None
        assert process is not None, "not started"
        try:
            return process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process = process
            raise OurServerFailed(f"{self} keeps running:\n{self.log_tail()}") from None

    @property
    def has_ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL: the process has no chance to tidy up."""
        self._end(signal.SIGKILL)

    def log_tail(self) -> str:
        """The end of its log, over all its starts."""
        return self._log(0)[-_LOG_TAIL_SIZE:]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _wait_for_ready(self, log_start: int) -> re.Match[str]:
        found = self._ready.search(self._log(log_start))
        if found is None:
            raise OurServerFailed(f"{self} died while it started:\n{self.log_tail()}")
        return found

    def _end(self, how: signal.Signals) -> subprocess.Popen[bytes] | None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                raise OurServerFailed(f"{self} ignored {how.name}:\n{self.log_tail()}") from None
        return process

    def _log(self, position: int) -> str:
        with self._log_path.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace")


class OurNameServer(OurServer):
    """`arguments` are further words of the command line, `host` is where it listens."""

    def __init__(self, directory: Path, *arguments: str, host: str = HOST) -> None:
        super().__init__(directory, r"name server listens on \S+\n")
        # Not port 0: after a restart it has to be the same one, and not taken meanwhile.
        self._port = free_port()
        self.address = f"{host}:{self._port}"
        self._arguments = ("--host", host, *arguments)

    def command(self) -> list[str]:
        return ["namesrv", "--port", str(self._port), *self._arguments]

    def __str__(self) -> str:
        return f"our name server at {self.address}"


class OurBroker(OurServer):
    """`configuration` is added to, or replaces, the small one of the tests; it serves at `host`."""

    def __init__(
        self,
        directory: Path,
        *name_servers: str,
        broker_name: str = "our-broker",
        configuration: Mapping[str, str] | None = None,
        host: str = HOST,
    ) -> None:
        super().__init__(directory, r"serves at \S+.*\n")
        port = free_port()
        self.address = f"{host}:{port}"
        self.broker_name = broker_name
        self.store_directory = directory / "store"
        self._configuration = {
            **SMALL_FILES,
            "brokerName": broker_name,
            "listenPort": str(port),
            "bindAddress": host,
            "namesrvAddr": ";".join(name_servers),
            **broker_settings(directory),
            **(configuration or {}),
        }

    def command(self) -> list[str]:
        path = self.directory / "broker.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in self._configuration.items()))
        return ["broker", "-c", str(path), "--dir", str(self.store_directory)]

    @property
    def runtime_info(self) -> Mapping[str, str]:
        """Its values at run time; none while it does not answer."""
        with (
            suppress(OSError, PeerGone),
            BlockingPeer(self.address, timeout_s=_ANSWER_TIMEOUT_S) as peer,
        ):
            return read_body(KvTable, peer.call(RequestCode.GET_BROKER_RUNTIME_INFO).body).table
        return {}

    @property
    def log_end(self) -> int:
        """-1 while it does not answer."""
        return int(self.runtime_info.get("commitLogMaxOffset", -1))

    def __str__(self) -> str:
        return f"our broker {self.broker_name} at {self.address}"


class OurProxy(OurServer):
    """`roquet proxy` in front of any cluster. `arguments` are further words of the command line."""

    def __init__(self, directory: Path, name_server: str, *arguments: str) -> None:
        super().__init__(directory, r"^ready grpc=(\S+)\n")
        # Not port 0: after a restart it has to be the same one.
        self.endpoint = f"{HOST}:{free_port()}"
        self._arguments = ("-n", name_server, "--listen", self.endpoint, *arguments)

    def command(self) -> list[str]:
        return ["proxy", *self._arguments]

    def __str__(self) -> str:
        return f"our proxy at {self.endpoint}"


class OurCluster(OurServer):
    """`roquet up`: a name server and a broker in one process, on any ports, gone when it stops.

    `arguments` are further words of the command line.
    """

    broker_name = "broker-a"
    cluster_name = "DefaultCluster"

    def __init__(self, directory: Path, *arguments: str) -> None:
        super().__init__(directory, r"^ready name-server=(\S+) broker=(\S+).*\n")
        self._arguments = arguments

    def command(self) -> list[str]:
        return ["up", "--name-server-port", "0", "--broker-port", "0", *self._arguments]

    @property
    def ready_line(self) -> str:
        return self._ready_match[0].rstrip()

    @property
    def name_server(self) -> str:
        return self._ready_match[1]

    @property
    def broker(self) -> str:
        return self._ready_match[2]

    def __str__(self) -> str:
        return "our cluster"


class OurPair:
    """The same in two processes, whose settings can be chosen."""

    broker_name = OurCluster.broker_name
    cluster_name = OurCluster.cluster_name

    def __init__(self, directory: Path) -> None:
        self._names = OurNameServer(directory / "names")
        self.name_server = self._names.address
        self._broker = OurBroker(
            directory / "broker", self.name_server, broker_name=self.broker_name
        )
        self.broker = self._broker.address

    def log_tail(self) -> str:
        return self._broker.log_tail()

    def __enter__(self) -> Self:
        self._names.start()
        self._broker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._broker.stop()
        self._names.stop()

    def __str__(self) -> str:
        return "our name server and broker"


Ours = OurCluster | OurPair


def our_cluster(directory: Path) -> Ours:
    """`roquet up` lets in everybody; where that is not wanted, two processes do the same."""
    return OurPair(directory) if IS_SIGNED else OurCluster(directory)

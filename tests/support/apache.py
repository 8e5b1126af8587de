"""Name servers and brokers of the real Apache RocketMQ, each in a JVM of its own.

They listen on loopback only, keep everything in the directory they are given and are set up to
start in two or three seconds. Used as context managers they are killed at the end; a clean stop
takes five seconds and more, so it is for tests that want to see what it leaves behind.
"""

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from roquet.protocol.codes import RequestCode
from tests.support.apache_classes import quick_small_jvm
from tests.support.blocking_peer import BlockingPeer
from tests.support.jars import START_TIMEOUT_S, ApacheVersion, JvmNotStarted, jvm_command
from tests.support.ports import free_port
from tests.support.small_files import SMALL_FILES

HOST = "127.0.0.1"
CLUSTER_NAME = "DefaultCluster"

_STOP_TIMEOUT_S = 60.0
_POLL_S = 0.05
_LOG_TAIL_SIZE = 3000
_BOOTED = "boot success"

# The replication port is the one above a broker's own.
_REPLICATION_PORT_DISTANCE = 1

_SMALL_PATIENT_BROKER = {
    **SMALL_FILES,
    "enablePropertyFilter": "true",
    # A slow machine must not cause flow control.
    "waitTimeMillsInSendQueue": "20000",
    "waitTimeMillsInPullQueue": "20000",
    "osPageCacheBusyTimeOutMills": "30000",
    "transactionCheckInterval": "1000",
    "transactionTimeOut": "1000",
    # Only 5.5.0 knows these three. It writes down in batches what became of transactions: it would
    # ask about transactions that are over, and once the time for the next batch has passed, it
    # burns a core for ever. So every end is written at once, and that time is far.
    "transactionOpMsgMaxSize": "1",
    "transactionOpBatchInterval": "3600000",
    # It makes each start and each clean stop seconds longer.
    "timerWheelEnable": "false",
}


class ServerFailed(Exception):
    """A server did not stop as it should; the message ends with its log."""


class ApacheServer:
    """What a name server and a broker have in common: a process, a configuration, a log.

    `properties` are system properties of the JVM, such as {"rocketmq.serialize.type": "ROCKETMQ"}.
    """

    def __init__(
        self,
        version: ApacheVersion,
        main_class: str,
        directory: Path,
        port: int,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.directory = directory
        self.port = port
        self.address = f"{HOST}:{port}"
        self._main_class = main_class
        self._properties = properties
        self._process: subprocess.Popen[bytes] | None = None
        self._log_path = directory / "server.log"
        # Where the log of this start starts.
        self._log_start = 0
        directory.mkdir(parents=True, exist_ok=True)

    def configuration(self) -> dict[str, str]:
        return {"listenPort": str(self.port), "bindAddress": HOST}

    def start(self) -> None:
        """Returns when the server serves. Works again after `stop` and `kill`.

        Raises JvmNotStarted, which ends with its log.
        """
        assert self._process is None, "already started"
        configuration_path = self.directory / "server.conf"
        configuration_path.write_text(
            "".join(f"{name}={value}\n" for name, value in self.configuration().items())
        )
        command = jvm_command(
            self.version,
            self.directory,
            properties=self._properties,
            tuning=quick_small_jvm(self.version),
        )
        with self._log_path.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [*command, self._main_class, "-c", str(configuration_path)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            self._wait_until(self._is_serving)
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """SIGTERM, and wait: everything is written and, by a broker, unregistered."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: the process has no chance to tidy up."""
        self._end(signal.SIGKILL)

    def log_tail(self) -> str:
        """The last output of the server, over all its starts."""
        return self._log(0)[-_LOG_TAIL_SIZE:]

    def __str__(self) -> str:
        return f"{self._main_class.rpartition('.')[2]} {self.version} at {self.address}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def _is_serving(self) -> bool:
        return _BOOTED in self._log(self._log_start)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not condition():
            assert self._process is not None
            if self._process.poll() is not None:
                raise JvmNotStarted(f"{self} died while it started:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise JvmNotStarted(
                    f"{self} was not ready in {START_TIMEOUT_S} s:\n{self.log_tail()}"
                )
            time.sleep(_POLL_S)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(how)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise ServerFailed(f"{self} ignored {how.name}:\n{self.log_tail()}") from None

    def _log(self, position: int) -> str:
        with self._log_path.open("rb") as log:
            log.seek(position)
            return log.read().decode(errors="replace")


class ApacheNameServer(ApacheServer):
    def __init__(
        self,
        version: ApacheVersion,
        directory: Path,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            version,
            "org.apache.rocketmq.namesrv.NamesrvStartup",
            directory,
            free_port(),
            properties,
        )


class ApacheBroker(ApacheServer):
    """`configuration` is added to, or replaces, the small and patient one of the tests."""

    def __init__(
        self,
        version: ApacheVersion,
        directory: Path,
        *name_servers: str,
        broker_name: str = "apache-broker",
        configuration: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            version,
            "org.apache.rocketmq.broker.BrokerStartup",
            directory,
            free_port(),
            properties,
        )
        self.broker_name = broker_name
        self.name_servers = name_servers
        self.store_directory = directory / "store"
        self._configuration = dict(configuration or {})

    def configuration(self) -> dict[str, str]:
        return {
            **super().configuration(),
            **_SMALL_PATIENT_BROKER,
            "namesrvAddr": ";".join(self.name_servers),
            "brokerClusterName": CLUSTER_NAME,
            "brokerName": self.broker_name,
            "brokerId": "0",
            "brokerIP1": HOST,
            "brokerIP2": HOST,
            "haListenPort": str(self.port + _REPLICATION_PORT_DISTANCE),
            "storePathRootDir": str(self.store_directory),
            "storePathCommitLog": str(self.store_directory / "commitlog"),
            **self._configuration,
        }

    def _is_serving(self) -> bool:
        if not super()._is_serving():
            return False
        is_registered = all(map(self._is_registered_at, self.name_servers))
        if not is_registered:
            self._ask_to_register()
        return is_registered

    def _is_registered_at(self, name_server: str) -> bool:
        with BlockingPeer(name_server) as peer:
            reply = peer.call(RequestCode.GET_BROKER_CLUSTER_INFO)
        return self.address.encode() in reply.body

    def _ask_to_register(self) -> None:
        """A 5.5.0 broker that is quicker than its look for name servers would wait ten seconds.

        A new permission is registered at once, also when it is the old one.
        """
        with BlockingPeer(self.address) as broker:
            broker.call(RequestCode.UPDATE_BROKER_CONFIG, body=b"brokerPermission=6\n")


class ApacheCluster:
    """One name server with one broker."""

    def __init__(self, version: ApacheVersion, directory: Path) -> None:
        self.version = version
        self.name_server = ApacheNameServer(version, directory / "namesrv")
        self.broker = ApacheBroker(version, directory / "broker", self.name_server.address)

    @property
    def servers(self) -> tuple[ApacheServer, ...]:
        return self.name_server, self.broker

    def __enter__(self) -> Self:
        self.name_server.start()
        try:
            self.broker.start()
        except BaseException:
            self.name_server.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.broker.kill()
        self.name_server.kill()

"""Servers of other message systems, started as their packages bring them, on loopback alone.

Each acknowledges a message once the operating system has it, and has it synced to disk a while
later, or states here what else it does: `durability` goes into the table.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command, encode_command
from roquet.protocol.headers.groups import UpdateConsumerOffsetHeader
from tests.support.blocking_peer import BlockingPeer
from tests.support.descendants import descendants
from tests.support.jars import (
    ApacheVersion,
    JarsUnavailable,
    cache_directory,
    fetch_modules,
    jvm_command,
    made_once,
)
from tests.support.our_cluster import PROGRAM
from tests.support.ports import free_port
from tests.support.topics import create_topic

HOST: Final = "127.0.0.1"
QUEUE_COUNT: Final = 8
KAFKA_VERSION: Final = "4.1.1"
JVM: Final = ("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC")  # What Kafka's own script gives it.
START_S_MAX: Final = 120.0
STOP_S_MAX: Final = 20.0
ANSWER_S_MAX: Final = 1.0
_KAFKA_CLUSTER: Final = "cm9xdWV0LWJlbmNoLTAwMQ"  # sixteen bytes as it wants them
_OWN_ERLANG: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class Unavailable(Exception):
    """A server or a client that cannot be had on this machine; the text says why."""


@dataclass
class PeerServer:
    """`address` is what its clients are given; those by gRPC are given `grpc_address`."""

    name: str
    durability: str
    address: str
    processes: list[subprocess.Popen[bytes]]
    start_s: float
    broker: str = ""  # where topics are made, if its clients do not make them
    grpc_address: str = ""
    figures: dict[str, float] = field(default_factory=dict)

    def process_ids(self) -> list[int]:
        own = [process.pid for process in self.processes]
        return [*own, *(each for parent in own for each in descendants(parent))]

    def resident_mb(self) -> float:
        return sum(map(_resident_mb, self.process_ids()))

    def prepare(self, topic: str) -> None:
        if self.broker:
            create_topic(self.broker, topic, QUEUE_COUNT)

    def begin_with_first(self, topic: str, group: str) -> None:
        """A new group would start with the next message; not every client can change that."""
        if not self.broker:
            return
        with BlockingPeer(self.broker) as peer:
            for queue_id in range(QUEUE_COUNT):
                header = UpdateConsumerOffsetHeader(
                    consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=0
                )
                peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)


Start = Callable[[Path, ExitStack], PeerServer]


def start_ours(directory: Path, stack: ExitStack) -> PeerServer:
    names, broker, grpc = free_port(), free_port(), free_port()
    words = ["up", "--dir", directory / "data", "--name-server-port", names]
    words += ["--broker-port", broker, "--grpc", f"{HOST}:{grpc}"]
    process, start_s = _started(
        [PROGRAM, *words], directory, stack, broker, _asking(RequestCode.GET_BROKER_RUNTIME_INFO)
    )
    return PeerServer(
        "Roquet",
        "page cache; disk within half a second",
        f"{HOST}:{names}",
        [process],
        start_s,
        broker=f"{HOST}:{broker}",
        grpc_address=f"{HOST}:{grpc}",
    )


def start_apache(directory: Path, stack: ExitStack) -> PeerServer:
    directory.mkdir(parents=True)
    names, port = free_port(), free_port()
    version = ApacheVersion.V4_9_7
    (directory / "names.conf").write_text(f"listenPort={names}\nbindAddress={HOST}\n")
    (directory / "broker.conf").write_text(
        f"brokerName=apache\nlistenPort={port}\nbrokerIP1={HOST}\nbindAddress={HOST}\n"
        f"storePathRootDir={directory / 'store'}\nnamesrvAddr={HOST}:{names}\n"
        # It would refuse under this load, and count nothing.
        "waitTimeMillsInSendQueue=20000\nosPageCacheBusyTimeOutMills=30000\n"
    )
    try:
        jvm = jvm_command(version, directory, tuning=JVM)
    except (JarsUnavailable, FileNotFoundError) as error:
        raise Unavailable(str(error)[-300:]) from None
    package = "org.apache.rocketmq"
    name_server = [*jvm, f"{package}.namesrv.NamesrvStartup", "-c", directory / "names.conf"]
    broker = [*jvm, f"{package}.broker.BrokerStartup", "-c", directory / "broker.conf"]
    first, names_s = _started(
        name_server, directory, stack, names, _asking(RequestCode.GET_BROKER_CLUSTER_INFO)
    )
    second, broker_s = _started(
        broker, directory, stack, port, _asking(RequestCode.GET_BROKER_RUNTIME_INFO)
    )
    return PeerServer(
        f"Apache RocketMQ {version.value}",
        "page cache; disk within half a second",
        f"{HOST}:{names}",
        [first, second],
        max(names_s, broker_s),  # They may start side by side.
        broker=f"{HOST}:{port}",
    )


def start_kafka(directory: Path, stack: ExitStack) -> PeerServer:
    directory.mkdir(parents=True)
    port, controller = free_port(), free_port()
    config = directory / "server.properties"
    config.write_text(
        "process.roles=broker,controller\nnode.id=1\n"
        f"controller.quorum.voters=1@{HOST}:{controller}\n"
        f"listeners=PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}\n"
        f"advertised.listeners=PLAINTEXT://{HOST}:{port}\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={directory / 'data'}\n"
        f"num.partitions={QUEUE_COUNT}\noffsets.topic.replication.factor=1\n"
        "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"
        "group.initial.rebalance.delay.ms=0\n"  # Three seconds otherwise, for others to join.
    )
    java = ["java", *JVM, "-cp", str(_kafka_jars() / "*")]
    _done([*java, "kafka.tools.StorageTool", "format", "-t", _KAFKA_CLUSTER, "-c", config])
    # A request for the versions that it knows.
    hello = b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff"
    process, start_s = _started([*java, "kafka.Kafka", config], directory, stack, port, hello)
    return PeerServer(
        f"Kafka {KAFKA_VERSION}",
        "page cache (acks=all, one replica); disk when the kernel writes",
        f"{HOST}:{port}",
        [process],
        start_s,
    )


def start_nats(directory: Path, stack: ExitStack) -> PeerServer:
    port = free_port()
    words = ["-a", HOST, "-p", port, "-js", "-sd", directory / "data"]
    program = _program("nats-server")
    process, start_s = _started([program, *words], directory, stack, port, b"PING\r\n")
    return PeerServer(
        f"NATS JetStream {_version([program, '--version'])}",
        "page cache; disk within two minutes",
        f"{HOST}:{port}",
        [process],
        start_s,
    )


def start_redis(directory: Path, stack: ExitStack) -> PeerServer:
    port = free_port()
    directory.mkdir(parents=True)
    words = ["--port", port, "--bind", HOST, "--dir", directory, "--save", ""]
    words += ["--appendonly", "yes", "--appendfsync", "everysec"]
    program = _program("redis-server")
    process, start_s = _started([program, *words], directory, stack, port, b"PING\r\n")
    return PeerServer(
        f"Redis Streams {_version([program, '--version'])}",
        "page cache (appendonly); disk within a second; all in memory, too",
        f"{HOST}:{port}",
        [process],
        start_s,
    )


def start_rabbitmq(directory: Path, stack: ExitStack) -> PeerServer:
    if not _OWN_ERLANG.exists():
        raise Unavailable("rabbitmq-server is not installed (Debian has it)")
    directory.mkdir(parents=True)
    port, distribution, mapper = free_port(), free_port(), free_port()
    (directory / "plugins").write_text("[].\n")
    # Otherwise it would start one for the whole machine, which outlives it.
    _started([_program("epmd"), "-address", HOST, "-port", mapper], directory, stack, mapper)
    settings = {
        "HOME": str(directory),
        "ERL_EPMD_PORT": str(mapper),
        "RABBITMQ_NODENAME": "bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": HOST,
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(directory / "data"),
        "RABBITMQ_LOG_BASE": str(directory / "logs"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
        "RABBITMQ_CONFIG_FILE": str(directory / "none"),
    }
    hello = b"AMQP\x00\x00\x09\x01"
    process, start_s = _started([_OWN_ERLANG], directory, stack, port, hello, settings)
    version = _version(["dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server"])
    return PeerServer(
        f"RabbitMQ {version}",
        "disk, synced: confirms of durable queues wait for it",
        f"{HOST}:{port}",
        [process],
        start_s,
    )


SERVERS: Final[dict[str, Start]] = {
    "roquet": start_ours,
    "apache": start_apache,
    "kafka": start_kafka,
    "nats": start_nats,
    "redis": start_redis,
    "rabbitmq": start_rabbitmq,
}


def _started(
    words: Sequence[object],
    directory: Path,
    stack: ExitStack,
    port: int,
    hello: bytes = b"",
    settings: Mapping[str, str] | None = None,
) -> tuple[subprocess.Popen[bytes], float]:
    """Started, and how long it took until it answered; with no `hello` it just has to listen."""
    directory.mkdir(parents=True, exist_ok=True)
    begin_s = time.monotonic()
    with (directory / f"{Path(str(words[0])).name}-{port}.log").open("wb") as log:
        process = subprocess.Popen(
            list(map(str, words)),
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # An installed server has been compiled once, whatever this shell wants of Python.
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
            | dict(settings or {}),
            start_new_session=True,
        )
    stack.callback(_stop, process)
    while not _answers(port, hello):
        if process.poll() is not None or time.monotonic() > begin_s + START_S_MAX:
            text = Path(log.name).read_text(errors="replace")[-300:]
            raise Unavailable(f"{words[0]} did not start: {text}")
        time.sleep(0.01)
    return process, time.monotonic() - begin_s


def _answers(port: int, hello: bytes) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), ANSWER_S_MAX) as peer:
        peer.settimeout(ANSWER_S_MAX)
        peer.sendall(hello)
        return not hello or bool(peer.recv(1))
    return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """With its children: the programs of a package may be scripts around the server."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(STOP_S_MAX)


def _asking(code: RequestCode) -> bytes:
    return encode_command(Command(code, 1))


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise Unavailable(f"{name} is not installed (Debian has it)")
    return found


def _kafka_jars() -> Path:
    def fetch(directory: Path) -> None:
        fetch_modules(directory, ("kafka_2.13",), KAFKA_VERSION, "org.apache.kafka")

    try:
        return made_once(cache_directory() / "jars" / f"kafka-{KAFKA_VERSION}", fetch)
    except (JarsUnavailable, FileNotFoundError) as error:
        raise Unavailable(str(error)[-300:]) from None


def _done(words: Sequence[object]) -> str:
    run = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if run.returncode:
        raise Unavailable(f"{words[0]} failed: {run.stderr[-300:]}")
    return run.stdout


def _version(words: Sequence[object]) -> str:
    found = re.search(r"\d+\.\d+\.\d+", _done(words))
    return found[0] if found else ""


def _resident_mb(process_id: int) -> float:
    with suppress(FileNotFoundError, ProcessLookupError):
        status = Path(f"/proc/{process_id}/status").read_text()
        if found := re.search(r"VmRSS:\s+(\d+) kB", status):
            return int(found[1]) / 1024
    return 0.0

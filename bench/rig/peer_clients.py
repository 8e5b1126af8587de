"""Python clients of other message systems, each in an environment of its own under build/.

Nothing of it gets into the environment of the project: two of them even have the same import name.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.rig.peer_servers import PeerServer, Unavailable

PROGRAMS: Final = Path(__file__).parents[1] / "clients" / "peers"
ENVIRONMENTS: Final = Path(__file__).parents[2] / "build" / "peers"
LOOP: Final = "uvloop"  # for all of them, as for ours
RUN_S_MAX: Final = 30.0
FILL_S_MAX: Final = 90.0
PATIENCE_S: Final = 20.0
PACE: Final = 500  # messages a second while delays are measured

Figures = dict[str, float]


@dataclass(frozen=True)
class PeerClient:
    """A module of `clients/peers`, and what has to be installed for it: nothing for ours."""

    name: str
    server: str  # a key of SERVERS
    module: str
    packages: tuple[str, ...] = ()
    is_blocking: bool = False
    is_grpc: bool = False
    has_bulk: bool = True

    @property
    def python(self) -> Path:
        return ENVIRONMENTS / self.module / "bin" / "python"

    def install(self) -> None:
        """Raises Unavailable. Takes a while the first time."""
        done = self.python.parents[1] / "installed"
        wanted = "\n".join((*self.packages, LOOP))
        if not self.packages or (done.exists() and done.read_text() == wanted):
            return
        venv = [sys.executable, "-m", "venv", "--clear", str(self.python.parents[1])]
        pip = [str(self.python), "-m", "pip", "install", "--quiet", *self.packages, LOOP]
        for words in (venv, pip):
            run = subprocess.run(words, capture_output=True, text=True, check=False)
            if run.returncode:
                raise Unavailable(run.stderr.strip()[-300:])
        done.write_text(wanted)

    def command(self, mode: str, server: PeerServer, words: tuple[object, ...]) -> list[str]:
        driver = PROGRAMS / f"drive_{'blocking' if self.is_blocking else 'async'}.py"
        python = self.python if self.packages else Path(sys.executable)
        address = server.grpc_address if self.is_grpc else server.address
        return list(map(str, (python, driver, self.module, mode, address, *words)))


CLIENTS: Final = (
    PeerClient("Roquet", "roquet", "roquet_asyncio"),
    PeerClient(
        "rocketmq-python-client 5.1.2",
        "roquet",
        "rocketmq_grpc",
        ("rocketmq-python-client==5.1.2",),
        is_blocking=True,
        is_grpc=True,
        has_bulk=False,
    ),
    PeerClient("Roquet", "apache", "roquet_asyncio"),
    PeerClient(
        "rocketmq 0.4.4",
        "apache",
        "rocketmq_cpp",
        ("rocketmq==0.4.4",),
        is_blocking=True,
        has_bulk=False,
    ),
    PeerClient("aiokafka 0.14.0", "kafka", "kafka_aiokafka", ("aiokafka==0.14.0",)),
    PeerClient(
        "confluent-kafka 2.16.1",
        "kafka",
        "kafka_confluent",
        ("confluent-kafka==2.16.1",),
        is_blocking=True,
    ),
    PeerClient("nats-py 2.16.0", "nats", "nats_jetstream", ("nats-py==2.16.0",)),
    PeerClient("redis 8.1.0", "redis", "redis_streams", ("redis[hiredis]==8.1.0",)),
    PeerClient("aio-pika 10.2.1", "rabbitmq", "rabbitmq_aio_pika", ("aio-pika==10.2.1",)),
)


def run_client(
    client: PeerClient, mode: str, server: PeerServer, topic: str, amount: float, group: str
) -> Figures:
    """What the client reports. Raises Unavailable."""
    try:
        run = subprocess.run(
            client.command(mode, server, (topic, amount, group)),
            env=_environment(server),
            capture_output=True,
            text=True,
            timeout=FILL_S_MAX if mode == "fill" else RUN_S_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{mode} did not end") from None
    return _reported(mode, run.stdout, run.stderr)


def measure_delays(
    client: PeerClient, server: PeerServer, topic: str, seconds: float, group: str
) -> Figures:
    """Of messages that one process sends and another receives."""
    sender = subprocess.Popen(
        client.command("pace", server, (topic, PACE, group)),
        env=_environment(server),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        return run_client(client, "delay", server, topic, seconds, group)
    finally:
        assert sender.stdin is not None
        sender.stdin.close()
        try:
            sender.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            sender.kill()
            sender.wait()


def _reported(mode: str, output: str, errors: str) -> Figures:
    """A library may end badly after all is done; what counts is the line before that."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise Unavailable(f"{mode} failed: {errors.strip()[-300:]}")
    figures: Figures = json.loads(lines[-1])
    if not figures["messages"]:
        raise Unavailable(f"{mode} got no message")
    return figures


def _environment(server: PeerServer) -> dict[str, str]:
    """Some clients write logs to the home directory; all of them read what the server uses."""
    processes = " ".join(map(str, server.process_ids()))
    return os.environ | {"HOME": str(ENVIRONMENTS), "SERVER_PROCESSES": processes}

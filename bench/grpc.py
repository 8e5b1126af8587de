"""What SDKs of 5.x get: our broker with its endpoint, and Apache 5.5.0 with its proxy, in one run.

A Go program makes the load (`clients/grpc_load.go`), on one connection, as the official SDKs have.
It takes one core at most, and what it takes is shown, because the server has the rest. Apache's
proxy is in its broker ("local mode"), as our endpoint is. One side runs after the other, the best
of its turns counts, and every wait has an end. Needs Go 1.19 or later, which fetches its modules by
name. `--write` puts the table into docs/performance.md; `--quick` takes a minute and a half, all of
it three.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import TUNED_JVM, Server, our_command
from bench.rig.measured_page import write_measured

from roquet.grpc.codes import ClientType, MessageType
from roquet.grpc.schema import Message, pb
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.messages.batch_writing import encode_batch
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import common_send_header
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion, cache_directory, fetch_modules, jvm_command, made_once
from tests.support.our_cluster import OurNameServer
from tests.support.ports import free_port
from tests.support.topics import create_topic, has_topic

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
PROGRAM: Final = Path(__file__).parent / "clients" / "grpc_load.go"
# For Go 1.19, which Debian 12 has.
MODULES: Final = ("golang.org/x/net/http2@v0.20.0", "google.golang.org/protobuf@v1.33.0")
BUILD_S_MAX: Final = 300.0
START_S_MAX: Final = 60.0
RUN_S_MAX: Final = 60.0
LOG_SHOWN_COUNT: Final = 2_000  # characters
TOPIC: Final = "bench"
GROUP: Final = "bench"
QUEUE_COUNT: Final = 8
BODY: Final = b"x" * 128
SEND_COUNT: Final = 4_096  # different requests
BATCH_COUNT: Final = 32
FILL_COUNT: Final = 128  # messages of one request
SENDER_COUNT: Final = 64
RECEIVER_COUNT: Final = 8
INVISIBLE_S: Final = 60
IDLE_S: Final = 3.0
TURNS: Final = 2
# As SDKs do, and in one request.
ACKS: Final = {"an ack for each": 1, "one ack for all": BATCH_COUNT}
# Messages a second that a side may receive: it must not run out of them.
RECEIVED_MAX: Final = {"ours": 260_000, "Apache": 90_000}
GOALS: Final = "goals: rates of 6 times Apache's, 0.15 of its CPU; a start of 0.6 s, 20 MB"

Figures = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short turns, little warm-up")
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    parser.add_argument("--write", action="store_true", help="the table into docs/performance.md")
    options = parser.parse_args()
    seconds, warm_up_s = (2, 5) if options.quick else (4, 15)
    sides = list(COMMANDS)[: 1 if options.ours_only else None]
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name:
        scratch = Path(name)
        load = Load(scratch / "load")
        figures = {each: measure(each, scratch, load, seconds, warm_up_s) for each in sides}
    rows = list(table(figures))
    print("\n".join(rows))
    print(GOALS)
    if options.write:
        write_measured(PAGE, "grpc", rows, " ".join(["python bench/grpc.py", *sys.argv[1:]]))


def measure(side: str, scratch: Path, load: "Load", seconds: int, warm_up_s: int) -> Figures:
    with running(side, scratch / f"{side}-without") as server:
        time.sleep(IDLE_S)
        bare_mb = server.resident_mb()
    grpc_port = free_port()
    with running(side, scratch / side, grpc_port, load) as server:
        figures = {"start to the first answer, s": server.start_s}
        time.sleep(IDLE_S)
        figures["memory, MB"] = server.resident_mb()
        figures["memory for the endpoint, MB"] = figures["memory, MB"] - bare_mb
        broker = f"127.0.0.1:{server.port}"
        create_topic(broker, TOPIC, QUEUE_COUNT)
        create_group(broker)
        left_count = load.run(server, grpc_port, "send", SENDER_COUNT, warm_up_s).message_count
        for _ in range(TURNS):
            turn = load.run(server, grpc_port, "send", SENDER_COUNT, seconds)
            keep(figures, f"send, {SENDER_COUNT} in flight", turn)
            left_count += turn.message_count
        for title, acked_at_once in ACKS.items():
            for _ in range(TURNS):
                left_count += fill(broker, RECEIVED_MAX[side] * seconds - left_count)
                turn = load.run(
                    server, grpc_port, "receive", RECEIVER_COUNT, seconds, acked_at_once
                )
                keep(figures, f"receive {BATCH_COUNT}, {title}", turn)
                left_count -= turn.message_count
    return figures


def keep(figures: Figures, title: str, turn: "Turn") -> None:
    """The best of all turns."""
    rate_title = f"{title}: messages/s"
    figures[rate_title] = max(turn.rate, figures.get(rate_title, turn.rate))
    for owner, cpu_us in (("", turn.cpu_us), (" of the load", turn.load_cpu_us)):
        cpu_title = f"{title}: CPU us{owner}"
        figures[cpu_title] = min(cpu_us, figures.get(cpu_title, cpu_us))


def table(figures: dict[str, Figures]) -> Iterator[str]:
    yield "| | Apache | ours | ratio |"
    yield "|---|---|---|---|"
    for title, ours in figures["ours"].items():
        apache = figures.get("Apache", {}).get(title)
        shown = ("-", "") if apache is None else (shown_figure(apache), f"{ours / apache:.2f}")
        yield f"| {title} | {shown[0]} | {shown_figure(ours)} | {shown[1]} |"


def shown_figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.1f}"


# --- the sides ---


@contextmanager
def running(
    side: str, directory: Path, grpc_port: int | None = None, load: "Load | None" = None
) -> Iterator[Server]:
    """Yields when it answers: calls of `load`, or else remoting."""
    directory.mkdir()
    port = free_port()
    with ExitStack() as stack:
        names = stack.enter_context(OurNameServer(directory / "names"))
        config = directory / "broker.conf"
        config.write_text(
            f"brokerName={side}\nbrokerClusterName=DefaultCluster\nbrokerId=0\nlistenPort={port}\n"
            f"brokerIP1=127.0.0.1\nbindAddress=127.0.0.1\nnamesrvAddr={names.address}\n"
            f"storePathRootDir={directory / 'store'}\nflushDiskType=ASYNC_FLUSH\n"
            # Apache would refuse under this load, and count nothing.
            "waitTimeMillsInSendQueue=20000\nosPageCacheBusyTimeOutMills=30000\n"
        )
        command = COMMANDS[side](directory, config, names.address, grpc_port)
        probe = None if load is None else load.begin(grpc_port, "first")
        begin_s = time.monotonic()
        with (directory / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # An installed broker has been compiled once, whatever this shell wants of Python.
                env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
            )
        stack.callback(process.wait)
        stack.callback(process.kill)
        try:
            if probe is None:
                wait_until(lambda: answers(f"127.0.0.1:{port}"), START_S_MAX)
            else:
                finished(probe, START_S_MAX)
            yield Server(side, port, process, time.monotonic() - begin_s)
        except (SystemExit, AssertionError, OSError) as failure:
            said = (directory / "log").read_text(errors="replace")[-LOG_SHOWN_COUNT:]
            raise SystemExit(f"{side}, status {process.poll()}: {failure}\n{said}") from failure


def answers(broker: str) -> bool:
    try:
        return has_topic(broker, "TBW102")
    except OSError:
        return False


def our_side(directory: Path, config: Path, _names: str, grpc_port: int | None) -> list[str]:
    if grpc_port is not None:
        with config.open("a") as file:
            file.write(f"grpcPort={grpc_port}\n")
    return our_command(directory, config)


def apache_side(directory: Path, config: Path, names: str, grpc_port: int | None) -> list[str]:
    jars = made_once(
        cache_directory() / "jars" / "proxy-5.5.0",
        lambda target: fetch_modules(target, ("rocketmq-proxy",), ApacheVersion.V5_5_0),
    )
    java = jvm_command(ApacheVersion.V5_5_0, directory, jars / "*", tuning=TUNED_JVM)
    if grpc_port is None:
        return [*java, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(config)]
    proxy = directory / "rmq-proxy.json"
    settings = {
        "rocketMQClusterName": "DefaultCluster",
        "namesrvAddr": names,
        "grpcServerPort": grpc_port,
        "remotingListenPort": free_port(),
        "localServeAddr": "127.0.0.1",
    }
    proxy.write_text(json.dumps(settings))
    words = ["-pm", "local", "-n", names, "-bc", str(config), "-pc", str(proxy)]
    return [*java, "org.apache.rocketmq.proxy.ProxyStartup", *words]


COMMANDS: Final[dict[str, Callable[[Path, Path, str, int | None], list[str]]]] = {
    "ours": our_side,
    "Apache": apache_side,
}


def create_group(broker: str) -> None:
    """Apache's proxy in a broker refuses the settings of a client whose group is not there yet."""
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    with BlockingPeer(broker) as peer:
        reply = peer.call(code, body=write_body(GroupConfig(group_name=GROUP)))
    if reply.code != ResponseCode.SUCCESS:
        raise SystemExit(f"{broker} refused the group: {reply.remark}")


def fill(broker: str, count: int) -> int:
    """By remoting, which is quick at both sides. How many messages were stored."""
    request_count = max(0, -(-count // FILL_COUNT))
    body = encode_batch(
        [(0, BODY, f"UNIQ_KEY\x01{number:032X}\x02TAGS\x01t") for number in range(FILL_COUNT)]
    )
    header = common_send_header(TOPIC)
    header.batch = True
    with BlockingPeer(broker, timeout_s=RUN_S_MAX) as peer:
        for number in range(request_count):
            header.queue_id = number % QUEUE_COUNT
            reply = peer.call(RequestCode.SEND_MESSAGE_V2, header, body)
            if reply.code != ResponseCode.SUCCESS:
                raise SystemExit(f"{broker} refused a batch: {reply.remark}")
    return request_count * FILL_COUNT


# --- the program that makes the load ---


class Turn(NamedTuple):
    """Messages, those of a second, and CPU us for each, of the server and of the load itself."""

    message_count: int
    rate: float
    cpu_us: float
    load_cpu_us: float


class Load:
    """Compiled on the spot. `directory` also gets the requests that it sends."""

    def __init__(self, directory: Path) -> None:
        if shutil.which("go") is None:
            text = "the load is a Go program: install Go 1.19 or later (Debian: golang-go)"
            raise SystemExit(text)
        directory.mkdir()
        self._directory = directory
        shutil.copy(PROGRAM, directory)
        for words in (("mod", "init", "load"), ("get", *MODULES), ("build", "-o", "load", ".")):
            command = ["go", *words]
            finished(started(command, directory), BUILD_S_MAX)
        for name, data in requests().items():
            (directory / name).write_bytes(data)

    def begin(self, port: int | None, mode: str, *words: object) -> subprocess.Popen[str]:
        address = f"127.0.0.1:{port}"
        command = [self._directory / "load", address, mode, self._directory, *words]
        return started(list(map(str, command)), self._directory)

    def run(self, server: Server, port: int, mode: str, *words: object) -> Turn:
        before_s = server.cpu_s()
        found: dict[str, Any] = json.loads(finished(self.begin(port, mode, *words)))
        cpu_s = server.cpu_s() - before_s
        count = int(found["messages"])
        cpu_us = cpu_s / count * 1e6, found["cpu_seconds"] / count * 1e6
        return Turn(count, count / found["seconds"], *cpu_us)


def started(command: list[str], directory: Path) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=directory, stdout=pipe, stderr=pipe, text=True)


def finished(process: subprocess.Popen[str], limit_s: float = RUN_S_MAX) -> str:
    """What it printed."""
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        errors = f"not done after {limit_s} s\n{errors}"
    if process.returncode:
        words = " ".join(map(str, process.args))  # type: ignore[arg-type]
        raise SystemExit(f"{words} failed: {errors[-1000:]}")
    return output


def requests() -> dict[str, bytes]:
    """By the names that the program knows them by."""
    topic, group = pb.Resource(name=TOPIC), pb.Resource(name=GROUP)
    endpoints = pb.Endpoints(scheme=3, addresses=[pb.Address(host="127.0.0.1", port=8081)])
    subscription = pb.Subscription(
        group=group, subscriptions=[pb.SubscriptionEntry(topic=topic, expression=TAGS)]
    )
    settings = pb.Settings(
        client_type=ClientType.SIMPLE_CONSUMER,
        subscription=subscription,
        request_timeout=pb.Duration(seconds=3),
    )
    receive = pb.ReceiveMessageRequest(
        group=group,
        message_queue=pb.MessageQueue(topic=topic, id=-1),
        filter_expression=TAGS,
        batch_size=BATCH_COUNT,
        invisible_duration=pb.Duration(seconds=INVISIBLE_S),
        long_polling_timeout=pb.Duration(seconds=5),
    )
    sends = [send_request(number).SerializeToString() for number in range(SEND_COUNT)]
    return {
        "route": serialized(pb.QueryRouteRequest(topic=topic, endpoints=endpoints)),
        "settings": serialized(pb.TelemetryCommand(settings=settings)),
        "sends": b"".join(len(each).to_bytes(4) + each for each in sends),
        "receive": serialized(receive),
        "ack": serialized(pb.AckMessageRequest(group=group, topic=topic)),
    }


def send_request(number: int) -> Message:
    now_s = int(time.time())
    system = pb.SystemProperties(
        tag=f"tag-{number % 4}",
        keys=[f"order-{number}"],
        message_id=f"01{number:032X}",
        message_type=MessageType.NORMAL,
        born_timestamp=pb.Timestamp(seconds=now_s),
        born_host="bench",
        body_encoding=1,
    )
    message = pb.Message(
        topic=pb.Resource(name=TOPIC),
        system_properties=system,
        user_properties=[pb.UserProperty(key="region", value="eu")],
        body=BODY,
    )
    return pb.SendMessageRequest(messages=[message])


def serialized(message: Message) -> bytes:
    data: bytes = message.SerializeToString()
    return data


TAGS: Final = pb.FilterExpression(type=1, expression="*")

if __name__ == "__main__":
    main()

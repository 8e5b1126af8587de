"""Pops of 32 messages and their acks, at our broker and at Apache 5.5.0 in one run.

One connection pops, and acknowledges what it got before it pops again: message by message, as
Java's client does, or with one batch. Our pulls of 32 are measured in the same way, as what a
broker can do that keeps no account. The client is this program, and the same for all: only ratios
mean anything. `--ours-only` leaves Apache out, `--quick` takes a fifth of the messages.
"""

import argparse
import base64
import json
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import TUNED_JVM, Server, our_command, start

from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.groups import GetMaxOffsetHeader, OffsetReplyHeader
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.protocol.messages.batch_writing import encode_batch
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import common_send_header
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion, jvm_command
from tests.support.popped import GROUP, TOPIC, Popped, pop_header
from tests.support.topics import create_topic

COUNT = 100_000
BATCH_COUNT = 32
BODY = bytes(128)
INVISIBLE_MS = 60_000
RATE_GOAL = 3.0
PULL_GOAL = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the messages")
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    options = parser.parse_args()
    count = COUNT // 5 if options.quick else COUNT
    commands: dict[str, Callable[[Path, Path], list[str]]] = {"ours": our_command}
    if not options.ours_only:
        commands["Apache"] = apache_command
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name, ExitStack() as stack:
        servers = []
        for title, command in commands.items():
            settings = "timerWheelEnable=true\nautoCreateTopicEnable=true\n"
            server = start(title, Path(name) / title, "ASYNC_FLUSH", command, settings)
            stack.callback(server.process.wait)
            stack.callback(server.process.kill)
            servers.append(server)
        for server in servers:
            fill(server, 2 * count + BATCH_COUNT)
        for title, work in WORKS.items():
            for server in servers:
                measure(server, title, work, count)
        report(servers)


def apache_command(directory: Path, config: Path) -> list[str]:
    command = jvm_command(ApacheVersion.V5_5_0, directory, tuning=TUNED_JVM)
    return [*command, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(config)]


def fill(server: Server, count: int) -> None:
    address = f"127.0.0.1:{server.port}"
    create_topic(address, TOPIC, 1)
    body = encode_batch([(0, BODY, b"")] * BATCH_COUNT)
    header = common_send_header(TOPIC)
    header.batch = True
    with BlockingPeer(address, timeout_s=60) as peer:
        for _ in range(-(-count // BATCH_COUNT)):
            reply = peer.call(RequestCode.SEND_MESSAGE_V2, header, body)
            if reply.code != 0:
                raise SystemExit(f"{server.name} refused a batch: {reply.remark}")
        # Apache's broker makes queues of its log a moment later.
        wait_until(lambda: max_offset(peer) >= count)


def max_offset(peer: BlockingPeer) -> int:
    header = GetMaxOffsetHeader(topic=TOPIC, queue_id=0)
    reply = peer.call(RequestCode.GET_MAX_OFFSET, header)
    return read_header(OffsetReplyHeader, reply.fields).offset


def measure(server: Server, title: str, work: Callable[[Server, int], int], count: int) -> None:
    begin_s, begin_cpu_s = time.monotonic(), server.cpu_s()
    done = work(server, count)
    server.figures[f"{title}, messages/s"] = done / (time.monotonic() - begin_s)
    server.figures[f"{title}, us CPU"] = (server.cpu_s() - begin_cpu_s) / done * 1e6


class Pipeline:
    """Writes many requests at once, and counts replies."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, frames: list[bytes]) -> None:
        """Returns when each of them has its reply."""
        self._socket.sendall(b"".join(frames))
        buffer = b""
        left = len(frames)
        while left:
            data = self._socket.recv(1 << 18)
            if not data:
                raise SystemExit("a broker closed the connection")
            buffer += data
            while len(buffer) >= 4 and len(buffer) >= 4 + int.from_bytes(buffer[:4]):
                buffer = buffer[4 + int.from_bytes(buffer[:4]) :]
                left -= 1

    def close(self) -> None:
        self._socket.close()


def frame(code: RequestCode, opaque: int, fields: dict[str, str], body: bytes = b"") -> bytes:
    """As Java writes it."""
    header = as_json(
        {
            "code": int(code),
            "extFields": fields,
            "flag": 0,
            "language": "JAVA",
            "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON",
            "version": 455,
        }
    )
    size = 4 + len(header) + len(body)
    return size.to_bytes(4) + len(header).to_bytes(4) + header + body


def as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def single_acks(popped: Popped) -> list[bytes]:
    return [
        frame(
            RequestCode.ACK_MESSAGE,
            number,
            {
                "consumerGroup": GROUP,
                "topic": TOPIC,
                "queueId": str(receipt.queue_id),
                "extraInfo": receipt.text,
                "offset": str(receipt.offset),
            },
        )
        for number, receipt in enumerate(popped.receipts)
    ]


def batch_ack(popped: Popped) -> list[bytes]:
    first = popped.receipts[0]
    bits = sum(1 << receipt.offset - first.start_offset for receipt in popped.receipts)
    ack = {
        "b": base64.b64encode(bits.to_bytes(-(-bits.bit_length() // 8), "little")).decode(),
        "c": GROUP,
        "it": first.invisible_ms,
        "pt": first.pop_time_ms,
        "q": first.queue_id,
        "r": first.kind,
        "rq": first.revive_queue_id,
        "so": first.start_offset,
        "t": TOPIC,
    }
    body = as_json({"acks": [ack], "brokerName": first.broker_name})
    return [frame(RequestCode.BATCH_ACK_MESSAGE, 1, {}, body)]


def popping(acks: Callable[[Popped], list[bytes]]) -> Callable[[Server, int], int]:
    def work(server: Server, count: int) -> int:
        done = 0
        header = pop_header(max_msg_nums=BATCH_COUNT, invisible_time=INVISIBLE_MS, queue_id=0)
        pipeline = Pipeline(server.port)
        with BlockingPeer(f"127.0.0.1:{server.port}", timeout_s=60) as peer:
            while done < count:
                popped = Popped(peer.call(RequestCode.POP_MESSAGE, header), server.name)
                if not popped.receipts:
                    raise SystemExit(f"{server.name} has nothing to pop: {popped.remark}")
                pipeline.ask(acks(popped))
                done += len(popped.receipts)
        pipeline.close()
        return done

    return work


def pulling(server: Server, count: int) -> int:
    offset = 0
    with BlockingPeer(f"127.0.0.1:{server.port}", timeout_s=60) as peer:
        while offset < count:
            header = PullMessageHeader(
                consumer_group="pullers",
                topic=TOPIC,
                queue_id=0,
                queue_offset=offset,
                max_msg_nums=BATCH_COUNT,
                sys_flag=4,
                commit_offset=0,
                suspend_timeout_millis=0,
                subscription="*",
                sub_version=0,
                expression_type="TAG",
            )
            reply = peer.call(RequestCode.PULL_MESSAGE, header)
            if reply.code != 0:
                raise SystemExit(f"{server.name} refused a pull: {reply.remark}")
            offset += BATCH_COUNT
    return offset


WORKS: dict[str, Callable[[Server, int], int]] = {
    "pop and 32 acks": popping(single_acks),
    "pop and batch ack": popping(batch_ack),
    "pull": pulling,
}


def report(servers: list[Server]) -> None:
    print(f"{'':34}" + "".join(f"{server.name:>12}" for server in servers) + f"{'ratio':>10}")
    for figure in servers[0].figures:
        values = [server.figures[figure] for server in servers]
        ratio = f"{values[0] / values[1]:10.2f}" if len(values) > 1 else ""
        print(f"{figure:34}" + "".join(f"{value:12,.1f}" for value in values) + ratio)
    ours = servers[0].figures
    share = ours["pull, us CPU"] / ours["pop and batch ack, us CPU"]
    print(f"goals: {RATE_GOAL} times Apache's rate; {PULL_GOAL} of our pulls, by CPU: {share:.2f}")


if __name__ == "__main__":
    main()

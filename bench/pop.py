"""Pops of 32 messages and their acks, at our broker and at Apache 5.5.0 in one run.

`load.c` makes the load: four connections with four pops in flight, each followed by its acks, one
by one as Java's client sends them, or as one batch. Each of the sixteen has its own queue, as pops
of the same one hinder each other at Apache; or all pop from any queue, as Java's push consumers do
that leave the shares to the broker. Pulls of 32 are what a broker can do that keeps no account.
The brokers take turns, each turn has a new group, and the best of three turns counts.
`--ours-only` leaves Apache out, `--quick` makes the turns short, `--write` puts the table into
docs/performance.md.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import (
    BODY_SIZE,
    TUNED_JVM,
    Server,
    compile_load,
    keep,
    our_command,
    run_load,
    start,
)
from bench.rig.measured_page import write_measured

from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.groups import GetMaxOffsetHeader, OffsetReplyHeader
from roquet.protocol.messages.batch_writing import encode_batch
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import common_send_header
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion, jvm_command
from tests.support.topics import create_topic

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
TOPIC: Final = "bench"
BATCH_COUNT: Final = 32
IN_FLIGHT: Final = 4
QUEUE_COUNT: Final = 16  # one for each pop in flight
STORED_COUNT: Final = 40_000  # in each of them
# Of all that is stored: queues are not emptied at the same pace, and none shall be empty.
POPPED_COUNT: Final = QUEUE_COUNT * STORED_COUNT * 3 // 4
TURNS: Final = 3
RATE_GOAL: Final = 3.0  # times Apache's
PULL_GOAL: Final = 0.5  # of the speed of our pulls


class Work(NamedTuple):
    mode: str  # of the generator
    queue_count: int


PULL: Final = "pull"
BATCH_ACK: Final = "pop, batch ack"
WORKS: Final = {
    "pop, 32 acks": Work("pop1", QUEUE_COUNT),
    BATCH_ACK: Work("pop", QUEUE_COUNT),
    "pop of any queue, 32 acks": Work("pop1", 0),
    "pop of any queue, batch ack": Work("pop", 0),
    PULL: Work("pull", 0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short turn of each")
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    parser.add_argument("--write", action="store_true", help="the table into docs/performance.md")
    options = parser.parse_args()
    turns, seconds = (1, 2.0) if options.quick else (TURNS, 3.0)
    commands = (
        {"ours": our_command}
        if options.ours_only
        else {"ours": our_command, "Apache": apache_command}
    )
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name, ExitStack() as stack:
        load = compile_load(Path(name))
        servers = []
        for title, command in commands.items():
            server = start(
                title, Path(name) / title, "ASYNC_FLUSH", command, "timerWheelEnable=true\n"
            )
            stack.callback(server.process.wait)
            stack.callback(server.process.kill)
            servers.append(server)
        for server in servers:
            fill(server)
        for turn in range(1 + turns):
            for title, work in WORKS.items():
                for server in servers:
                    measure(load, server, title, work, seconds, turn)
        rows = [*table(servers), "", *goals(servers)]
    print("\n".join(rows))
    if options.write:
        write_measured(PAGE, "pop", rows, "python bench/pop.py --write")


def apache_command(directory: Path, config: Path) -> list[str]:
    command = jvm_command(ApacheVersion.V5_5_0, directory, tuning=TUNED_JVM)
    return [*command, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(config)]


def fill(server: Server) -> None:
    address = f"127.0.0.1:{server.port}"
    create_topic(address, TOPIC, QUEUE_COUNT)
    body = encode_batch([(0, bytes(BODY_SIZE), b"")] * BATCH_COUNT)
    header = common_send_header(TOPIC)
    header.batch = True
    with BlockingPeer(address, timeout_s=60) as peer:
        for number in range(QUEUE_COUNT * STORED_COUNT // BATCH_COUNT):
            header.queue_id = number % QUEUE_COUNT
            reply = peer.call(RequestCode.SEND_MESSAGE_V2, header, body)
            if reply.code != 0:
                raise SystemExit(f"{server.name} refused a batch: {reply.remark}")
        # Apache's broker makes queues of its log a moment later.
        wait_until(lambda: max_offset(peer, QUEUE_COUNT - 1) >= STORED_COUNT)


def max_offset(peer: BlockingPeer, queue_id: int) -> int:
    header = GetMaxOffsetHeader(topic=TOPIC, queue_id=queue_id)
    reply = peer.call(RequestCode.GET_MAX_OFFSET, header)
    return read_header(OffsetReplyHeader, reply.fields).offset


def measure(load: Path, server: Server, title: str, work: Work, seconds: float, turn: int) -> None:
    """The first turn warms up."""
    figures, cpu_s = run_load(
        load,
        server,
        work.mode,
        IN_FLIGHT,
        seconds,
        queue_count=work.queue_count,
        limit=STORED_COUNT if title == PULL else POPPED_COUNT,
        group=f"{work.mode}-{work.queue_count}-{turn}",
    )
    if turn:
        keep(server, rate_of(title), figures["messages"] / figures["seconds"], is_rate=True)
        keep(server, cpu_of(title), cpu_s / figures["messages"] * 1e6, is_rate=False)


def rate_of(title: str) -> str:
    return f"{title}: messages/s"


def cpu_of(title: str) -> str:
    return f"{title}: CPU us a message"


def table(servers: list[Server]) -> Iterator[str]:
    ours, *others = servers
    yield f"| {' | '.join(['', *(server.name for server in others), 'ours', 'ratio'])} |"
    yield "|".join(["", *["---"] * (len(others) + 3), ""])
    for figure, value in ours.figures.items():
        cells = [shown(server.figures[figure]) for server in (*others, ours)]
        ratio = f"{value / others[0].figures[figure]:.2f}" if others else ""
        yield f"| {' | '.join([figure, *cells, ratio])} |"


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def goals(servers: list[Server]) -> Iterator[str]:
    ours = servers[0].figures
    for server in servers[1:]:
        ratios = ", ".join(
            f"{ours[rate_of(title)] / server.figures[rate_of(title)]:.2f} ({title})"
            for title in WORKS
            if title != PULL
        )
        yield f"Goal: {RATE_GOAL} times Apache's rate. Reached: {ratios}."
    rate = ours[rate_of(BATCH_ACK)] / ours[rate_of(PULL)]
    cpu = ours[cpu_of(PULL)] / ours[cpu_of(BATCH_ACK)]
    yield f"Goal: {PULL_GOAL} of the speed of our pulls. Reached: {rate:.2f}, by CPU {cpu:.2f}."


if __name__ == "__main__":
    main()

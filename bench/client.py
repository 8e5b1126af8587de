"""Our clients next to others, in one run against one broker of ours: rates, client CPU, latency.

The others are the published Python client `rocketmq` 0.4.4, which wraps a C++ library, and Apache's
Java client. Each mode runs in a process of its own (`clients/`), clients take turns, and the best
turn counts. Only ratios mean anything: machines are noisy. What cannot be had here is left out,
with the reason. `--quick` has one short turn; `--write` puts our rows into docs/performance.md. At
the end is what a burst asks of the program that sends it, next to a burst of coroutines that do
nothing, and the threads of many consumers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as numbers
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import TUNED_JVM
from bench.rig.measured_page import write_measured

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.groups import UpdateConsumerOffsetHeader
from tests.support.blocking_peer import BlockingPeer
from tests.support.jars import ApacheVersion, cache_directory, jar_directory, jvm_command, made_once
from tests.support.our_cluster import OurCluster
from tests.support.topics import create_topic

CLIENTS = Path(__file__).with_name("clients")
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
OTHER_PYTHON = "rocketmq==0.4.4"
QUEUE_COUNT = 8
FULL_TOPIC = "bench-full"
RUN_TIMEOUT_S = 180.0
BURST_COUNT = 200_000
CONSUMER_COUNT = 50

_numbers = numbers(1)


class Unavailable(Exception):
    """A client that cannot be had on this machine; the text says why."""


class Figures(NamedTuple):
    rate: float
    cpu_us: float
    p50_us: float | None


@dataclass
class Client:
    """`command` gives the command line up to the mode; it may raise Unavailable."""

    name: str
    command: Callable[[Path], tuple[list[str], dict[str, str]]]


@dataclass
class Row:
    """One line of the table: a client in one of its modes."""

    client: Client
    name: str
    mode: str
    best: Figures | None = None
    is_left_out: bool = False

    def keep(self, found: Figures) -> None:
        best = self.best or found
        self.best = Figures(
            max(best.rate, found.rate),
            min(best.cpu_us, found.cpu_us),
            None if best.p50_us is None or found.p50_us is None else min(best.p50_us, found.p50_us),
        )


@dataclass
class Contest:
    """Rows that do the same; the first is ours, and what others are compared with."""

    title: str
    rows: list[Row] = field(default_factory=list)


@dataclass
class Burst:
    """Figures of `clients/bursts.py`, the least of all turns."""

    name: str
    mode: str
    count: int
    best: dict[str, float] = field(default_factory=dict)

    def measure(self, name_server: str) -> None:
        command = [sys.executable, str(CLIENTS / "bursts.py"), self.mode, name_server, FULL_TOPIC]
        done = subprocess.run(
            [*command, str(self.count)],
            stdout=subprocess.PIPE,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=True,
        )
        figures = json.loads(done.stdout)
        assert figures.pop("count") == self.count
        self.best = {key: min(value, self.best.get(key, value)) for key, value in figures.items()}

    def report(self) -> None:
        figures = "".join(f"{key:>14}{value:8.0f}" for key, value in self.best.items())
        print(f"{self.name:34}{figures}")


def our_command(_scratch: Path) -> tuple[list[str], dict[str, str]]:
    return [sys.executable, str(CLIENTS / "ours.py")], {}


def other_python_command(scratch: Path) -> tuple[list[str], dict[str, str]]:
    def install(directory: Path) -> None:
        words = ["-m", "pip", "install", "--quiet", "--target", str(directory), OTHER_PYTHON]
        subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True)

    try:
        packages = made_once(cache_directory() / OTHER_PYTHON.replace("==", "-"), install)
    except subprocess.CalledProcessError as error:
        raise Unavailable(error.stderr.strip()[-300:]) from None
    # It writes its log to the home directory.
    environment = {"PYTHONPATH": str(packages), "HOME": str(scratch)}
    return [sys.executable, str(CLIENTS / "rocketmq_0_4_4.py")], environment


def java_command(scratch: Path) -> tuple[list[str], dict[str, str]]:
    version = ApacheVersion.V4_9_7
    classes = scratch / "classes"
    if not classes.exists():
        jars = str(jar_directory(version) / "*")
        source = str(CLIENTS / "JavaClient.java")
        words = ["javac", "-nowarn", "-encoding", "UTF-8", "-cp", jars, "-d", str(classes), source]
        try:
            subprocess.run(words, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise Unavailable("there is no javac") from None
    return [*jvm_command(version, scratch / "java", classes, tuning=TUNED_JVM), "JavaClient"], {}


OURS = Client("ours", our_command)
OTHER_PYTHON_CLIENT = Client(OTHER_PYTHON, other_python_command)
JAVA = Client("Java 4.9.7", java_command)


def sending_contests() -> list[Contest]:
    return [
        Contest(
            "one at a time",
            [
                Row(OURS, "ours, async", "send-1"),
                Row(OURS, "ours, blocking", "blocking-1"),
                Row(OTHER_PYTHON_CLIENT, OTHER_PYTHON, "send-1"),
                Row(JAVA, "Java 4.9.7", "send-1"),
            ],
        ),
        Contest(
            "64 at the same time",
            [
                Row(OURS, "ours, async", "send-64"),
                Row(OURS, "ours, 64 threads", "blocking-64"),
                Row(OTHER_PYTHON_CLIENT, f"{OTHER_PYTHON}, 64 threads", "send-64"),
                Row(JAVA, "Java 4.9.7, 64 threads", "send-64"),
            ],
        ),
        Contest(
            "batching by itself",
            [
                Row(OURS, "ours, async, linger", "send-together"),
                Row(OURS, "ours, async, send_many", "send-many"),
            ],
        ),
    ]


def reading_contests() -> list[Contest]:
    return [
        Contest(
            "pushed, one message to a listener",
            [
                Row(OURS, "ours, async", "push"),
                Row(OURS, "ours, a plain function", "push-function"),
                Row(OTHER_PYTHON_CLIENT, OTHER_PYTHON, "push"),
                Row(JAVA, "Java 4.9.7", "push"),
            ],
        ),
        Contest(
            "pushed, up to 32 to a listener",
            [
                Row(OURS, "ours, async", "push-batch"),
                Row(JAVA, "Java 4.9.7", "push-batch"),
            ],
        ),
        Contest(
            "polled",
            [
                Row(OURS, "ours, async, counted", "poll"),
                Row(OURS, "ours, async, bodies read", "poll-bodies"),
                Row(OURS, "ours, blocking, bodies read", "poll-blocking"),
                Row(JAVA, "Java 4.9.7", "poll"),
            ],
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one short turn")
    parser.add_argument("--ours-only", action="store_true", help="without the other clients")
    parser.add_argument("--write", action="store_true", help="our rows into docs/performance.md")
    options = parser.parse_args()
    seconds, count, rounds = (2.0, 100_000, 1) if options.quick else (5.0, 500_000, 3)
    sending, reading = sending_contests(), reading_contests()
    contests = [*sending, *reading]
    bursts = [
        Burst(f"{BURST_COUNT:,} coroutines that wait", "floor", BURST_COUNT),
        Burst(f"{BURST_COUNT:,} sends of 128 bytes", "burst", BURST_COUNT),
        Burst(f"{CONSUMER_COUNT} push consumers", "consumers", CONSUMER_COUNT),
    ]
    if options.ours_only:
        for contest in contests:
            contest.rows = [row for row in contest.rows if row.client is OURS]
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name:
        scratch = Path(name)
        with OurCluster(scratch / "cluster") as cluster:
            create_topic(cluster.broker, FULL_TOPIC, QUEUE_COUNT)
            full = [cluster.name_server, FULL_TOPIC, str(count)]
            run_client(Row(OURS, "fill", "fill"), scratch, [*full, "bench"])
            for _ in range(rounds):
                for row in rows_of(sending):
                    topic = f"bench-{next(_numbers)}"
                    create_topic(cluster.broker, topic, QUEUE_COUNT)
                    arguments = [cluster.name_server, topic, str(seconds), "bench"]
                    measure(row, scratch, arguments)
                for row in rows_of(reading):
                    group = f"bench-{next(_numbers)}"
                    begin_with_first(cluster.broker, group)
                    measure(row, scratch, [*full, group])
            for _ in range(rounds):
                for burst in bursts:
                    burst.measure(cluster.name_server)
    for contest in contests:
        report(contest)
    for burst in bursts:
        burst.report()
    if options.write:
        command = " ".join(["python bench/client.py", *sys.argv[1:]])
        write_measured(PAGE, "client", [*table(contests)], command)


def rows_of(contests: Sequence[Contest]) -> list[Row]:
    return [row for contest in contests for row in contest.rows]


def begin_with_first(broker: str, group: str) -> None:
    """A new group would start with the next message; not every client can change that."""
    with BlockingPeer(broker) as peer:
        for queue_id in range(QUEUE_COUNT):
            header = UpdateConsumerOffsetHeader(
                consumer_group=group, topic=FULL_TOPIC, queue_id=queue_id, commit_offset=0
            )
            reply = peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header)
            assert reply.code == ResponseCode.SUCCESS, reply.remark


def measure(row: Row, scratch: Path, arguments: Sequence[str]) -> None:
    if row.is_left_out:
        return
    try:
        row.keep(run_client(row, scratch, arguments))
    except Unavailable as error:
        row.is_left_out = True
        print(f"without {row.name}: {error}")


def run_client(row: Row, scratch: Path, arguments: Sequence[str]) -> Figures:
    command, environment = row.client.command(scratch)
    done = subprocess.run(
        [*command, row.mode, *arguments],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        raise Unavailable(f"{row.mode} ended with {done.returncode}: {done.stderr[-300:]}")
    figures = json.loads(lines[-1])
    count = figures["messages"]
    if not count:
        raise Unavailable(f"{row.mode} got no message")
    return Figures(
        count / figures["seconds"], figures["cpu_s"] / count * 1e6, figures.get("p50_us")
    )


def table(contests: Sequence[Contest]) -> Iterator[str]:
    """What the page has: our rows of all contests."""
    yield "| one client | messages/s | CPU us | p50, us |"
    yield "|---|---|---|---|"
    for contest in contests:
        for row in contest.rows:
            if row.client is OURS and row.best is not None:
                what = contest.title + row.name.removeprefix("ours")
                p50 = "" if row.best.p50_us is None else f"{row.best.p50_us:.0f}"
                yield f"| {what} | {row.best.rate:,.0f} | {row.best.cpu_us:.1f} | {p50} |"


def report(contest: Contest) -> None:
    head = contest.rows[0].best
    print(f"\n{contest.title:34}{'messages/s':>12}{'ours is x':>11}{'CPU us':>10}{'p50 us':>10}")
    for row in contest.rows:
        if row.best is None or head is None:
            continue
        ratio = "" if row is contest.rows[0] else f"{head.rate / row.best.rate:.2f}"
        p50 = "" if row.best.p50_us is None else f"{row.best.p50_us:.0f}"
        print(f"  {row.name:32}{row.best.rate:12,.0f}{ratio:>11}{row.best.cpu_us:10.1f}{p50:>10}")


if __name__ == "__main__":
    main()

"""How requests become dearer with what a broker has: topics, connections, groups, messages.

    topics        10, then 10,000 with 80,000 queues; sends go in turns to one queue of each topic,
                  for each queue in use takes a descriptor, with a Python before 3.13 two: fewer
                  topics, if `ulimit -n` allows only that
    queues        4 of one topic, then 1,000; sends go to them in turns
    connections   4, then 1,000; a thousand sends in flight on all of them
    idle          a hundred connections that do nothing, then 10,000: the memory of each
    groups        one that pulls by 32, then 100 in turns, each somewhere else in the topic
    stored        a million messages, sixteen, a hundred; written by no broker (`synthetic_store`)

Ours and Apache 4.9.7, one after the other, each on a store made for it. The last column but one
compares the rate with that of the same broker in the first line of the block: 1.00 is no growth.
The slope is the exponent by which CPU grows with the count: 0 is not at all, 1 is in proportion.
Takes half an hour and 20 GB of disk. `--quick` has short turns, and a tenth of the topics and the
stored messages; `--only NAME ...` measures the blocks with one of these in their name, and with
`--write` replaces their rows in docs/running.md.
"""

import argparse
import json
import math
import re
import resource
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import (
    Server,
    apache_command,
    compile_load,
    our_command,
    replay_turn,
    run_load,
    start,
)
from bench.operations import frame, pull_header, write_frames
from bench.rig.measured_page import measured_tables, updated_table, write_measured
from bench.rig.synthetic_store import QUEUE_COUNT, TOPIC, write_store

from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.groups import GetMaxOffsetHeader, OffsetReplyHeader
from tests.support.blocking_peer import BlockingPeer

PAGE: Final = Path(__file__).parents[1] / "docs" / "running.md"
TURNS: Final = 3
SMALL_TOPIC_COUNT: Final = 10
TOPIC_QUEUES: Final = 8
OTHER_DESCRIPTORS: Final = 5_000  # of other kinds, a quarter but 4,096 at most for them
SMALL_QUEUE_COUNT: Final = 4
SMALL_CONNECTIONS: Final = 4
SMALL_IDLE: Final = 100
PULLED_TOPIC_COUNT: Final = 200_000  # messages that groups pull, by 32
PULLED_COUNT: Final = 32
IDLE_S: Final = 3.0
IN_FLIGHT: Final = 1_000  # on all connections together
COMMANDS: Final[dict[str, Callable[[Path, Path], list[str]]]] = {
    "ours": our_command,
    "Apache": apache_command,
}


class Sizes(NamedTuple):
    topic_count: int = 10_000
    queue_count: int = 1_000
    connections: int = 1_000
    idle: int = 10_000
    groups: int = 100
    stored: tuple[int, ...] = (1_000_000, 16_000_000, 100_000_000)
    seconds: float = 5.0
    warm_up_s: float = 40.0


QUICK: Final = Sizes(
    topic_count=1_000, stored=(100_000, 1_600_000, 10_000_000), seconds=2.0, warm_up_s=8.0
)


class Sent(NamedTuple):
    rate: float
    cpu_us: float
    start_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="short turns, fewer topics, messages")
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="blocks with it")
    parser.add_argument("--write", action="store_true", help="the tables into docs/running.md")
    options = parser.parse_args()
    if options.write and options.ours_only:
        parser.error("--write needs Apache's figures, too")
    sizes = QUICK if options.quick else Sizes()
    names = ["ours"] if options.ours_only else list(COMMANDS)
    found: Found = {}
    idle: dict[str, dict[int, float]] = {}
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as directory:
        scratch = Path(directory)
        load = compile_load(scratch)
        for what, measure in BLOCKS.items():
            for name in names if is_wanted(what, options.only) else ():
                sent = measure(name, scratch, load, sizes)
                found.setdefault(what, {})[name] = sent
                report(name, what, sent)
        for name in names if is_wanted(IDLE, options.only) else ():
            idle[name] = idle_connections(name, scratch, sizes)
            report_idle(name, idle[name])
    if options.write:
        tables = [list(growth_table(found)), list(idle_table(idle))]
        if options.only != [""]:
            tables = list(map(updated_table, measured_tables(PAGE, "growth"), tables, (1, 1)))
        rows = [line for table in tables for line in ("", *table)]
        write_measured(PAGE, "growth", rows[1:], command_of(options))


Found = dict[str, dict[str, dict[int, "Sent"]]]  # by block and server


def is_wanted(what: str, names: Iterable[str]) -> bool:
    return any(name in what for name in names)


def topics(name: str, scratch: Path, load: Path, sizes: Sizes) -> dict[int, Sent]:
    found = {}
    per_queue = 1 if sys.version_info >= (3, 13) else 2
    descriptor_count = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - OTHER_DESCRIPTORS
    for count in (SMALL_TOPIC_COUNT, min(sizes.topic_count, descriptor_count // per_queue)):
        root = scratch / name / f"topics-{count}"
        topic_names = (f"{TOPIC}{number}" for number in range(count))
        write_topics(root / "store" / "config" / "topics.json", topic_names, TOPIC_QUEUES)
        with running(name, root) as server:
            found[count] = sends(load, server, sizes, topic_count=count)
    return found


def queues(name: str, scratch: Path, load: Path, sizes: Sizes) -> dict[int, Sent]:
    found = {}
    for count in (SMALL_QUEUE_COUNT, sizes.queue_count):
        root = scratch / name / f"queues-{count}"
        write_topics(root / "store" / "config" / "topics.json", [TOPIC], count)
        with running(name, root) as server:
            found[count] = sends(load, server, sizes, queue_count=count)
    return found


def connections(name: str, scratch: Path, load: Path, sizes: Sizes) -> dict[int, Sent]:
    with running(name, scratch / name / "connections") as server:
        return {
            count: sends(load, server, sizes, connections=count)
            for count in (SMALL_CONNECTIONS, sizes.connections)
        }


def groups(name: str, scratch: Path, load: Path, sizes: Sizes) -> dict[int, Sent]:
    """Pulls of a topic that nothing else uses."""
    found = {}
    root, path = scratch / name / "groups", scratch / "frames"
    write_store(root / "store", PULLED_TOPIC_COUNT)
    write_topics(root / "store" / "config" / "topics.json", [TOPIC], QUEUE_COUNT)
    with running(name, root, "messageIndexEnable=false\n") as server:
        for count in (1, sizes.groups):
            write_frames(path, pulls_of_groups(count))
            replay_turn(load, server, path, sizes.warm_up_s)
            turns = [replay_turn(load, server, path, sizes.seconds) for _ in range(TURNS)]
            found[count] = max(Sent(*turn, server.start_s) for turn in turns)
    return found


def pulls_of_groups(group_count: int) -> Iterator[bytes]:
    """The groups in turns, spread over the queue."""
    queue_size = PULLED_TOPIC_COUNT // QUEUE_COUNT - PULLED_COUNT
    for number in range(queue_size // PULLED_COUNT):
        place = number % group_count
        offset = number * PULLED_COUNT + place * queue_size // group_count
        header = pull_header(offset % queue_size, "*", "TAG")
        header.consumer_group = f"bench-{place}"
        yield frame(number, RequestCode.PULL_MESSAGE, header)


def stored(name: str, scratch: Path, load: Path, sizes: Sizes) -> dict[int, Sent]:
    found = {}
    for count in sizes.stored:
        root = scratch / name / f"stored-{count}"
        write_store(root / "store", count)
        # It has no keys: a look-up would measure something else.
        with running(name, root, "messageIndexEnable=false\n") as server:
            assert max_offset(server) == count // QUEUE_COUNT, "the store was not taken over"
            found[count] = sends(load, server, sizes)
    return found


def max_offset(server: Server) -> int:
    """Of the first queue."""
    header = GetMaxOffsetHeader(topic=TOPIC, queue_id=0)
    with BlockingPeer(f"127.0.0.1:{server.port}") as peer:
        reply = peer.call(RequestCode.GET_MAX_OFFSET, header)
    return read_header(OffsetReplyHeader, reply.fields).offset


@contextmanager
def running(name: str, directory: Path, settings: str = "") -> Iterator[Server]:
    server = start(name, directory, "ASYNC_FLUSH", COMMANDS[name], settings)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def sends(
    load: Path,
    server: Server,
    sizes: Sizes,
    *,
    connections: int = SMALL_CONNECTIONS,
    topic_count: int = 0,
    queue_count: int = 0,
) -> Sent:
    """The best of some turns, after a warm-up with the same load."""

    def turn(seconds: float) -> tuple[dict[str, float], float]:
        in_flight = IN_FLIGHT // connections
        return run_load(
            load, server, "send", in_flight, seconds, connections, topic_count, queue_count
        )

    # A queue is made by its first message, and that is not what is measured.
    while turn(sizes.warm_up_s)[0]["messages"] < max(topic_count, queue_count):
        pass
    found = []
    for _ in range(TURNS):
        seen, cpu_s = turn(sizes.seconds)
        count = max(1, seen["messages"])
        found.append(Sent(count / seen["seconds"], cpu_s / count * 1e6, server.start_s))
    return max(found)


def write_topics(path: Path, names: Iterable[str], queue_count: int) -> None:
    """A state file that both brokers load at their start."""
    path.parent.mkdir(parents=True)
    table = {
        name: {
            "topicName": name,
            "readQueueNums": queue_count,
            "writeQueueNums": queue_count,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        for name in names
    }
    path.write_text(
        json.dumps({"dataVersion": {"counter": 1, "timestamp": 1}, "topicConfigTable": table})
    )


# --- idle connections ---


def idle_connections(name: str, scratch: Path, sizes: Sizes) -> dict[int, float]:
    """Megabytes that the process keeps for itself, by the count of connections."""
    found: dict[int, float] = {}
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with running(name, scratch / name / "idle") as server, ExitStack() as stack:
        for count in (SMALL_IDLE, min(sizes.idle, hard - OTHER_DESCRIPTORS)):
            for _ in range(count - (max(found) if found else 0)):
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            time.sleep(IDLE_S)
            found[count] = own_mb(server)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return found


def own_mb(server: Server) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1000


def report_idle(name: str, found: dict[int, float]) -> None:
    print(f"\n{name}: {IDLE:24}{'MB':>12}{'kB each':>10}")
    (small, before), (large, after) = found.items()
    print(f"{small:30,}{before:14,.1f}")
    print(f"{large:30,}{after:14,.1f}{(after - before) * 1e3 / (large - small):10.2f}")


# --- what is printed ---


def report(name: str, what: str, found: dict[int, Sent]) -> None:
    head = f"{'requests/s':>12}{'CPU us':>10}{'start s':>10}{'rate':>8}{'slope':>8}"
    print(f"\n{name}: {what:24}{head}")
    first = next(iter(found.values()))
    for count, sent in found.items():
        print(
            f"{count:30,}{sent.rate:14,.0f}{sent.cpu_us:10.2f}{sent.start_s:10.2f}"
            f"{sent.rate / first.rate:8.2f}{slope_of(found, count):>8}"
        )


def slope_of(found: dict[int, Sent], count: int) -> str:
    first_count, first = next(iter(found.items()))
    if count == first_count:
        return ""
    return f"{growth_exponent(first_count, first.cpu_us, count, found[count].cpu_us):.2f}"


def growth_exponent(count: int, cost: float, larger_count: int, larger_cost: float) -> float:
    return math.log(larger_cost / cost) / math.log(larger_count / count)


# --- what is written ---


def growth_table(found: Found) -> Iterator[str]:
    servers = " | ".join(f"{name}, thousand/s | CPU us | slope" for name in COMMANDS)
    yield f"| requests | {servers} |"
    yield "|---" * (1 + 3 * len(COMMANDS)) + "|"
    for what, by_server in found.items():
        for count in next(iter(by_server.values())):
            cells = [cell for name in COMMANDS for cell in cells_of(by_server.get(name), count)]
            yield f"| {what}: {count:,} | {' | '.join(cells)} |"


def cells_of(found: dict[int, Sent] | None, count: int) -> tuple[str, str, str]:
    if found is None:
        return "-", "-", ""
    return f"{found[count].rate / 1e3:,.0f}", f"{found[count].cpu_us:.1f}", slope_of(found, count)


def idle_table(found: dict[str, dict[int, float]]) -> Iterator[str]:
    yield f"| memory, MB | {' | '.join(COMMANDS)} |"
    yield "|---" * (1 + len(COMMANDS)) + "|"
    for count in next(iter(found.values()), ()):
        cells = [f"{found[name][count]:,.1f}" if name in found else "-" for name in COMMANDS]
        yield f"| {IDLE}: {count:,} | {' | '.join(cells)} |"


def command_of(options: argparse.Namespace) -> str:
    quick = " --quick" if options.quick else ""
    only = " --only BLOCK" if options.only != [""] else ""
    return f"python bench/growth.py{quick} --write{only}"


IDLE: Final = "idle connections"
BLOCKS: Final[dict[str, Callable[[str, Path, Path, Sizes], dict[int, Sent]]]] = {
    "topics": topics,
    "queues": queues,
    "connections": connections,
    "groups": groups,
    "stored messages": stored,
}


if __name__ == "__main__":
    main()

"""How sends become dearer with what a broker has: topics, connections, stored messages.

    topics        10, then 10,000 with 80,000 queues; sends go in turns to one queue of each topic,
                  for each queue in use takes a descriptor, with a Python before 3.13 two: fewer
                  topics, if `ulimit -n` allows only that
    connections   4, then 1,000; as many sends in flight
    stored        a million messages, sixteen, a hundred; written by no broker (`synthetic_store`)

Ours and Apache 4.9.7, one after the other, each on a store made for it. The last column compares
the rate with that of the same broker in the first line of the block: 1.00 is no growth.
Takes a quarter of an hour and 20 GB of disk; `--quick` is a tenth of everything, in three minutes.
"""

import argparse
import json
import resource
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import Server, apache_command, compile_load, our_command, run_load, start
from bench.rig.synthetic_store import QUEUE_COUNT, TOPIC, write_store

from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.groups import GetMaxOffsetHeader, OffsetReplyHeader
from tests.support.blocking_peer import BlockingPeer

TURNS: Final = 3
SMALL_TOPIC_COUNT: Final = 10
TOPIC_QUEUES: Final = 8
OTHER_DESCRIPTORS: Final = 1_000
SMALL_CONNECTIONS: Final = 4
IN_FLIGHT: Final = 1_000  # on all connections together
COMMANDS: Final[dict[str, Callable[[Path, Path], list[str]]]] = {
    "ours": our_command,
    "Apache": apache_command,
}


class Sizes(NamedTuple):
    topic_count: int = 10_000
    connections: int = 1_000
    stored: tuple[int, ...] = (1_000_000, 16_000_000, 100_000_000)
    seconds: float = 5.0
    warm_up_s: float = 40.0


QUICK: Final = Sizes(1_000, 100, (100_000, 1_600_000, 10_000_000), 2.0, 5.0)


class Sent(NamedTuple):
    rate: float
    cpu_us: float
    start_s: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    options = parser.parse_args()
    sizes = QUICK if options.quick else Sizes()
    names = ["ours"] if options.ours_only else list(COMMANDS)
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as directory:
        scratch = Path(directory)
        load = compile_load(scratch)
        for name in names:
            report(name, "topics", topics(name, scratch, load, sizes))
            report(name, "connections", connections(name, scratch, load, sizes))
            report(name, "stored messages", stored(name, scratch, load, sizes))


def topics(name: str, scratch: Path, load: Path, sizes: Sizes) -> dict[int, Sent]:
    found = {}
    per_queue = 1 if sys.version_info >= (3, 13) else 2
    descriptor_count = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - OTHER_DESCRIPTORS
    for count in (SMALL_TOPIC_COUNT, min(sizes.topic_count, descriptor_count // per_queue)):
        root = scratch / name / f"topics-{count}"
        write_topics(root / "store" / "config" / "topics.json", count)
        with running(name, root) as server:
            found[count] = sends(load, server, sizes, topic_count=count)
    return found


def connections(name: str, scratch: Path, load: Path, sizes: Sizes) -> dict[int, Sent]:
    with running(name, scratch / name / "connections") as server:
        return {
            count: sends(load, server, sizes, connections=count)
            for count in (SMALL_CONNECTIONS, sizes.connections)
        }


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
) -> Sent:
    """The best of some turns, after a warm-up with the same load."""

    def turn(seconds: float) -> tuple[dict[str, float], float]:
        in_flight = IN_FLIGHT // connections
        return run_load(load, server, "send", in_flight, seconds, connections, topic_count)

    # A queue is made by its first message, and that is not what is measured.
    while turn(sizes.warm_up_s)[0]["messages"] < topic_count:
        pass
    found = []
    for _ in range(TURNS):
        seen, cpu_s = turn(sizes.seconds)
        count = max(1, seen["messages"])
        found.append(Sent(count / seen["seconds"], cpu_s / count * 1e6, server.start_s))
    return max(found)


def write_topics(path: Path, count: int) -> None:
    """A state file that both brokers load at their start."""
    path.parent.mkdir(parents=True)
    table = {
        f"bench{number}": {
            "topicName": f"bench{number}",
            "readQueueNums": TOPIC_QUEUES,
            "writeQueueNums": TOPIC_QUEUES,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        for number in range(count)
    }
    path.write_text(
        json.dumps({"dataVersion": {"counter": 1, "timestamp": 1}, "topicConfigTable": table})
    )


def report(name: str, what: str, found: dict[int, Sent]) -> None:
    print(f"\n{name}: {what:24}{'sends/s':>12}{'CPU us':>10}{'start s':>10}{'rate':>8}")
    first = next(iter(found.values()))
    for count, sent in found.items():
        print(
            f"{count:30,}{sent.rate:14,.0f}{sent.cpu_us:10.2f}{sent.start_s:10.2f}"
            f"{sent.rate / first.rate:8.2f}"
        )


if __name__ == "__main__":
    main()

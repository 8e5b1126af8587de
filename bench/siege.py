"""How long a ping takes at a broker that others mean no good to, next to one that is left alone.

Those who attack are a process of their own, so that what they take is not what the ping waits for;
on a machine with fewer than three idle cores some of the waiting is for them all the same, and what
is seen is an upper bound. The bounds of the broker are its defaults.
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import RequestCode
from roquet.protocol.command import encode_command
from tests.support.blocking_peer import BlockingPeer
from tests.support.common_requests import common_pull, common_send, send_common
from tests.support.our_cluster import OurBroker
from tests.support.process_time import work_s
from tests.support.raw_peer import RawPeer
from tests.support.topics import create_topic

TOPIC: Final = "besieged"
MEGABYTE: Final = 1024 * 1024
PAUSE_S: Final = 0.005
# How long attackers run before the first measurement.
RUN_UP_S: Final = 2.0


async def send_slowly(port: int) -> None:
    """A frame of 4 MB, half of it at once and the rest a byte at a time, until it is cut off."""
    begun = encode_command(common_send(TOPIC, bytes(4 * MEGABYTE - 1000)))[: 2 * MEGABYTE]
    async with await RawPeer.connect(port) as peer:
        peer.send(begun)
        while not peer.is_closing:
            peer.send(b"\0")
            await asyncio.sleep(0.1)


async def never_read(port: int) -> None:
    """Asks for 20 MB and takes nothing of it, until it is cut off."""
    async with await RawPeer.connect(port) as peer:
        peer.stop_reading()
        peer.send(*(common_pull(TOPIC, 0, 0, opaque=each) for each in range(20)))
        while not peer.is_closing:
            peer.send(common_pull(TOPIC, 0, 0, opaque=21))
            await asyncio.sleep(0.1)


async def come_and_go(port: int) -> None:
    async with await RawPeer.connect(port):
        pass


# Each with how many at a time.
ATTACKS: Final[dict[str, tuple[int, Callable[[int], Awaitable[None]]]]] = {
    "200 that send slowly": (200, send_slowly),
    "100 that never read": (100, never_read),
    "20 that come and go": (20, come_and_go),
}


async def attack(name: str, port: int) -> None:
    count, one = ATTACKS[name]

    async def again_and_again() -> None:
        while True:
            try:
                await one(port)
            except OSError:
                await asyncio.sleep(0.01)  # Refused or cut off.

    async with asyncio.TaskGroup() as group:
        for _ in range(count):
            group.create_task(again_and_again())


@contextmanager
def attacked(name: str | None, port: int) -> Iterator[None]:
    if name is None:
        yield
        return
    attacker = subprocess.Popen([sys.executable, __file__, "--attack", name, str(port)])
    try:
        time.sleep(RUN_UP_S)
        yield
    finally:
        attacker.kill()
        attacker.wait()


def ping_times_s(address: str, seconds: float) -> list[float]:
    times = []
    with BlockingPeer(address) as peer:
        end_s = time.monotonic() + seconds
        while (begin_s := time.monotonic()) < end_s:
            peer.call(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
            times.append(time.monotonic() - begin_s)
            time.sleep(PAUSE_S)
    return sorted(times)


def burden(address: str) -> tuple[int, float]:
    """How many are connected, and how much is held for them: whether the attack goes on."""
    with BlockingPeer(address) as peer:
        table = read_body(KvTable, peer.call(RequestCode.GET_BROKER_RUNTIME_INFO).body).table
    return int(table["connectionCount"]), int(table["connectionHeldBytes"]) / MEGABYTE


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="short turns")
    parser.add_argument("--attack", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.attack:
        asyncio.run(attack(options.attack[0], int(options.attack[1])))
        return
    seconds = 3.0 if options.quick else 15.0
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    columns = ("peers", "held MB", "pings", "p50 ms", "p99 ms", "max ms", "its CPU")
    print(f"{'broker':24}" + "".join(f"{each:>9}" for each in columns))
    with (
        tempfile.TemporaryDirectory(prefix="roquet-bench-") as directory,
        OurBroker(Path(directory)) as broker,
    ):
        create_topic(broker.address, TOPIC)
        with BlockingPeer(broker.address) as peer:
            # What those who never read ask for.
            send_common(peer, TOPIC, bytes(MEGABYTE))
        port = int(broker.address.rpartition(":")[2])
        for name in (None, *ATTACKS):
            with attacked(name, port):
                before_s = work_s(broker.process_id)
                times = ping_times_s(broker.address, seconds)
                peers, held_mb = burden(broker.address)
                share = (work_s(broker.process_id) - before_s) / seconds
            p50, p99 = times[len(times) // 2], times[round(len(times) * 0.99) - 1]
            figures = "".join(f"{each * 1000:9.2f}" for each in (p50, p99, times[-1]))
            counts = f"{peers:9}{held_mb:9.0f}{len(times):9}"
            print(f"{name or 'left alone':24}{counts}{figures}{share:9.0%}", flush=True)


if __name__ == "__main__":
    main()

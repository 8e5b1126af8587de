"""Messages that wait: what a million of them cost, and how fast they go out when they are due.

Memory is what the broker keeps for itself; mapped files are the kernel's and can go at any time.
Then a broker starts on a store full of delayed messages of one level, all of them due: they are
delivered alone, then next to plain sends (`load.c`), and finally plain sends alone. Only
ratios mean anything: machines are noisy. `--quick` has a tenth of the messages.
"""

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from msgspec.structs import replace

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import Server, compile_load, our_command, run_load, start

from roquet.broker.broker import Broker
from roquet.broker.build import build_broker
from roquet.broker.delays.delivering import redeliver
from roquet.broker.delays.due import SliceBudget
from roquet.broker.delays.postponing import append_when_due
from roquet.broker.messages.appending import NewMessage
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.transactions.phases import prepare
from roquet.disk import SystemDisk
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.groups import GetMaxOffsetHeader, OffsetReplyHeader
from roquet.protocol.host import pack_host
from roquet.store.config import StoreConfig
from tests.support.blocking_peer import BlockingPeer
from tests.support.fake_clock import FakeClock

COUNT = 1_000_000
QUEUE_COUNT = 4
TOPIC = "late"
BODY = bytes(128)
HOST = pack_host("127.0.0.1", 50_000)
HOUR_MS = 3_600_000
TIMER_SPREAD_S = 3 * 24 * 3_600 - 60
IN_FLIGHT = 64
DELIVERED_GOAL = 30_000
KEPT_GOAL = 0.8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages")
    parser.add_argument("--fill", nargs=3, metavar=("KIND", "COUNT", "DIRECTORY"), help="internal")
    options = parser.parse_args()
    if options.fill:
        kind, count, directory = options.fill
        print(json.dumps(asyncio.run(filled(kind, int(count), Path(directory)))))
        return
    count = COUNT // 10 if options.quick else COUNT
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name:
        scratch = Path(name)
        report_memory(scratch, count)
        report_rates(scratch, count, 1.0 if options.quick else 5.0)


# --- memory ---


def report_memory(scratch: Path, count: int) -> None:
    """Each kind in a process of its own, so that none starts with what another left."""
    fillers = {
        kind: subprocess.Popen(
            [sys.executable, __file__, "--fill", kind, str(count), str(scratch / kind)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for kind in PUTS
    }
    print(f"{count:,} messages that wait{'MB before':>18}{'MB after':>12}{'bytes each':>12}")
    for kind, filler in fillers.items():
        output, _ = filler.communicate()
        if filler.returncode:
            raise SystemExit(f"the store was not filled with {kind} messages")
        before, after = json.loads(output)
        print(f"{kind:32}{before:12.1f}{after:12.1f}{(after - before) * 1e6 / count:12.1f}")


async def filled(kind: str, count: int, directory: Path) -> tuple[float, float]:
    """The memory of a broker before and after it was sent this many messages that wait."""
    # An hour ago, so the delayed ones are all due when a real broker starts.
    clock = FakeClock(int(time.time() * 1000) - HOUR_MS)
    config = BrokerConfig(store=StoreConfig(root=directory), broker_name="ours")
    async with AsyncExitStack() as stack:
        broker = build_broker(config, clock, SystemDisk(), stack)
        before = own_mb()
        for number in range(count):
            PUTS[kind](broker, number)
        broker.store.file_keys()
        while (
            broker.waiting.delays.timers.next_due_ms() == clock.now_ms()
        ):  # It has not seen all yet.
            for records in broker.waiting.delays.timers.due(SliceBudget(clock)):
                redeliver(broker.messages, records)
        return before, own_mb()


def put_delayed(broker: Broker, number: int) -> None:
    append_when_due(broker, replace(new_message(broker, number), properties="DELAY\x011"))


def put_timer(broker: Broker, number: int) -> None:
    # As far apart as can be: 7919 is prime, so no second is left out.
    delay_s = 1 + number * 7_919 % TIMER_SPREAD_S
    append_when_due(
        broker, replace(new_message(broker, number), properties=f"TIMER_DELAY_SEC\x01{delay_s}")
    )


def append_half(broker: Broker, number: int) -> None:
    half = replace(
        new_message(broker, number), properties=f"TRAN_MSG\x01true\x02UNIQ_KEY\x01{number:032X}"
    )
    prepare(broker, half, "payers")


PUTS: dict[str, Callable[[Broker, int], None]] = {
    "delayed": put_delayed,
    "timer": put_timer,
    "half": append_half,
}


def new_message(broker: Broker, number: int) -> NewMessage:
    return NewMessage(
        topic=TOPIC,
        queue_id=number % QUEUE_COUNT,
        body=BODY,
        properties="",
        born_timestamp=broker.clock.now_ms(),
        born_host=HOST,
        store_host=HOST,
    )


def own_mb() -> float:
    found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1000


# --- rates ---


def report_rates(scratch: Path, count: int, seconds: float) -> None:
    def command(directory: Path, config: Path) -> list[str]:
        (scratch / "delayed").rename(directory / "store")
        return our_command(directory, config)

    load = compile_load(scratch)
    server = start("ours", scratch / "ours", "ASYNC_FLUSH", command)
    try:
        with BlockingPeer(f"127.0.0.1:{server.port}") as peer:
            delivered_alone = delivered_rate(peer, lambda: time.sleep(seconds / 2))
            plain_both = 0.0

            def send() -> None:
                nonlocal plain_both
                plain_both = plain_rate(load, server, seconds)

            delivered_both = delivered_rate(peer, send)
            if delivered_count(peer) == count:
                raise SystemExit("all were delivered too soon to tell how fast")
            while delivered_count(peer) < count:
                time.sleep(0.1)
            plain_alone = plain_rate(load, server, seconds)
    finally:
        server.process.kill()
        server.process.wait()
    print(f"\n{'':32}{'alone':>12}{'both':>12}{'kept':>12}{'goal':>12}")
    for name, alone, both, goal in (
        ("delivered/s", delivered_alone, delivered_both, f"{DELIVERED_GOAL:,}"),
        ("plain sends/s", plain_alone, plain_both, f"{KEPT_GOAL:.0%}"),
    ):
        print(f"{name:32}{alone:12,.0f}{both:12,.0f}{both / alone:12.0%}{goal:>12}")


def delivered_rate(peer: BlockingPeer, meanwhile: Callable[[], None]) -> float:
    before, begin_s = delivered_count(peer), time.monotonic()
    meanwhile()
    return (delivered_count(peer) - before) / (time.monotonic() - begin_s)


def delivered_count(peer: BlockingPeer) -> int:
    count = 0
    for queue_id in range(QUEUE_COUNT):
        header = GetMaxOffsetHeader(topic=TOPIC, queue_id=queue_id)
        reply = peer.call(RequestCode.GET_MAX_OFFSET, header)
        count += read_header(OffsetReplyHeader, reply.fields).offset
    return count


def plain_rate(load: Path, server: Server, seconds: float) -> float:
    figures, _ = run_load(load, server, "send", IN_FLIGHT, seconds)
    return figures["messages"] / figures["seconds"]


if __name__ == "__main__":
    main()

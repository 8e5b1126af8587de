"""Our broker next to Apache 4.9.7 in one run: rates, CPU, latency, start-up, memory.

A small C program makes the load (`load.c`, compiled on the spot). Both brokers run on the same file
system with their default settings, take turns, and the best of three turns counts. Only ratios mean
anything: machines are noisy. `--quick` gives a rough picture in a minute; all of it takes seven.
How the cost grows with topics, connections and messages is measured by `growth.py`, and what a
second process gives by `processes.py`.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.clients import ConsumerData, Heartbeat, SubscriptionData
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import AddressedHeader
from tests.support.blocking_peer import BlockingPeer
from tests.support.jars import ApacheVersion, jvm_command
from tests.support.ports import free_port

BODY_SIZE = 128
CONNECTIONS = 4
STARTS = 3
QUEUED = 20_000  # messages in each queue before pulls begin
# The names that all releases have.
FAST = ("laneSends", "lanePulls")
SLOW = ("ordinarySends", "ordinaryPulls")
TUNED_JVM = ("-server", "-Xms1g", "-Xmx1g", "-XX:+UseG1GC")


@dataclass
class Server:
    name: str
    port: int
    process: subprocess.Popen[bytes]
    start_s: float
    figures: dict[str, float] = field(default_factory=dict)
    # Of our fast path, by the name of the figure; and the requests that have passed so far.
    shares: dict[str, str] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found
        return int(found[1]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short turns, little warm-up")
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    options = parser.parse_args()
    seconds, warm_up_s, rounds = (2.0, 5.0, 1) if options.quick else (5.0, 45.0, 3)
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name:
        scratch = Path(name)
        load = compile_load(scratch)
        for flush in ("ASYNC_FLUSH", "SYNC_FLUSH"):
            print(f"\n{flush}, {BODY_SIZE}-byte bodies, {CONNECTIONS} connections")
            with servers(scratch / flush, flush, ours_only=options.ours_only) as both:
                if flush == "ASYNC_FLUSH":
                    measure_idle(both, 10.0 if not options.quick else 3.0)
                for server in both:
                    run_load(load, server, "send", 64, warm_up_s)
                turns = sync_turns if flush == "SYNC_FLUSH" else async_turns
                for _ in range(rounds):
                    for server in both:
                        turns(load, server, seconds)
                if flush == "ASYNC_FLUSH":
                    for server in both:
                        server.figures["resident MB after"] = server.resident_mb()
                report(both)


def compile_load(scratch: Path) -> Path:
    target = scratch / "load"
    source = Path(__file__).with_name("load.c")
    subprocess.run(["cc", "-O2", "-o", str(target), str(source)], check=True)
    return target


@contextmanager
def servers(directory: Path, flush: str, *, ours_only: bool) -> Iterator[list[Server]]:
    started: list[Server] = []
    try:
        started.append(quick_start("ours", directory / "ours", flush, our_command))
        if not ours_only:
            started.append(quick_start("Apache", directory / "apache", flush, apache_command))
        yield started
    finally:
        for server in started:
            server.process.kill()
            server.process.wait()
        shutil.rmtree(directory, ignore_errors=True)


def quick_start(
    name: str, directory: Path, flush: str, command: Callable[[Path, Path], list[str]]
) -> Server:
    """The last of three starts with nothing there yet, and the time of the best."""
    times_s = []
    for turn in range(STARTS):
        server = start(name, directory / str(turn), flush, command)
        times_s.append(server.start_s)
        if turn < STARTS - 1:
            server.process.kill()
            server.process.wait()
    server.start_s = min(times_s)
    return server


def start(
    name: str,
    directory: Path,
    flush: str,
    command: Callable[[Path, Path], list[str]],
    settings: str = "",
) -> Server:
    """A broker without a name server; it is up when it answers. `directory` may hold a store."""
    directory.mkdir(parents=True, exist_ok=True)
    port = free_port()
    config = directory / "broker.conf"
    config.write_text(
        f"brokerName={name}\nlistenPort={port}\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\n"
        f"storePathRootDir={directory / 'store'}\nflushDiskType={flush}\n"
        "namesrvAddr=127.0.0.1:1\nregisterBrokerTimeoutMills=500\n"
        # Apache would refuse under this load, and count nothing.
        f"waitTimeMillsInSendQueue=20000\nosPageCacheBusyTimeOutMills=30000\n{settings}"
    )
    begin = time.monotonic()
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            command(directory, config),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            # An installed broker has been compiled once, whatever this shell wants of Python.
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"},
        )
    await_port(port, process)
    return Server(name, port, process, time.monotonic() - begin)


def our_command(_directory: Path, config: Path) -> list[str]:
    return [str(Path(sys.executable).with_name("roquet")), "broker", "-c", str(config)]


def apache_command(directory: Path, config: Path) -> list[str]:
    command = jvm_command(ApacheVersion.V4_9_7, directory, tuning=TUNED_JVM)
    return [*command, "org.apache.rocketmq.broker.BrokerStartup", "-c", str(config)]


def await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Returns when a server listens; both brokers serve from then on."""
    wanted = f":{port:04X} "
    while process.poll() is None:
        lines = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
        if any(wanted in line and " 0A " in line for line in lines.splitlines()):
            return
        time.sleep(0.01)
    raise SystemExit("a broker did not start")


def measure_idle(both: list[Server], seconds: float) -> None:
    for server in both:
        server.figures["start-up s"] = server.start_s
    time.sleep(5)
    before = {server.name: server.cpu_s() for server in both}
    time.sleep(seconds)
    for server in both:
        server.figures["idle CPU %"] = (server.cpu_s() - before[server.name]) / seconds * 100
        server.figures["resident MB idle"] = server.resident_mb()


def async_turns(load: Path, server: Server, seconds: float) -> None:
    record(server, "send, 64 in flight", *run_load(load, server, "send", 64, seconds))
    figures, _ = run_load(load, server, "send", 1, seconds, connections=1)
    keep(server, "send, 1 in flight p50 us", figures["p50_us"], is_rate=False)
    keep(server, "send, 1 in flight p99 us", figures["p99_us"], is_rate=False)
    record(server, "batches of 32", *run_load(load, server, "batch", 4, seconds))
    record(server, "pulls of 32", *run_load(load, server, "pull", 4, seconds))
    with member(server):
        record(server, "pulls by heartbeat", *run_load(load, server, "member", 4, seconds))
        record(server, "mixed requests", *run_load(load, server, "mixed", 16, seconds))


def sync_turns(load: Path, server: Server, seconds: float) -> None:
    record(server, "send, 64 in flight", *run_load(load, server, "send", 64, seconds))
    record(server, "batches of 32", *run_load(load, server, "batch", 4, seconds))
    record(server, "pulls of 32", *run_load(load, server, "pull", 4, seconds))


@contextmanager
def member(server: Server) -> Iterator[None]:
    """A member of group "bench" that registers its subscription, and pulls nothing."""
    consumer = ConsumerData(
        group_name="bench",
        consume_type="CONSUME_PASSIVELY",
        message_model="CLUSTERING",
        consume_from_where="CONSUME_FROM_FIRST_OFFSET",
        subscription_data_set=[SubscriptionData(topic="bench", sub_string="*")],
    )
    beat = Heartbeat(client_id="bench", consumer_data_set=[consumer], producer_data_set=[])
    with BlockingPeer(f"127.0.0.1:{server.port}") as peer:
        peer.call(RequestCode.HEART_BEAT, AddressedHeader(), write_body(beat))
        yield


def run_load(
    load: Path,
    server: Server,
    mode: str,
    in_flight: int,
    seconds: float,
    connections: int = CONNECTIONS,
    topic_count: int = 0,
    queue_count: int = 0,
    *,
    limit: int = QUEUED,
    group: str = "bench",
) -> tuple[dict[str, float], float]:
    """What the generator saw, and the CPU seconds of the broker meanwhile."""
    words = [server.port, mode, connections, in_flight, seconds, BODY_SIZE, "bench", limit]
    words += [topic_count, queue_count, group, server.name]
    before = server.cpu_s()
    output = subprocess.run(
        [str(load), *map(str, words)], check=True, capture_output=True, text=True
    )
    return parse_load(server, output), server.cpu_s() - before


def parse_load(server: Server, output: subprocess.CompletedProcess[str]) -> dict[str, float]:
    """What the generator saw; what it complains about is printed."""
    if output.stderr:
        print(f"  {server.name}: {output.stderr.strip()[:300]}")
    figures: dict[str, float] = json.loads(output.stdout)
    return figures


def replay(load: Path, server: Server, frames: Path, seconds: float, count: int = 2**62) -> float:
    """CPU us of the broker a request, for frames on one connection; at most `count` of them."""
    _, cpu_us = replay_turn(load, server, frames, seconds, count)
    return cpu_us


def replay_turn(
    load: Path, server: Server, frames: Path, seconds: float, count: int = 2**62
) -> tuple[float, float]:
    """Requests a second, too."""
    words = [server.port, "replay", 1, 64, seconds, 0, frames, count]
    before = server.cpu_s()
    output = subprocess.run(
        [str(load), *map(str, words)], check=True, capture_output=True, text=True
    )
    cpu_s = server.cpu_s() - before
    figures = parse_load(server, output)
    requests = max(1, figures["requests"])
    return requests / figures["seconds"], cpu_s / requests * 1e6


def fast_path_share(server: Server, passed: dict[str, int]) -> str:
    """How much took our fast path since these requests had passed; those have passed now."""
    with BlockingPeer(f"127.0.0.1:{server.port}") as peer:
        reply = peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
    table = read_body(KvTable, reply.body).table
    before = dict(passed)
    passed |= {name: int(table.get(name, 0)) for name in (*FAST, *SLOW)}
    fast, slow = (
        sum(passed[name] - before.get(name, 0) for name in names) for names in (FAST, SLOW)
    )
    return f"{fast / (fast + slow):.1%}" if fast + slow else ""


def record(server: Server, name: str, figures: dict[str, float], cpu_s: float) -> None:
    server.shares[f"{name}/s"] = fast_path_share(server, server.passed)
    messages = max(1, figures["messages"])
    keep(server, f"{name}/s", messages / figures["seconds"], is_rate=True)
    keep(server, f"{name} CPU us", cpu_s / messages * 1e6, is_rate=False)


def keep(server: Server, name: str, value: float, *, is_rate: bool) -> None:
    best = max if is_rate else min
    server.figures[name] = best(value, server.figures.get(name, value))


def report(both: list[Server]) -> None:
    names = "".join(f"{server.name:>12}" for server in both)
    ratio = f"{'ratio':>10}" if len(both) > 1 else ""
    print(f"{'':32}{names}{ratio}{'in the fast path':>14}")
    for name in both[0].figures:
        values = [server.figures[name] for server in both]
        row = "".join(f"{value:12,.2f}" if value < 100 else f"{value:12,.0f}" for value in values)
        ratio = f"{values[0] / values[1]:10.2f}" if len(values) > 1 and values[1] else ""
        print(f"{name:32}{row}{ratio}{both[0].shares.get(name, ''):>14}")


if __name__ == "__main__":
    main()

"""A master and its slave, ours next to Apache's, in one run: catching up, and what waiting costs.

    catch-up MB/s      a slave that was away gets what the master took meanwhile
    SYNC_MASTER        sends that wait for the slave: how many a second, and how long one takes
    idle CPU %         of master and slave together
    no writable master three of ours with etcd, the master killed again and again: `outages.py`

The load is made as in `broker.py`. Only ratios mean anything: machines are noisy.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import (
    Server,
    apache_command,
    await_port,
    compile_load,
    keep,
    our_command,
    record,
    report,
    run_load,
)
from bench.outages import measure_outages, report_outages

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.name_server import KvTable
from roquet.protocol.codes import RequestCode
from tests.support.blocking_peer import BlockingPeer
from tests.support.ports import free_port

Command = Callable[[Path, Path], list[str]]

LARGE_BODY = 4096
PATIENCE_S = 300.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less to catch up, short turns")
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    parser.add_argument("--kills", type=int, default=10, help="of masters, 0 for none")
    parser.add_argument("--kills-only", action="store_true", help="nothing but these")
    options = parser.parse_args()
    # Less than a file: Apache's masters send a new slave their last one only.
    size, seconds, warm_up_s = (200 << 20, 2.0, 5.0) if options.quick else (800 << 20, 5.0, 30.0)
    kinds: list[tuple[str, Command]] = [("ours", our_command)]
    if not options.ours_only:
        kinds.append(("Apache", apache_command))
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name:
        scratch = Path(name)
        if not options.kills_only:
            compare(scratch, kinds, (size, seconds, warm_up_s))
        if options.kills:
            report_outages(measure_outages(scratch / "outages", options.kills))


def compare(
    scratch: Path, kinds: list[tuple[str, Command]], amounts: tuple[int, float, float]
) -> None:
    load = compile_load(scratch)
    servers = []
    for kind, command in kinds:
        directory = scratch / kind
        with started(kind, directory, command, "SYNC_MASTER") as master:
            measure(load, master, directory, command, amounts)
            servers.append(master)
        shutil.rmtree(directory, ignore_errors=True)
    report(servers)


def measure(
    load: Path, master: Server, directory: Path, command: Command, amounts: tuple[int, float, float]
) -> None:
    size, seconds, warm_up_s = amounts
    fill(load, master, size)
    begin_end = log_end(master)
    begin = time.monotonic()
    with slave_of(master, directory, command) as slave:
        first_s = until(lambda: log_end(slave) > 0) - begin
        copied_s = until(lambda: log_end(slave) >= begin_end) - begin - first_s
        keep(master, "catch-up MB/s", begin_end / copied_s / 1e6, is_rate=True)
        run_load(load, master, "send", 64, warm_up_s)
        for _ in range(3):
            record(
                master, "SYNC_MASTER, 64 in flight", *run_load(load, master, "send", 64, seconds)
            )
            figures, _ = run_load(load, master, "send", 1, seconds, connections=1)
            keep(master, "SYNC_MASTER, 1 in flight p50 us", figures["p50_us"], is_rate=False)
        before = master.cpu_s() + slave.cpu_s()
        time.sleep(seconds)
        idle = (master.cpu_s() + slave.cpu_s() - before) / seconds * 100
        keep(master, "idle CPU % of both", idle, is_rate=False)


def fill(load: Path, master: Server, size: int) -> None:
    """No slave confirms it, and the replies report that; what counts is that it is stored."""
    while log_end(master) < size:
        words = [master.port, "send", 4, 64, 2, LARGE_BODY, "bench", 1]
        subprocess.run([str(load), *map(str, words)], check=True, capture_output=True)


def log_end(server: Server) -> int:
    try:
        with BlockingPeer(f"127.0.0.1:{server.port}") as peer:
            reply = peer.call(RequestCode.GET_BROKER_RUNTIME_INFO)
    except OSError:
        return 0
    if not reply.body:
        return 0  # Apache's brokers listen before they have an answer.
    return int(read_body(KvTable, reply.body).table["commitLogMaxOffset"])


def until(condition: Callable[[], bool]) -> float:
    """When it came true."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline_s:
            raise SystemExit("a slave does not follow")
        time.sleep(0.02)
    return time.monotonic()


@contextmanager
def slave_of(
    master: Server, directory: Path, command: Command, settings: str = ""
) -> Iterator[Server]:
    address = f"haMasterAddress=127.0.0.1:{master.port + 1}\nbrokerId=1\n{settings}"
    with started(master.name, directory, command, "SLAVE", address) as slave:
        yield slave


@contextmanager
def started(
    name: str, directory: Path, command: Command, role: str, more: str = ""
) -> Iterator[Server]:
    home = directory / role
    home.mkdir(parents=True)
    port = free_port()
    config = home / "broker.conf"
    config.write_text(
        f"brokerName={name}\nlistenPort={port}\nbrokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\n"
        f"bindAddress=127.0.0.1\nstorePathRootDir={home / 'store'}\n"
        f"storePathCommitLog={home / 'store' / 'commitlog'}\nhaListenPort={port + 1}\n"
        f"brokerRole={role}\nnamesrvAddr=127.0.0.1:1\nregisterBrokerTimeoutMills=500\n"
        f"waitTimeMillsInSendQueue=20000\nosPageCacheBusyTimeOutMills=30000\n{more}"
    )
    begin = time.monotonic()
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command(home, config), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        await_port(port, process)
        yield Server(name, port, process, time.monotonic() - begin)
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    main()

"""What a second process gives: `roquet broker --processes N` under one load, spread evenly.

One broker is one core, so N of them are worth it where N cores have nothing else to do. Here the
load itself takes a part of every core: with as many processes as cores, what is seen is a lower
bound. The sum of CPU per send says what it would be with cores to spare: where it stays the same,
N processes do N times as much.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import await_port, compile_load

from roquet.cli.serving.broker_process import PORT_STEP
from tests.support.ports import free_port

BODY_SIZE: Final = 128
IN_FLIGHT: Final = 256  # to all processes together
CONNECTIONS: Final = 4
TURNS: Final = 3


class Sent(NamedTuple):
    rate: float
    cpu_us: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="short turns")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2], metavar="COUNT")
    options = parser.parse_args()
    seconds = 2.0 if options.quick else 8.0
    print(f"{os.cpu_count()} cores\n{'processes':>10}{'sends/s':>12}{'rate':>8}{'CPU us':>10}")
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as directory:
        load = compile_load(Path(directory))
        first = None
        for count in options.processes:
            sent = measured(Path(directory) / str(count), load, count, seconds)
            first = first or sent
            print(f"{count:10}{sent.rate:12,.0f}{sent.rate / first.rate:8.2f}{sent.cpu_us:10.2f}")


def measured(directory: Path, load: Path, count: int, seconds: float) -> Sent:
    """The best of some turns, after one to warm up."""
    directory.mkdir()
    port = free_port()
    words = ["broker", "--processes", str(count), "--port", str(port), "--dir", str(directory)]
    with (directory / "log").open("wb") as log:
        group = subprocess.Popen(
            [str(Path(sys.executable).with_name("roquet")), *words, "-n", "127.0.0.1:1"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    ports = [port + PORT_STEP * index for index in range(count)]
    try:
        for each in ports:
            await_port(each, group)
        turns = [turn(load, group.pid, ports, seconds) for _ in range(1 + TURNS)]
        return max(turns[1:])
    finally:
        group.send_signal(signal.SIGTERM)
        group.wait()
        shutil.rmtree(directory, ignore_errors=True)


def turn(load: Path, group_id: int, ports: list[int], seconds: float) -> Sent:
    before_s = cpu_s(group_id)
    in_flight = IN_FLIGHT // CONNECTIONS // len(ports)
    running = [
        subprocess.Popen(
            [
                str(load),
                *map(str, (port, "send", CONNECTIONS, in_flight, seconds, BODY_SIZE, "bench", 0)),
            ],
            stdout=subprocess.PIPE,
        )
        for port in ports
    ]
    seen = [json.loads(each.communicate()[0]) for each in running]
    messages = max(1, sum(each["messages"] for each in seen))
    used_s = cpu_s(group_id) - before_s
    return Sent(messages / max(each["seconds"] for each in seen), used_s / messages * 1e6)


def cpu_s(group_id: int) -> float:
    """Of the process and of those that it forked."""
    children = Path(f"/proc/{group_id}/task/{group_id}/children").read_text().split()
    total = 0
    for process_id in (str(group_id), *children):
        fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(") ")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()

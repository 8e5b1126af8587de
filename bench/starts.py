"""How quickly brokers start, also after a crash, and what they take before anyone has come.

    start      a broker with an empty directory, until it listens
    memory     of that broker, idle: all that is resident, and what it has for itself (`RssAnon`)
    restart    kill -9 while four connections send, then a start on the same directory: 3 million
               messages of 128 bytes lie in one file of the log, nearly a GB, all in the page cache
    up         `roquet up`, until it prints the ready line: a name server and a broker

Ours and Apache 4.9.7 take turns; the median of five starts counts, of three restarts. `--ours-only`
is without Apache, `--write` puts the table into docs/performance.md. Takes three minutes.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import (
    BODY_SIZE,
    CONNECTIONS,
    Server,
    apache_command,
    compile_load,
    our_command,
    run_load,
    start,
)
from bench.rig.measured_page import write_measured

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
COMMANDS: Final = {"Apache": apache_command, "ours": our_command}
START_COUNT: Final = 5
RESTART_COUNT: Final = 3
STORED_COUNT: Final = 3_000_000
IN_FLIGHT: Final = 64
TURN_S: Final = 1.0
LAST_TURN_S: Final = 30.0  # much longer than the broker lives
KILLED_AFTER_S: Final = 0.5
IDLE_S: Final = 3.0


class Measured(NamedTuple):
    start_s: float
    resident_mb: float
    own_mb: float
    restart_s: float
    up_s: float | None = None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    parser.add_argument("--write", action="store_true", help="the table into docs/performance.md")
    options = parser.parse_args()
    names = ["ours"] if options.ours_only else list(COMMANDS)
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as directory:
        scratch = Path(directory)
        load = compile_load(scratch)
        found = {name: measured(name, scratch, load) for name in names}
    rows = list(table(found))
    print("\n".join(rows))
    if options.write:
        write_measured(PAGE, "starts", rows, "python bench/starts.py --write")


def measured(name: str, scratch: Path, load: Path) -> Measured:
    times_s = []
    for turn in range(START_COUNT):
        server = started(name, scratch / f"{name}-{turn}")
        times_s.append(server.start_s)
        if turn < START_COUNT - 1:
            kill(server)
    time.sleep(IDLE_S)
    memory = server.resident_mb(), own_mb(server)
    restarts_s = restart_times_s(load, server, scratch / f"{name}-{START_COUNT - 1}")
    up_s = median(up_times_s()) if name == "ours" else None
    return Measured(median(times_s), *memory, median(restarts_s), up_s)


def started(name: str, directory: Path) -> Server:
    return start(name, directory, "ASYNC_FLUSH", COMMANDS[name])


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait()


def own_mb(server: Server) -> float:
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"RssAnon:\s+(\d+) kB", status)
    assert found
    return int(found[1]) / 1024


def restart_times_s(load: Path, server: Server, directory: Path) -> Iterator[float]:
    stored = 0.0
    while stored < STORED_COUNT:
        figures, _ = run_load(load, server, "send", IN_FLIGHT, TURN_S)
        stored += figures["messages"]
    for _ in range(RESTART_COUNT):
        kill_while_it_stores(load, server)
        server = started(server.name, directory)
        yield server.start_s
    kill(server)


def kill_while_it_stores(load: Path, server: Server) -> None:
    words = [server.port, "send", CONNECTIONS, IN_FLIGHT, LAST_TURN_S, BODY_SIZE, "bench", 0]
    sending = subprocess.Popen(
        [str(load), *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(KILLED_AFTER_S)
    kill(server)
    sending.kill()
    sending.wait()


def up_times_s() -> Iterator[float]:
    program = str(Path(sys.executable).with_name("roquet"))
    words = [program, "up", "--name-server-port", "0", "--broker-port", "0"]
    # An installed broker has been compiled once, whatever this shell wants of Python.
    settings = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for _ in range(START_COUNT):
        begin = time.monotonic()
        with subprocess.Popen(
            words, env=settings, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            yield time.monotonic() - begin
            process.terminate()


def table(found: dict[str, Measured]) -> Iterator[str]:
    ours, apache = found["ours"], found.get("Apache")
    yield "| | Apache | ours | ratio |"
    yield "|---|---|---|---|"
    for text, our_figure, theirs in (
        ("start, s", ours.start_s, apache and apache.start_s),
        ("memory idle, MB", ours.resident_mb, apache and apache.resident_mb),
        ("... of its own", ours.own_mb, apache and apache.own_mb),
        (
            "restart after `kill -9`, 1 GB in the log, s",
            ours.restart_s,
            apache and apache.restart_s,
        ),
        ("`roquet up`, s", ours.up_s, None),
    ):
        assert our_figure is not None
        cells = f"{theirs:.2f} | {our_figure:.2f} | {our_figure / theirs:.2f}" if theirs else ""
        yield f"| {text} | {cells or f'- | {our_figure:.2f} | '} |"


if __name__ == "__main__":
    main()

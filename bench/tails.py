"""How long single sends take while a broker has something else to do, ours and Apache 4.9.7.

A generator (`load.c`) sends 1,000 messages a second, whatever the broker does, and counts from when
each was due: a pause shows in all that it kept waiting. Meanwhile

    nothing else      what the machine does by itself
    log rolls         messages of 16 KiB fill a file of the log every four seconds
    keys filed        another generator sends 10,000 messages a second, each with its key
    cold backlog      a group reads old files that are not in memory, as fast as it gets them
    retention         expired files are deleted, a GiB of them
    slave             a new slave catches up with half a GiB

Files of the log have 64 MiB, so that there are many of them. `--quick` has short turns and little
to delete and to copy, `--write` puts the table into docs/performance.md. Takes five minutes.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.broker import (
    Server,
    apache_command,
    compile_load,
    our_command,
    parse_load,
    run_load,
    start,
)
from bench.replication import fill, log_end, slave_of, started, until
from bench.rig.measured_page import write_measured
from bench.rig.synthetic_store import QUEUE_COUNT, write_store

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
RATE: Final = 1_000
KEYED_RATE: Final = 10_000
CONNECTIONS: Final = 4
IN_FLIGHT: Final = 256  # room for what a long pause keeps waiting
SMALL_BODY: Final = 128
LARGE_BODY: Final = 16 << 10
FILE_SIZE: Final = 64 << 20
DELETION_S_MAX: Final = 120.0
SETTINGS: Final = f"mappedFileSizeCommitLog={FILE_SIZE}\n"
DELETING: Final = f"deleteWhen={';'.join(f'{hour:02}' for hour in range(24))}\nfileReservedTime=1\n"
KEEPING: Final = "fileReservedTime=1000000\n"

Command = Callable[[Path, Path], list[str]]


class Amounts(NamedTuple):
    seconds: float = 12.0
    warm_up_s: float = 8.0
    backlog: int = 10_000_000  # messages
    copied_size: int = 512 << 20


QUICK: Final = Amounts(6.0, 2.0, 4_000_000, 128 << 20)


class Tail(NamedTuple):
    """In microseconds."""

    p50: float
    p99: float
    p999: float
    longest: float


class Case(NamedTuple):
    """A broker under this, in which directory it was started, and by which command."""

    server: Server
    directory: Path
    command: Command
    load: Path
    amounts: Amounts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="short turns")
    parser.add_argument("--ours-only", action="store_true", help="without Apache")
    parser.add_argument("--only", default="", metavar="NAME", help="cases with this in a name")
    parser.add_argument("--write", action="store_true", help="the table into docs/performance.md")
    options = parser.parse_args()
    kinds: dict[str, Command] = {"ours": our_command}
    if not options.ours_only:
        kinds["Apache"] = apache_command
    amounts = QUICK if options.quick else Amounts()
    found: dict[str, dict[str, Tail]] = {}
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name:
        load = compile_load(Path(name))
        for (case_name, measure), (kind, command) in (
            (case, each) for case in CASES.items() for each in kinds.items()
        ):
            if options.only in case_name:
                directory = Path(name) / kind
                tail = measure(kind, directory, command, load, amounts)
                found.setdefault(case_name, {})[kind] = tail
                shutil.rmtree(directory, ignore_errors=True)
    rows = list(table(found, list(kinds)))
    print("\n".join(rows))
    if options.write:
        write_measured(PAGE, "tails", rows, "python bench/tails.py --write")


@contextmanager
def running(
    kind: str, directory: Path, command: Command, load: Path, amounts: Amounts, settings: str = ""
) -> Iterator[Case]:
    """Warmed up: the first thousand sends of a JVM would be all that is seen."""
    server = start(kind, directory, "ASYNC_FLUSH", command, SETTINGS + (settings or KEEPING))
    try:
        run_load(load, server, "send", 16, amounts.warm_up_s)
        yield Case(server, directory, command, load, amounts)
    finally:
        server.process.kill()
        server.process.wait()


def sends(case: Case, body_size: int = SMALL_BODY, seconds: float = 0.0) -> Tail:
    seconds = seconds or case.amounts.seconds
    words = [case.server.port, "paced", CONNECTIONS, IN_FLIGHT, seconds, body_size, "bench", RATE]
    output = subprocess.run(
        [str(case.load), *map(str, words)], check=True, capture_output=True, text=True
    )
    figures = parse_load(case.server, output)
    return Tail(*(figures[f"{name}_us"] for name in ("p50", "p99", "p999", "max")))


@contextmanager
def meanwhile(case: Case, mode: str, in_flight: int, limit: int) -> Iterator[None]:
    """Another generator on one connection."""
    words = [case.server.port, mode, 1, in_flight, 3600, SMALL_BODY, "bench", limit]
    other = subprocess.Popen([str(case.load), *map(str, words)], stdout=subprocess.DEVNULL)
    try:
        yield
        assert other.poll() is None, "the other generator ended too early"
    finally:
        other.kill()
        other.wait()


# --- cases ---


def alone(kind: str, directory: Path, command: Command, load: Path, amounts: Amounts) -> Tail:
    with running(kind, directory, command, load, amounts) as case:
        return sends(case)


def log_rolls(kind: str, directory: Path, command: Command, load: Path, amounts: Amounts) -> Tail:
    with running(kind, directory, command, load, amounts) as case:
        before = log_end(case.server)
        tail = sends(case, LARGE_BODY)
        assert log_end(case.server) // FILE_SIZE > before // FILE_SIZE, "it did not roll"
        return tail


def keys_filed(kind: str, directory: Path, command: Command, load: Path, amounts: Amounts) -> Tail:
    with (
        running(kind, directory, command, load, amounts) as case,
        meanwhile(case, "paced", IN_FLIGHT, KEYED_RATE),
    ):
        return sends(case)


def cold_backlog(
    kind: str, directory: Path, command: Command, load: Path, amounts: Amounts
) -> Tail:
    write_store(directory / "store", amounts.backlog, FILE_SIZE)
    evict(directory)
    with (
        running(kind, directory, command, load, amounts, KEEPING) as case,
        meanwhile(case, "pull", 1, amounts.backlog // QUEUE_COUNT),
    ):
        return sends(case)


def evict(directory: Path) -> None:
    """What was written is on disk, and no longer in memory."""
    for path in directory.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def retention(kind: str, directory: Path, command: Command, load: Path, amounts: Amounts) -> Tail:
    """The turn in which files were deleted; Apache's brokers start with it after a minute."""
    write_store(directory / "store", amounts.backlog, FILE_SIZE)
    for path in (directory / "store" / "commitlog").iterdir():
        os.utime(path, (0, 0))  # Ours reads the age from messages, Apache from the file.
    with running(kind, directory, command, load, amounts, DELETING) as case:
        give_up_s = time.monotonic() + DELETION_S_MAX
        while time.monotonic() < give_up_s:
            before = oldest_file(directory)
            tail = sends(case, seconds=case.amounts.seconds / 2)
            if oldest_file(directory) > before:
                return tail
    raise SystemExit(f"{kind} deleted no file")


def oldest_file(directory: Path) -> str:
    return min(path.name for path in (directory / "store" / "commitlog").iterdir())


def slave_catches_up(
    kind: str, directory: Path, command: Command, load: Path, amounts: Amounts
) -> Tail:
    """From its first byte on: the start of another JVM is none of the master's doing."""
    with started(kind, directory, command, "ASYNC_MASTER", SETTINGS) as master:
        case = Case(master, directory, command, load, amounts)
        run_load(load, master, "send", 16, amounts.warm_up_s)
        fill(load, master, amounts.copied_size)
        wanted = log_end(master)
        with slave_of(master, directory, command, SETTINGS) as slave:
            until(lambda: log_end(slave) > 0)
            tail = sends(case)
            until(lambda: log_end(slave) >= wanted)
            return tail


Measure = Callable[[str, Path, Command, Path, Amounts], Tail]
CASES: Final[dict[str, Measure]] = {
    "nothing else": alone,
    "log rolls": log_rolls,
    "keys filed": keys_filed,
    "cold backlog": cold_backlog,
    "retention": retention,
    "slave": slave_catches_up,
}


def table(found: dict[str, dict[str, Tail]], kinds: Sequence[str]) -> Iterator[str]:
    """In milliseconds."""
    names = [f"{kind} {name}" for kind in kinds for name in ("p50", "p99", "p99.9", "max")]
    yield f"| ms, while | {' | '.join(names)} |"
    yield "|---" * (len(names) + 1) + "|"
    for name, tails in found.items():
        cells = [f"{value / 1e3:.2f}" for kind in kinds for value in tails[kind]]
        yield f"| {name} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()

"""`roquet store`: inspect, verify, dump and repair the files of a broker, without the broker."""

import os
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from rich.console import Console

from roquet.cli.argument_types import moment_ms, whole_number
from roquet.cli.store import divergent
from roquet.cli.store.dump import DumpSelection, message_view, selected
from roquet.cli.store.inspection import inspect_store, inspection_view
from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.errors import RoquetError
from roquet.reporting import LateProgress, Reporter
from roquet.store.offline.reader import StoreReader, find_stores
from roquet.store.offline.repair import repair as repair_store
from roquet.temporary import temporary_directory

_INSPECT: Final = """\
Show files, offsets, topics, queues and times.

Read-only, also while a broker is using the directory.
"""
_VERIFY: Final = """\
Verify queues and index against the log, every record against its checksum, and state files.

Faults are printed with their range and make the exit code 1. What the
next start of the broker repairs, such as a last record that a crash cut
off, is not a fault. Read-only: the queues are rebuilt in a temporary
directory.
"""
_DUMP: Final = """\
Print messages, one line of JSON each, in the order of topics, queues and offsets.

Bodies are decompressed and in base64. A TIME is 2026-11-15T20:16:48 (local
time unless it has a zone), 90m (ago), now, or milliseconds since 1970.

Read-only, also while a broker is using the directory. Unreadable records
are reported on standard error and make the exit code 1.
"""
_REPAIR: Final = """\
Rebuild queues and index from the log.

The log itself is not changed; damaged records are reported on standard
error. A directory that a broker is using is refused.
"""

# Lines that do not go to a terminal are not wrapped.
_PLAIN_WIDTH: Final = 1000


class _Command(NamedTuple):
    description: str  # its first line is shown in the list of commands
    run: Callable[[Namespace], int]


def define(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    parsers = {}
    for name, command in _COMMANDS.items():
        each = parsers[name] = commands.add_parser(
            name,
            help=command.description.partition("\n")[0],
            description=command.description,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        each.add_argument(
            "directory",
            type=Path,
            metavar="DIR",
            help="Store directory of a broker, or the one given to `roquet up --dir`.",
        )
        each.set_defaults(run=command.run)
    parsers["inspect"].add_argument("--json", action="store_true", help="Print one JSON object.")
    _define_selection(parsers["dump"])
    divergent.define(parsers["divergent"])


def _define_selection(parser: ArgumentParser) -> None:
    count = whole_number(0)
    parser.add_argument("--topic", help="Of this topic only.")
    parser.add_argument("--queue", type=count, help="Of this queue only.")
    parser.add_argument("--offset", type=count, default=0, help="Starting at this queue offset.")
    parser.add_argument("--count", type=count, help="At most this many in total.")
    parser.add_argument(
        "--from-time", type=moment_ms, metavar="TIME", help="Stored at this time or later."
    )
    parser.add_argument(
        "--to-time", type=moment_ms, metavar="TIME", help="Stored before this time."
    )
    parser.add_argument("--key", help="With this key, or this unique key.")


def _inspect(given: Namespace) -> int:
    with _failures_reported("inspect"):
        inspections = [inspect_store(root, SystemDisk()) for root in _stores(given.directory)]
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    for inspection in inspections:
        if given.json:
            print(msgspec.json.encode(inspection).decode())
        else:
            console.print(inspection_view(inspection))
    return 0


def _verify(given: Namespace) -> int:
    if find_spec("numpy") is None:
        reason = "numpy is not installed: pip install 'roquet[tools]'"
        print(f"roquet store verify: {reason}", file=sys.stderr)
        return 1
    with _failures_reported("verify"):
        stores = _stores(given.directory)
    return max(_verify_one(root, _mark(root, stores)) for root in stores)


def _verify_one(root: Path, mark: str) -> int:
    from roquet.store.offline.verify import verify as verify_store  # noqa: PLC0415

    with (
        _failures_reported("verify"),
        temporary_directory() as scratch,
        _record_progress("verify") as progress,
    ):
        result = verify_store(root, scratch, SystemDisk(), progress.advance)
    for fault in result.faults:
        print(f"{mark}{fault}")
    print(
        f"{mark}{result.record_count} records, {result.queue_count} queues, "
        f"{result.key_count} keys, {result.state_file_count} state files: "
        f"{len(result.faults) or 'no'} faults"
    )
    return 1 if result.faults else 0


def _dump(given: Namespace) -> int:
    with _failures_reported("dump", exit_code=2):
        selection = DumpSelection(
            topic=given.topic,
            queue_id=given.queue,
            offset=given.offset,
            count=given.count,
            key=given.key,
            from_time=given.from_time,
            to_time=given.to_time,
        )
    with _failures_reported("dump"):
        problems = _print_messages(_stores(given.directory), selection)
    for problem in problems:
        print(f"roquet store dump: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _repair(given: Namespace) -> int:
    with _failures_reported("repair"):
        stores = _stores(given.directory)
    for root in stores:
        mark = _mark(root, stores)
        with _failures_reported("repair"), _record_progress("repair") as progress:
            rebuilt = repair_store(root, SystemClock(), SystemDisk(), progress.advance)
        for fault in rebuilt.faults():
            print(f"roquet store repair: {mark}{fault}", file=sys.stderr)
        print(f"{mark}queues and index rebuilt from {rebuilt.record_count} records")
    return 0


def _divergent(given: Namespace) -> int:
    with _failures_reported("divergent"):
        return divergent.show(given, _stores(given.directory))


_COMMANDS: Final = {
    "divergent": _Command(divergent.DESCRIPTION, _divergent),
    "inspect": _Command(_INSPECT, _inspect),
    "verify": _Command(_VERIFY, _verify),
    "dump": _Command(_DUMP, _dump),
    "repair": _Command(_REPAIR, _repair),
}


def _print_messages(stores: Sequence[Path], selection: DumpSelection) -> list[str]:
    """What could not be read."""
    problems = []
    count_left = selection.count
    for root in stores:
        with StoreReader.open(root) as reader:
            count, found = _print_store(reader, replace(selection, count=count_left))
        problems += [f"{_mark(root, stores)}{each}" for each in found]
        count_left = None if count_left is None else count_left - count
    return problems


def _print_store(reader: StoreReader, selection: DumpSelection) -> tuple[int, list[str]]:
    """The number of messages printed, and what could not be read."""
    count = 0
    problems = []
    out = sys.stdout.buffer
    for message in selected(reader, selection):
        count += 1
        view = message_view(message)
        out.write(view.line)
        if view.problem is not None:
            problems.append(f"record at {message.physical_offset}: {view.problem}")
    out.flush()
    problems += [f"record at {each.physical_offset}: {each.reason}" for each in reader.damages]
    problems += [
        f"queue {queue_id} of {topic} is damaged and truncated; see `roquet store repair`"
        for topic, queue_id in reader.broken_queues
        if selection.topic in (None, topic) and selection.queue_id in (None, queue_id)
    ]
    return count, problems


def _record_progress(command: str) -> AbstractContextManager[LateProgress]:
    """Most of them are read twice: for their queue, and for their keys."""
    reporter = Reporter(f"roquet store {command}", as_json=False)
    return reporter.late_progress("records read")


@contextmanager
def _failures_reported(command: str, *, exit_code: int = 1) -> Iterator[None]:
    """Reports a failure in one line. Raises SystemExit."""
    try:
        yield
    except BrokenPipeError:
        # The reader of the output has closed it; `main` ends without a message.
        raise
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except RoquetError as error:
        reason = str(error)
    else:
        return
    print(f"roquet store {command}: {reason}", file=sys.stderr)
    sys.exit(exit_code)


def _stores(directory: Path) -> list[Path]:
    """The store that a directory is, or all that a cluster keeps there.

    Raises BadStoreDirectory, or OSError, which has the reason.
    """
    os.scandir(directory).close()
    return [layout.root for layout in find_stores(SystemDisk(), directory)]


def _mark(root: Path, stores: Sequence[Path]) -> str:
    """Prefix of lines about one store of several."""
    return f"{root.name}: " if len(stores) > 1 else ""

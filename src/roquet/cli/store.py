"""`roquet store`: look at the files of a broker, without the broker."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

if TYPE_CHECKING:
    from roquet.cli.store_selection import Selection

app = typer.Typer(no_args_is_help=True, help="Look at the files of a broker, without the broker.")

Directory: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DIR", help="Where a broker keeps its files.", show_default=False)
]

# Lines that do not go to a terminal are not wrapped.
_PLAIN_WIDTH: Final = 1000


@app.command()
def inspect(
    directory: Directory,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Show files, offsets, topics, queues and times.

    Nothing is changed, and it does not matter whether a broker is using the
    directory.
    """
    # Imported here and below, so that no other command waits for it.
    import msgspec  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    from roquet.cli.store_inspection import inspect_store  # noqa: PLC0415
    from roquet.cli.store_view import inspection_view  # noqa: PLC0415
    from roquet.disk import SystemDisk  # noqa: PLC0415

    with _failures_told("inspect"):
        inspection = inspect_store(_existing(directory), SystemDisk())
    if as_json:
        typer.echo(msgspec.json.encode(inspection))
        return
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    console.print(inspection_view(inspection))


@app.command()
def verify(directory: Directory) -> None:
    """Compare queues and index with the log, and every record with its checksum.

    What is wrong is printed with its range and makes the exit code 1. What
    the next broker puts in order by itself, such as the last record that a
    crash cut off, is not wrong. Nothing is changed; the queues are made once
    more in a temporary directory.
    """
    from tempfile import TemporaryDirectory  # noqa: PLC0415

    from roquet.disk import SystemDisk  # noqa: PLC0415
    from roquet.store.verifying import verify as verify_store  # noqa: PLC0415

    with _failures_told("verify"), TemporaryDirectory(prefix="roquet-verify-") as scratch:
        result = verify_store(_existing(directory), Path(scratch), SystemDisk())
    for fault in result.faults:
        typer.echo(str(fault))
    typer.echo(
        f"{result.record_count} records, {result.queue_count} queues, {result.key_count} keys: "
        f"{len(result.faults) or 'no'} faults"
    )
    if result.faults:
        raise typer.Exit(1)


@app.command()
def dump(
    directory: Directory,
    topic: Annotated[str | None, typer.Option(help="Of this topic only.")] = None,
    queue: Annotated[int | None, typer.Option(min=0, help="Of this queue only.")] = None,
    offset: Annotated[int, typer.Option(min=0, help="From this queue offset on.")] = 0,
    count: Annotated[int | None, typer.Option(min=0, help="At most so many in all.")] = None,
    from_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stored at this time or later.")
    ] = None,
    to_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Stored before this time.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="With this word among their keys, or as their unique key.")
    ] = None,
) -> None:
    """Print messages, one line of JSON each, in the order of topics, queues and offsets.

    Bodies are decompressed and in base64. A TIME is 2026-11-15T20:16:48, with
    or without a zone, or milliseconds since 1970.

    Nothing is changed, and it does not matter whether a broker is using the
    directory. What cannot be read is named on standard error and makes the
    exit code 1.
    """
    from roquet.cli.store_selection import Selection, parse_time  # noqa: PLC0415

    with _failures_told("dump", exit_code=2):
        selection = Selection(
            topic=topic,
            queue_id=queue,
            offset=offset,
            count=count,
            key=key,
            from_time=None if from_time is None else parse_time(from_time),
            to_time=None if to_time is None else parse_time(to_time),
        )
    with _failures_told("dump"):
        problems = _print_messages(_existing(directory), selection)
    for problem in problems:
        typer.echo(f"roquet store dump: {problem}", err=True)
    if problems:
        raise typer.Exit(1)


@app.command()
def repair(directory: Directory) -> None:
    """Make queues and index from the log again.

    The log is only read; what is damaged in it stays so, and is named on
    standard error. A directory that a broker is using is refused.
    """
    from roquet.clock import SystemClock  # noqa: PLC0415
    from roquet.disk import SystemDisk  # noqa: PLC0415
    from roquet.store.repairing import repair as repair_store  # noqa: PLC0415

    with _failures_told("repair"):
        rebuilt = repair_store(_existing(directory), SystemClock(), SystemDisk())
    for fault in rebuilt.faults():
        typer.echo(f"roquet store repair: {fault}", err=True)
    typer.echo(f"queues and index made again from {rebuilt.record_count} records")


def _print_messages(directory: Path, selection: "Selection") -> list[str]:
    """What could not be read."""
    from roquet.cli.store_selection import selected  # noqa: PLC0415
    from roquet.cli.store_view import message_view  # noqa: PLC0415
    from roquet.store.reading import StoreReader  # noqa: PLC0415

    problems = []
    out = typer.get_binary_stream("stdout")
    with StoreReader.open(directory) as reader:
        for message in selected(reader, selection):
            view = message_view(message)
            out.write(view.line)
            if view.problem is not None:
                problems.append(f"record at {message.physical_offset}: {view.problem}")
        out.flush()
        problems += [f"record at {each.physical_offset}: {each.reason}" for each in reader.damages]
        problems += [
            f"queue {queue_id} of {topic} is damaged and ends too early; see `roquet store repair`"
            for topic, queue_id in reader.broken_queues
            if selection.topic in (None, topic) and selection.queue_id in (None, queue_id)
        ]
    return problems


@contextmanager
def _failures_told(command: str, *, exit_code: int = 1) -> Iterator[None]:
    """What keeps a command from its work is told in one line."""
    from roquet.errors import RoquetError  # noqa: PLC0415

    try:
        yield
    except BrokenPipeError:
        # Whoever reads the output has seen enough. The caller of all commands ends in silence.
        raise
    except OSError as error:
        reason = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    except RoquetError as error:
        reason = str(error)
    else:
        return
    typer.echo(f"roquet store {command}: {reason}", err=True)
    raise typer.Exit(exit_code)


def _existing(directory: Path) -> Path:
    """Raises OSError, which says more than that there is no log in it."""
    os.scandir(directory).close()
    return directory

"""What every job reports through: what it waits for, how far it is, what came of it, why not.

Standard output has the result and nothing else: a table, or with `--json` one JSON object. Standard
error is for whoever waits: a moving display on a terminal, and a plain line now and then elsewhere.
Nothing here knows Spark.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Lock
from typing import Final, NamedTuple, NoReturn, final

import msgspec
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from roquet.errors import RoquetError

FINISHED: Final = 0
FAILED: Final = 1  # or, for jobs that look for something wrong: found it
MISUSED: Final = 2
INTERRUPTED: Final = 130  # as shells have it

# Where nobody watches, a line is a line of some log.
_PLAIN_LINE_EVERY_S: Final = 5.0
# Lines that do not go to a terminal are not wrapped.
_PLAIN_WIDTH: Final = 1000

Fact = int | float | str | bool | datetime | None


class ReportTable(NamedTuple):
    """`name` is the heading, and the member of the JSON object, a list of objects."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Fact]]


class Report(NamedTuple):
    """What came of a job. Names are those of JSON: words joined by underscores."""

    facts: Mapping[str, Fact]
    tables: Sequence[ReportTable] = ()

    def to_json(self) -> str:
        members: dict[str, object] = {name: _zoned(value) for name, value in self.facts.items()}
        for table in self.tables:
            members[table.name] = [
                dict(zip(table.columns, map(_zoned, row), strict=True)) for row in table.rows
            ]
        return msgspec.json.encode(members).decode()


@final
class JobProgress:
    """How far a job is. May be told from any thread, as often as it likes."""

    def __init__(self, what: str, reporter: "Reporter", live: Progress | None) -> None:
        self._what = what
        self._reporter = reporter
        self._live = live
        self._task: TaskID | None = None
        self._started_s = time.monotonic()
        self._told_s: float | None = None
        self._untold: str | None = None
        self._lock = Lock()

    def show(self, done: int, total: int | None = None, **facts: Fact) -> None:
        """`done` of `total` so far; facts are shown behind it by their names."""
        elapsed_s = time.monotonic() - self._started_s
        text = progress_text(done, total, self._what, elapsed_s, facts)
        with self._lock:
            if self._live is not None:
                self._show_live(done, total, text)
                return
            self._untold = text
            now_s = time.monotonic()
            if self._told_s is None or now_s - self._told_s >= _PLAIN_LINE_EVERY_S:
                self._told_s = now_s
                self._tell()

    def _show_live(self, done: int, total: int | None, text: str) -> None:
        assert self._live is not None
        if self._task is None:
            self._task = self._live.add_task(text, total=total)
        self._live.update(self._task, completed=done, total=total, description=text)

    def end(self) -> None:
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        if self._untold is not None:
            self._reporter.say(self._untold)
            self._untold = None


@final
class Reporter:
    """The voice of one job, `command`, which every line to standard error begins with."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        self.command = command
        self._as_json = as_json
        self._terminal = Console(file=sys.stderr) if sys.stderr.isatty() else None

    def say(self, text: str) -> None:
        """A line for whoever waits."""
        line = f"{self.command}: {text}"
        if self._terminal is None:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        else:
            # Above what moves. Neither wrapped nor coloured: it may be text of others.
            self._terminal.print(Text(line), soft_wrap=True)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Says what is waited for as long as it takes."""
        if self._terminal is not None:
            with _kept(self._terminal), _live(self._terminal) as live:
                live.add_task(f"{what} ...", total=None)
                yield
        else:
            self.say(f"{what} ...")
            yield

    @contextmanager
    def progress(self, what: str) -> Iterator[JobProgress]:
        """`what` is counted: messages, files, queues."""
        if self._terminal is not None:
            with _live(self._terminal) as live:
                yield JobProgress(what, self, live)
            return
        progress = JobProgress(what, self, None)
        try:
            yield progress
        finally:
            progress.end()

    def finish(self, report: Report) -> None:
        """Prints the result."""
        if self._as_json:
            sys.stdout.write(report.to_json() + "\n")
            return
        is_terminal = sys.stdout.isatty()
        console = Console(file=sys.stdout, width=None if is_terminal else _PLAIN_WIDTH)
        console.print(report_view(report))

    def fail(self, reason: str, exit_code: int = FAILED) -> NoReturn:
        """One line, and the end. Raises SystemExit."""
        self.say(" ".join(reason.split()))
        sys.exit(exit_code)

    @contextmanager
    def failures_told(self) -> Iterator[None]:
        """What was raised on purpose, or by the system, ends the job with one line."""
        handler = _SaidByReporter(self)
        root = logging.getLogger()
        root.addHandler(handler)
        try:
            yield
        except BrokenPipeError:
            # Whoever reads the output has seen enough. The caller of all commands ends in silence.
            raise
        except OSError as error:
            self.fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except RoquetError as error:
            self.fail("; ".join([str(error), *getattr(error, "__notes__", ())]))
        finally:
            root.removeHandler(handler)


@final
class _SaidByReporter(logging.Handler):
    """Warnings of whatever runs, above the moving display and not across it."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(logging.WARNING)
        self._reporter = reporter

    def emit(self, record: logging.LogRecord) -> None:
        self._reporter.say(record.getMessage())


def progress_text(
    done: int, total: int | None, what: str, elapsed_s: float, facts: Mapping[str, Fact]
) -> str:
    """`12,000 of 60,000 messages, 3 files, lag 7, 2,400 a second`."""
    counted = f"{done:,}" if total is None else f"{done:,} of {total:,}"
    parts = [f"{counted} {what}"]
    parts += [f"{_named(name)} {shown(value)}" for name, value in facts.items()]
    if done and elapsed_s > 0:
        parts.append(f"{done / elapsed_s:,.0f} a second")
    return ", ".join(parts)


def report_view(report: Report) -> RenderableType:
    parts: list[RenderableType] = []
    if report.facts:
        facts = Table(box=None, pad_edge=False, show_header=False)
        facts.add_column(no_wrap=True)
        facts.add_column(overflow="fold")
        for name, value in report.facts.items():
            facts.add_row(Text(_named(name)), Text(shown(value)))
        parts.append(facts)
    for table in report.tables:
        if parts:
            parts.append("")
        parts += [Text(_named(table.name), style="bold"), _table_view(table)]
    return Group(*parts)


def _table_view(table: ReportTable) -> Table:
    view = Table(box=None, pad_edge=False)
    for index, name in enumerate(table.columns):
        values = [row[index] for row in table.rows]
        is_number = bool(values) and all(isinstance(each, int | float | None) for each in values)
        view.add_column(_named(name), justify="right" if is_number else "left", overflow="fold")
    for row in table.rows:
        # A name may look like markup, and is none.
        view.add_row(*(Text(shown(value)) for value in row))
    return view


def shown(value: Fact) -> str:
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds")
        case _:
            # A name or a body may hold what a terminal obeys.
            return "".join(each if each.isprintable() else "�" for each in value)


def _zoned(value: Fact) -> Fact:
    """Spark's times are those of this machine and do not say so."""
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _named(name: str) -> str:
    return name.replace("_", " ")


@contextmanager
def _kept(terminal: Console) -> Iterator[None]:
    """While Spark starts, what its processes complain into takes the place of standard error."""
    before = terminal.file
    with open(os.dup(before.fileno()), "w", encoding="utf-8") as own:  # noqa: PTH123
        terminal.file = own
        try:
            yield
        finally:
            terminal.file = before


def _live(terminal: Console) -> Progress:
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        console=terminal,
        transient=True,
    )

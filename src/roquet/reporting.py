"""Reports of commands and jobs: what they wait for, their progress, their result.

Standard output has the result and nothing else: a table, or with `--json` one JSON object. Standard
error shows progress: a live display on a terminal, and a line from time to time elsewhere.
Nothing here knows Spark.
"""

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Final, NamedTuple, NoReturn, final

import msgspec
from rich.console import Console, Group, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from roquet.errors import RoquetError
from roquet.time_spans import span_text

FINISHED: Final = 0
FAILED: Final = 1  # or, for jobs that check something: found an error
MISUSED: Final = 2
INTERRUPTED: Final = 130  # as shells have it

# Without a terminal, lines go to a log.
_LOG_LINE_EVERY_S: Final = 5.0
# A longer wait is explained.
_PATIENCE_S: Final = 2.0
# Lines that do not go to a terminal are not wrapped.
_LOG_WIDTH: Final = 1000

# Names of values that are shown in percent end so.
_RATIO: Final = "_ratio"

# Columns that have a colour.
_PROBLEM: Final = "problem"
_SEVERITY: Final = "severity"
_SEVERITY_STYLES: Final = {"problem": "red", "warning": "yellow", "fine": "green"}

Fact = int | float | str | bool | datetime | timedelta | Mapping[str, str] | None


class ReportTable(NamedTuple):
    """`name` is the heading, and the member of the JSON object, a list of objects."""

    name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Fact]]


class Report(NamedTuple):
    """The result of a job. Names are those of JSON: words joined by underscores."""

    facts: Mapping[str, Fact]
    tables: Sequence[ReportTable] = ()
    # The last line for people; JSON has its facts by name.
    summary: str | None = None

    def to_json(self) -> str:
        members: dict[str, object] = {name: _as_json(value) for name, value in self.facts.items()}
        for table in self.tables:
            members[table.name] = [
                dict(zip(table.columns, map(_as_json, row), strict=True)) for row in table.rows
            ]
        return msgspec.json.encode(members).decode()


@final
class JobProgress:
    """The progress of a job. May be updated from any thread, at any rate."""

    def __init__(self, what: str, reporter: "Reporter", live: Progress | None) -> None:
        self._what = what
        self._reporter = reporter
        self._live = live
        self._task: TaskID | None = None
        self._started_s = time.monotonic()
        self._printed_s: float | None = None
        self._unprinted: str | None = None
        self._lock = Lock()

    def show(self, done: int, total: int | None = None, **facts: Fact) -> None:
        """`done` of `total` so far; facts are shown after it by their names."""
        elapsed_s = time.monotonic() - self._started_s
        text = progress_text(done, total, self._what, elapsed_s, facts)
        with self._lock:
            if self._live is not None:
                self._show_live(done, total, text)
                return
            self._unprinted = text
            now_s = time.monotonic()
            if self._printed_s is None or now_s - self._printed_s >= _LOG_LINE_EVERY_S:
                self._printed_s = now_s
                self._print_latest()

    def _show_live(self, done: int, total: int | None, text: str) -> None:
        assert self._live is not None
        if self._task is None:
            self._task = self._live.add_task(text, total=total)
        self._live.update(self._task, completed=done, total=total, description=text)

    def end(self) -> None:
        with self._lock:
            self._print_latest()

    def _print_latest(self) -> None:
        if self._unprinted is not None:
            self._reporter.say(self._unprinted)
            self._unprinted = None


@final
class LateProgress:
    """Quick work shows nothing: a display that vanishes at once only irritates."""

    def __init__(self, what: str, total: int | None, terminal: Console | None) -> None:
        self._what = what
        self._total = total
        self._terminal = terminal
        self._started_s = time.monotonic()
        self._done = 0
        self._live: Progress | None = None
        self._task: TaskID | None = None

    def advance(self, count: int = 1) -> None:
        self._done += count
        elapsed_s = time.monotonic() - self._started_s
        if self._terminal is None or elapsed_s < _PATIENCE_S:
            return
        text = progress_text(self._done, self._total, self._what, elapsed_s, {})
        if self._live is None or self._task is None:
            self._live = _live(self._terminal)
            self._live.start()
            self._task = self._live.add_task(text, total=self._total)
        self._live.update(self._task, completed=self._done, description=text)

    def end(self) -> None:
        if self._live is not None:
            self._live.stop()


@final
class Reporter:
    """Reports one job; every line to standard error starts with `command`."""

    def __init__(self, command: str, *, as_json: bool) -> None:
        self.command = command
        self._as_json = as_json
        self._terminal = Console(file=sys.stderr) if sys.stderr.isatty() else None

    def say(self, text: str) -> None:
        """A line on standard error."""
        line = f"{self.command}: {text}"
        if self._terminal is None:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
        else:
            # Above the live display. Neither wrapped nor coloured: it may be text of others.
            self._terminal.print(Text(line), soft_wrap=True)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """Shows what is waited for while the block runs."""
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

    @contextmanager
    def late_progress(self, what: str, total: int | None = None) -> Iterator["LateProgress"]:
        """A bar on a terminal, if it takes long; otherwise nothing."""
        progress = LateProgress(what, total, self._terminal)
        try:
            yield progress
        finally:
            progress.end()

    def finish(self, report: Report) -> None:
        """Prints the result."""
        if self._as_json:
            sys.stdout.write(report.to_json() + "\n")
            return
        # A configured width is obeyed, as on a terminal.
        is_narrow = sys.stdout.isatty() or "COLUMNS" in os.environ
        console = Console(file=sys.stdout, width=None if is_narrow else _LOG_WIDTH)
        console.print(report_view(report, console))

    def fail(self, reason: str, exit_code: int = FAILED) -> NoReturn:
        """Prints one line and exits. Raises SystemExit."""
        self.say(" ".join(reason.split()))
        sys.exit(exit_code)

    @contextmanager
    def failures_reported(self) -> Iterator[None]:
        """What was raised on purpose, or by the system, ends the job with one line."""
        handler = _ReporterHandler(self)
        root = logging.getLogger()
        root.addHandler(handler)
        try:
            yield
        except BrokenPipeError:
            # The reader closed the output. The caller of all commands exits without a message.
            raise
        except OSError as error:
            self.fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except RoquetError as error:
            self.fail("; ".join([str(error), *getattr(error, "__notes__", ())]))
        finally:
            root.removeHandler(handler)


@final
class _ReporterHandler(logging.Handler):
    """Logged warnings are printed above the live display and not across it."""

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
    parts += [f"{heading(name)} {shown(value)}" for name, value in facts.items()]
    if done and elapsed_s > 0:
        parts.append(f"{done / elapsed_s:,.0f} a second")
    return ", ".join(parts)


def report_view(report: Report, console: Console) -> RenderableType:
    """Tables that `console` has not room for become one paragraph for each row."""
    parts: list[RenderableType] = []
    if report.facts:
        parts.append(_pairs_view(report.facts))
    for table in report.tables:
        if parts:
            parts.append("")
        if report.facts or len(report.tables) > 1:
            parts.append(Text(heading(table.name), style="bold"))
        view = _table_view(table)
        # By itself, a console reports the width of things squeezed into it.
        free = console.options.update(max_width=_LOG_WIDTH)
        if console.measure(view, options=free).maximum <= console.width:
            parts.append(view)
        else:
            parts += _paragraphs(table)
    if report.summary is not None:
        parts += ["", Text(report.summary)]
    return Group(*parts)


def _pairs_view(facts: Mapping[str, Fact]) -> Table:
    view = Table(box=None, pad_edge=False, show_header=False)
    view.add_column(no_wrap=True)
    view.add_column(overflow="fold")
    for name, value in facts.items():
        view.add_row(Text(heading(name)), _cell_text(name, value))
    return view


def _table_view(table: ReportTable) -> Table:
    view = Table(box=None, pad_edge=False)
    for index, name in enumerate(table.columns):
        known = [row[index] for row in table.rows if row[index] is not None]
        is_number = bool(known) and all(map(_is_number, known))
        view.add_column(heading(name), justify="right" if is_number else "left", overflow="fold")
    for row in table.rows:
        # A name may look like markup, and is none.
        view.add_row(*map(_cell_text, table.columns, row))
    return view


def _is_number(value: Fact) -> bool:
    return isinstance(value, int | float | timedelta) and not isinstance(value, bool)


def _paragraphs(table: ReportTable) -> Iterator[RenderableType]:
    for index, row in enumerate(table.rows):
        if index:
            yield ""
        yield _pairs_view(dict(zip(table.columns, row, strict=True)))


def _cell_text(name: str, value: Fact) -> Text:
    """What needs action is coloured."""
    if name == _PROBLEM and value is not None:
        return Text(cell(name, value), style="red")
    style = _SEVERITY_STYLES.get(str(value), "") if name == _SEVERITY else ""
    return Text(cell(name, value), style=style)


def cell(name: str, value: Fact) -> str:
    """A value for people; its name decides the format."""
    if isinstance(value, float) and name.endswith(_RATIO):
        return f"{value:.0%}"
    return shown(value)


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
        case timedelta():
            return span_text(value)
        case Mapping():
            return shown(", ".join(f"{name}={text}" for name, text in value.items()) or None)
        case _:
            # A name or a body may hold what a terminal obeys.
            return "".join(each if each.isprintable() else "�" for each in value)


def _as_json(value: Fact) -> Fact:
    """As JSON has it. Spark's times are local ones without a zone."""
    match value:
        case datetime():
            return value.astimezone(UTC)
        case timedelta():
            return value.total_seconds()
        case _:
            return value


def heading(name: str) -> str:
    """A unit is part of what is shown."""
    return name.removesuffix("_s").removesuffix(_RATIO).replace("_", " ")


@contextmanager
def _kept(terminal: Console) -> Iterator[None]:
    """Keeps the display on the real standard error, which is replaced while Spark starts."""
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

"""The terminal of `roquet top`: draws the board, and reads keys while it waits."""

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from roquet.cli.admin_commands.commands import Session, until_stopped
from roquet.cli.admin_commands.failures import DONE, FAILED
from roquet.cli.top.board import Board, TopKey, TopView
from roquet.cli.top.samples import Sample, take_sample
from roquet.client.arguments import utc
from roquet.client.errors import ClientError
from roquet.clock import SystemClock
from roquet.reporting import Report, ReportTable, cell, heading

# Title, problem, heading and keys.
_LINES_AROUND: Final = 4
_KEYS: Final = "t topics  g groups  b brokers  ↑↓ select  Enter open  Esc back  / filter  s sort  r reverse  space pause  q quit"  # noqa: E501
_SEQUENCES: Final = {
    b"\x1b[A": TopKey.UP,
    b"\x1bOA": TopKey.UP,
    b"k": TopKey.UP,
    b"\x1b[B": TopKey.DOWN,
    b"\x1bOB": TopKey.DOWN,
    b"j": TopKey.DOWN,
    b"\r": TopKey.OPEN,
    b"\n": TopKey.OPEN,
    b"\x1b": TopKey.BACK,
    b"\x7f": TopKey.BACK,
    **{key.value.encode(): key for key in TopKey if len(key.value) == 1},
}
_READ_SIZE: Final = 64


async def watch(session: Session) -> int:
    given = session.given
    board = Board(TopView(given.view), filter=given.filter or "")
    if given.once or given.json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        before = await take_sample(session.admin.partial(), is_of_brokers=board.is_of_brokers)
        await asyncio.sleep(given.interval.total_seconds())
        now = await take_sample(session.partial, is_of_brokers=board.is_of_brokers)
        session.finish(Report({}, [board.table(before, now)]))
        if not board.is_of_brokers or now.problem is None:
            return DONE  # What topics and groups are without is reported as for other commands.
        session.reporter.say(now.problem)
        return FAILED
    await until_stopped(_Screen(session, board).run())
    return DONE


def presses_in(data: bytes) -> Iterator[bytes]:
    """What terminals send, key by key; the longest known sequence counts."""
    while data:
        length = 3 if data[:3] in _SEQUENCES else 1
        yield data[:length]
        data = data[length:]


def after_press(board: Board, press: bytes, table: ReportTable) -> Board:
    """Keys that mean nothing are skipped."""
    if board.is_typing:
        return board.after_typing(press)
    key = _SEQUENCES.get(press)
    return board if key is None else board.after(key, table)


class _Screen:
    def __init__(self, session: Session, board: Board) -> None:
        self._session = session
        self._board = board
        self._before: Sample | None = None
        self._now: Sample | None = None
        self._problem: str | None = None
        self._is_changed = asyncio.Event()
        # A sample has only what is looked at, so another view needs another one.
        self._is_other_view = asyncio.Event()

    async def run(self) -> None:
        """Until the key that ends it."""
        console = Console()
        sampling = asyncio.create_task(self._sample())
        try:
            with (
                self._keys_read(),
                Live(console=console, screen=True, auto_refresh=False) as live,
            ):
                while not self._board.is_ended:
                    live.update(self._view(console), refresh=True)
                    await self._is_changed.wait()
                    self._is_changed.clear()
        finally:
            sampling.cancel()

    async def _sample(self) -> None:
        """If the cluster does not answer, the error is shown and the sample retried."""
        while True:
            if not self._board.is_paused:
                try:
                    is_of_brokers = self._board.is_of_brokers
                    # A new one each time: a broker may answer again.
                    admin = self._session.admin.partial()
                    sample = await take_sample(admin, is_of_brokers=is_of_brokers)
                except ClientError as error:
                    self._problem = str(error)
                else:
                    self._before, self._now, self._problem = self._now, sample, sample.problem
                self._is_changed.set()
            with suppress(TimeoutError):
                interval_s = self._session.given.interval.total_seconds()
                await asyncio.wait_for(self._is_other_view.wait(), interval_s)
            self._is_other_view.clear()

    @contextmanager
    def _keys_read(self) -> Iterator[None]:
        loop, descriptor = asyncio.get_running_loop(), sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, self._read, descriptor)
        try:
            yield
        finally:
            loop.remove_reader(descriptor)
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

    def _read(self, descriptor: int) -> None:
        was_of_brokers = self._board.is_of_brokers
        for press in presses_in(os.read(descriptor, _READ_SIZE)):
            self._board = after_press(self._board, press, self._table())
        if was_of_brokers and not self._board.is_of_brokers:
            self._is_other_view.set()
        self._is_changed.set()

    def _table(self) -> ReportTable:
        if self._now is None:
            return ReportTable("waiting for the cluster ...", ("",), [])
        return self._board.table(self._before, self._now)

    def _view(self, console: Console) -> RenderableType:
        table = self._table()
        time = utc(SystemClock().now_ms()).astimezone().strftime("%H:%M:%S")
        state = "  paused" if self._board.is_paused else ""
        if self._board.filter or self._board.is_typing:
            state += f"  /{self._board.filter}{'_' * self._board.is_typing}"
        title = Text(f"roquet top  {time}  {table.name}{state}", style="bold", no_wrap=True)
        problem = Text(self._problem or "", style="red", no_wrap=True, overflow="ellipsis")
        keys = Text(_KEYS, style="dim", no_wrap=True, overflow="ellipsis")
        return Group(title, problem, self._rows(table, console), keys)

    def _rows(self, table: ReportTable, console: Console) -> Table:
        board = self._board
        view = Table(box=None, pad_edge=False)
        for index, name in enumerate(table.columns):
            mark = "*" if index == board.sort_column else ""
            is_text = all(isinstance(row[index], str | None) for row in table.rows)
            view.add_column(
                heading(name) + mark, justify="left" if is_text else "right", no_wrap=True
            )
        height = max(1, console.height - _LINES_AROUND)
        chosen = min(board.row, max(0, len(table.rows) - 1))
        first = max(0, chosen - height + 1)
        for index, row in enumerate(table.rows[first : first + height], first):
            style = "reverse" if index == chosen else None
            view.add_row(
                *(Text(cell(*each)) for each in zip(table.columns, row, strict=True)), style=style
            )
        return view

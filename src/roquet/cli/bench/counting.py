"""Counters of a benchmark, and the lines printed from them.

A snapshot is taken every second and ten of them are kept, so that a line covers the last ten
seconds, as Apache's do. The rate of each second is kept for the curve at the end.
"""

import asyncio
import sys
from argparse import ArgumentParser
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final, final

import msgspec

from roquet.cli.admin_commands.commands import Session, until_stopped
from roquet.cli.argument_types import time_span
from roquet.client.arguments import utc
from roquet.clock import SystemClock

_LOOK_EVERY_S: Final = 1.0
_LOOK_COUNT: Final = 10
# As many seconds as fit on a line.
_CURVE_LENGTH: Final = 60
_COMPLETE: Final = "[Complete]"
# A column of the last line alone.
TOTAL: Final = "Send Total"
_BARS: Final = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Look:
    """All counts since the beginning."""

    time_s: float
    counts: Mapping[str, float]

    def __getitem__(self, name: str) -> float:
        return self.counts.get(name, 0.0)


@dataclass(slots=True)
class Counts:
    """By name, and the largest times: since the last line, and ever."""

    totals: dict[str, float] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)
    largest_ever: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, amount: float = 1) -> None:
        self.totals[name] = self.totals.get(name, 0) + amount

    def took(self, name: str, span_ms: float) -> None:
        """Adds a time, and remembers the longest."""
        self.add(name, span_ms)
        for largest in (self.largest, self.largest_ever):
            largest[name] = max(span_ms, largest.get(name, 0))


# From the first look, the last one and the longest times, the columns of a line.
Columns = Callable[[Look, Look, Mapping[str, float]], Mapping[str, float | int]]


def rate(begin: Look, end: Look, name: str) -> int:
    span_s = end.time_s - begin.time_s
    return int((end[name] - begin[name]) / span_s) if span_s > 0 else 0


def average(begin: Look, end: Look, total: str, count: str) -> float:
    done = end[count] - begin[count]
    return (end[total] - begin[total]) / done if done else 0.0


def define_duration(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--interval",
        type=time_span,
        default=timedelta(seconds=10),
        metavar="SPAN",
        help="Interval between two lines. Default: 10s, as Apache's.",
    )
    parser.add_argument(
        "--for", dest="duration", type=time_span, metavar="SPAN", help="Stop after this time."
    )


@final
class Lines:
    """Prints a line per interval while `work` runs, and one at its end."""

    def __init__(
        self,
        session: Session,
        counts: Counts,
        columns: Columns,
        counted: str,
        *,
        is_ever: bool = False,
    ) -> None:
        """`counted` is what the curve shows. The largest times are those since the last line or,
        as some of Apache's have it, those that ever were.
        """
        self._is_ever = is_ever
        self._session = session
        self._counts = counts
        self._columns = columns
        self._counted = counted
        self._looks: deque[Look] = deque(maxlen=_LOOK_COUNT + 1)
        self._rates: deque[float] = deque(maxlen=_CURVE_LENGTH)

    async def print_while(self, work: Coroutine[Any, Any, object]) -> None:
        """Until `work` is done, its time is up, or SIGINT."""
        duration = self._session.given.duration
        first = self._look()
        looking = asyncio.create_task(self._look_again())
        try:
            async with asyncio.timeout(None if duration is None else duration.total_seconds()):
                await until_stopped(work)
        except TimeoutError:
            pass
        finally:
            looking.cancel()
        last = self._look()
        self._print(_COMPLETE, first, last)

    async def _look_again(self) -> None:
        loop = asyncio.get_running_loop()
        every_s = self._session.given.interval.total_seconds()
        next_line_s = loop.time() + every_s
        while True:
            await asyncio.sleep(min(_LOOK_EVERY_S, every_s))
            end = self._look()
            if loop.time() >= next_line_s:
                next_line_s += every_s
                now = utc(SystemClock().now_ms()).astimezone()
                time = now.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3]
                self._print(f"Current Time: {time}", self._looks[0], end)
                self._counts.largest.clear()

    def _look(self) -> Look:
        look = Look(asyncio.get_running_loop().time(), dict(self._counts.totals))
        if self._looks:
            self._rates.append(rate(self._looks[-1], look, self._counted))
        self._looks.append(look)
        return look

    def _print(self, head: str, begin: Look, end: Look) -> None:
        is_last = head == _COMPLETE
        counts = self._counts
        largest = counts.largest_ever if is_last or self._is_ever else counts.largest
        columns = dict(self._columns(begin, end, largest))
        if not is_last:
            columns.pop(TOTAL, None)
        curve = sparkline(self._rates)
        if self._session.given.json:
            line = msgspec.json.encode({"line": head, **columns, "curve": list(self._rates)})
            print(line.decode(), flush=True)
            return
        parts = [head, *(f"{name}: {_shown(value)}" for name, value in columns.items())]
        # Lines are compared by columns; the curve is for a terminal.
        if sys.stdout.isatty() or is_last:
            parts.append(curve)
        print(" | ".join(parts), flush=True)


def _shown(value: float | int) -> str:  # noqa: PYI041  Counts are shown as what they are.
    return str(value) if isinstance(value, int) else f"{value:7.3f}"


def sparkline(values: Sequence[float]) -> str:
    """From nothing to the largest of them."""
    largest = max(values, default=0.0)
    if largest <= 0:
        return _BARS[0] * len(values)
    top = len(_BARS) - 1
    return "".join(_BARS[round(max(0.0, value) / largest * top)] for value in values)

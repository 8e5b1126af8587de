"""The open connections of one owner: their deadlines and their end.

A connection keeps one deadline and moves it forward at no cost; ten thousand idle
connections are one short loop a second and no timers of their own.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Final, Protocol, final

from roquet.clock import Clock
from roquet.net.complaints import Complaints

PERIOD_S: Final = 1.0
# Bytes that are queued get this long to leave, then the connection is cut.
CLOSING_TIMEOUT_S: Final = 3.0


class Watched(Protocol):
    deadline_s: float

    def expire(self) -> None:
        """Called when the deadline has passed."""

    def close(self, reason: str) -> None:
        """Sends what is queued, then closes."""

    def abort(self, reason: str) -> None:
        """Closes at once."""


@final
class Watch:
    """Expires what is past its deadline; `now_s` is the time of the last look."""

    __slots__ = ("_clock", "_complaints", "_is_empty", "_on_sweep", "_timer", "_watched", "now_s")

    def __init__(self, clock: Clock, on_sweep: Callable[[], None] | None = None) -> None:
        """`on_sweep` is called with every look, once a second while anything is watched."""
        self._clock = clock
        self._on_sweep = on_sweep
        self._timer: asyncio.TimerHandle | None = None
        self._watched: set[Watched] = set()
        self._is_empty = asyncio.Event()
        self._complaints = Complaints()
        self.now_s = clock.monotonic_s()

    def __len__(self) -> int:
        return len(self._watched)

    def __contains__(self, watched: Watched) -> bool:
        return watched in self._watched

    def add(self, watched: Watched) -> None:
        self._watched.add(watched)
        self._is_empty.clear()
        if self._timer is None:
            self._look_later()

    def discard(self, watched: Watched) -> None:
        self._watched.discard(watched)
        if not self._watched:
            self._is_empty.set()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def refresh(self) -> float:
        """The time now: while nothing is watched, nobody looks at the clock."""
        self.now_s = self._clock.monotonic_s()
        return self.now_s

    def complain(self, kind: str, complaint: str) -> None:
        """Says it in the log, unless much of that kind was said already."""
        self._complaints.say(kind, complaint, self.now_s)

    def sweep(self) -> None:
        now_s = self.refresh()
        self._complaints.sum_up(now_s)
        if self._on_sweep is not None:
            self._on_sweep()
        for watched in [each for each in self._watched if each.deadline_s <= now_s]:
            watched.expire()

    async def close_all(self, reason: str) -> None:
        """Returns when all are closed, politely first and then without asking."""
        for watched in list(self._watched):
            watched.close(reason)
        await self._until_empty()
        for watched in list(self._watched):
            watched.abort(reason)
        await self._until_empty()

    async def _until_empty(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_TIMEOUT_S):
                while self._watched:
                    await self._is_empty.wait()

    def _look_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._look)

    def _look(self) -> None:
        self._look_later()
        self.sweep()

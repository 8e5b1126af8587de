"""Deadlines of all open connections of one owner, checked once a second.

A connection keeps one deadline and moves it forward at no cost; ten thousand idle
connections are one short loop a second and no timers of their own.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final, Protocol, final

from roquet.clock import Clock
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

PERIOD_S: Final = 1.0
# Queued bytes get this long to be sent, then the connection is aborted.
CLOSING_TIMEOUT_S: Final = 3.0
# A hold of the loop explains calls that fail a little later.
_REMEMBERED_S: Final = 3.0


class HasDeadline(Protocol):
    deadline_s: float

    def expire(self) -> None:
        """Called when the deadline has passed."""

    def close(self, reason: str) -> None:
        """Sends what is queued, then closes."""

    def abort(self, reason: str) -> None:
        """Closes at once."""


@final
class DeadlineSweep:
    """Expires what is past its deadline; `now_s` is the time of the last sweep.

    `warnings` is for log lines about connections, which peers could repeat for ever.
    """

    __slots__ = (
        "_clock",
        "_held_s",
        "_held_until_s",
        "_is_empty",
        "_members",
        "_on_sweep",
        "_timer",
        "now_s",
        "warnings",
    )

    def __init__(self, clock: Clock, on_sweep: Callable[[], None] | None = None) -> None:
        """`on_sweep` is called with every sweep, once a second while there are members."""
        self._clock = clock
        self._on_sweep = on_sweep
        self._timer: asyncio.TimerHandle | None = None
        # How long the last sweep was delayed by other callbacks, in the time of the loop.
        self._held_s = 0.0
        self._held_until_s = 0.0
        # Not a set: they expire and close in the order in which they came, the same in every run.
        self._members: dict[HasDeadline, None] = {}
        self._is_empty = asyncio.Event()
        self.warnings = ThrottledLog(log, clock.monotonic_s)
        self.now_s = clock.monotonic_s()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: HasDeadline) -> bool:
        return member in self._members

    def add(self, member: HasDeadline) -> None:
        self._members[member] = None
        self._is_empty.clear()
        if self._timer is None:
            self._start_timer()

    def discard(self, member: HasDeadline) -> None:
        self._members.pop(member, None)
        if not self._members:
            self._is_empty.set()
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def refresh(self) -> float:
        """The time now: without members, no sweep updates `now_s`."""
        self.now_s = self._clock.monotonic_s()
        return self.now_s

    def held_s_since(self, begin_s: float) -> float:
        """How long the loop was held, if that was after `begin_s`."""
        return self._held_s if self._held_until_s > begin_s else 0.0

    def sweep(self) -> None:
        now_s = self.refresh()
        self.warnings.flush()
        if self._on_sweep is not None:
            self._on_sweep()
        for member in [each for each in self._members if each.deadline_s <= now_s]:
            member.expire()

    async def close_all(self, reason: str) -> None:
        """Returns when all are closed; those that do not close in time are aborted."""
        for member in list(self._members):
            member.close(reason)
        await self._until_empty()
        for member in list(self._members):
            member.abort(reason)
        await self._until_empty()

    async def _until_empty(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_TIMEOUT_S):
                while self._members:
                    await self._is_empty.wait()

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._on_timer)

    def _on_timer(self) -> None:
        assert self._timer is not None
        now_s = asyncio.get_running_loop().time()
        late_s = now_s - self._timer.when()
        if late_s > self._held_s / 2 or now_s - self._held_until_s > _REMEMBERED_S:
            self._held_s, self._held_until_s = late_s, now_s
        self._start_timer()
        self.sweep()

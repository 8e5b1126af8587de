"""From the thread that syncs the disk to the requests that wait for it.

Each round of the flush thread makes everything before one physical offset durable. That is
handed to the event loop once per round, and releases all who wait for less, in the order they
came.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, final

from roquet.clock import Clock
from roquet.store.damage import Damage
from roquet.store.errors import SyncFailed

log = logging.getLogger(__name__)

_SWEEP_S: Final = 0.5


class Outcome(Enum):
    DURABLE = "on disk"
    LATE = "not on disk in time, but it may still get there"
    FAILED = "the disk failed; nobody knows what it holds"


class _Waiter(NamedTuple):
    end: int
    deadline_s: float
    tell: Callable[[Outcome], None]


@final
class Durability:
    """Belongs to the event loop, except for what `StoreListener` says of the flush thread."""

    def __init__(
        self, clock: Clock, timeout_s: float, on_durable: Callable[[int], None] = lambda _end: None
    ) -> None:
        """`on_durable` is told, once for all who waited, up to where the log is on disk."""
        self._clock = clock
        self._on_durable = on_durable
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._waiters: deque[_Waiter] = deque()
        self._flushed_end = 0
        self._is_handing_over = False
        self._timer: asyncio.TimerHandle | None = None
        # Whoever keeps the broker alive waits for this, and ends it.
        self.has_failed = asyncio.Event()

    def wait(self, end: int, tell: Callable[[Outcome], None]) -> None:
        """Calls `tell` once: when all records before `end` are on disk, or when not."""
        if self.has_failed.is_set():
            tell(Outcome.FAILED)
            return
        deadline_s = self._clock.monotonic_s() + self._timeout_s
        self._waiters.append(_Waiter(end, deadline_s, tell))
        if self._timer is None:
            self._timer = self._loop.call_later(_SWEEP_S, self._sweep)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # What the flush thread says.

    def flushed(self, end: int) -> None:
        self._flushed_end = end
        if not self._is_handing_over:
            # Rounds that end before the loop has looked are handed over together.
            self._is_handing_over = True
            self._loop.call_soon_threadsafe(self._release)

    def flush_failed(self, error: SyncFailed) -> None:
        self._loop.call_soon_threadsafe(self._fail, error)

    # What the store says in the loop's own thread.

    def damaged(self, damage: Damage) -> None:
        log.error("damage at physical offset %d: %s", damage.physical_offset, damage.reason)

    def _release(self) -> None:
        # First, so that a round which ends from now on is handed over again.
        self._is_handing_over = False
        end = self._flushed_end
        waiters = self._waiters
        while waiters and waiters[0].end <= end:
            waiters.popleft().tell(Outcome.DURABLE)
        self._on_durable(end)

    def _fail(self, error: SyncFailed) -> None:
        log.error("no message is acknowledged any more: %s", error)
        self.has_failed.set()
        while self._waiters:
            self._waiters.popleft().tell(Outcome.FAILED)

    def _sweep(self) -> None:
        now_s = self._clock.monotonic_s()
        while self._waiters and self._waiters[0].deadline_s <= now_s:
            self._waiters.popleft().tell(Outcome.LATE)
        self._timer = self._loop.call_later(_SWEEP_S, self._sweep) if self._waiters else None

"""Time, in one place, so that tests can move it.

No other module reads the time: everything that needs it gets a `Clock`.
"""

import time
from typing import Final, Protocol

# It advances while the machine sleeps, so that waking up is no jump. Not every system has it.
_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock in milliseconds since 1970, as it is stored in messages."""

    def monotonic_s(self) -> float:
        """Seconds that only ever grow: for deadlines and intervals."""

    def jumped_ms(self) -> int:
        """How far the wall clock was set forward since the start; negative if back.

        Differences of a few milliseconds mean nothing.
        """


class SystemClock:
    def __init__(self) -> None:
        self._start_ms = self._beyond_steady_ms()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # The function itself, not a method that calls it: it is called for every message.
    monotonic_s = staticmethod(time.monotonic)

    def jumped_ms(self) -> int:
        return self._beyond_steady_ms() - self._start_ms

    def _beyond_steady_ms(self) -> int:
        return (time.time_ns() - time.clock_gettime_ns(_STEADY)) // 1_000_000

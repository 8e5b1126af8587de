"""Time, in one place, so that tests can move it.

Nobody else reads the time: everything that needs it is handed a `Clock`.
"""

import time
from typing import Final, Protocol

# It goes on while the machine sleeps, so that waking up is no jump. Not every system has it.
_STEADY: Final[int] = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock in milliseconds since 1970, as it is stored in messages."""

    def monotonic_s(self) -> float:
        """Seconds that only ever grow: for deadlines and intervals."""

    def jumped_ms(self) -> int:
        """How far somebody has set the wall clock forward since the start; negative if back.

        Some milliseconds more or less mean nothing.
        """


class SystemClock:
    def __init__(self) -> None:
        self._start_ms = self._beyond_steady_ms()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    # Itself, and not called by a method: it is asked for every message.
    monotonic_s = staticmethod(time.monotonic)

    def jumped_ms(self) -> int:
        return self._beyond_steady_ms() - self._start_ms

    def _beyond_steady_ms(self) -> int:
        return (time.time_ns() - time.clock_gettime_ns(_STEADY)) // 1_000_000

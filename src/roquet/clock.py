"""Time, in one place, so that tests can move it.

Nobody else reads the time: everything that needs it is handed a `Clock`.
"""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall clock in milliseconds since 1970, as it is stored in messages."""

    def monotonic_s(self) -> float:
        """Seconds that only ever grow: for deadlines and intervals."""


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()

"""A clock that stands still until a test moves it."""

from typing import Final

START_MS: Final = 1_700_000_000_000


class FakeClock:
    def __init__(self, now_ms: int = START_MS) -> None:
        self._now_ms = now_ms
        self._monotonic_s = 1_000.0
        self._jumped_ms = 0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def jumped_ms(self) -> int:
        return self._jumped_ms

    def jump(self, seconds: float) -> None:
        """Set the clock on the wall, and let no time pass."""
        self._now_ms += round(seconds * 1000)
        self._jumped_ms += round(seconds * 1000)

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)
        self._monotonic_s += seconds

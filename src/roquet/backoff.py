"""Pauses between attempts that grow while they fail."""

from typing import final


@final
class Backoff:
    """Doubles from `first_s` up to `max_s`; a success resets it."""

    __slots__ = ("_first_s", "_max_s", "_next_s")

    def __init__(self, first_s: float, max_s: float) -> None:
        assert 0 < first_s <= max_s
        self._first_s = first_s
        self._max_s = max_s
        self._next_s = first_s

    def next_s(self) -> float:
        """The pause before the next attempt."""
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._max_s)
        return pause_s

    def reset(self) -> None:
        self._next_s = self._first_s

"""Counts of values between bounds, for monitoring."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import inf
from typing import Final, final

# From a tenth of a millisecond to ten seconds.
SECONDS: Final = (
    *(0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0),
)


@final
class Histogram:
    """One thread adds. Others may read meanwhile, and may miss the value being added."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        """`bounds` ascend; a value that equals one belongs below it."""
        self._bounds = (*bounds, inf)
        self._counts = [0] * len(self._bounds)
        self.total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self._counts)

    def cumulated(self) -> Iterator[tuple[float, int]]:
        """Each bound, and how many values were not above it; the last bound is infinite."""
        count = 0
        for bound, own in zip(self._bounds, tuple(self._counts), strict=True):
            count += own
            yield bound, count

"""Ranges of offsets that a lake has: joined, and taken away from what is asked for. Pure."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import final

# From the first offset to before the second.
OffsetRange = tuple[int, int]


@final
class OffsetRanges:
    """Ranges that never touch each other, in their order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self) -> Iterator[OffsetRange]:
        return zip(self._starts, self._ends, strict=True)

    @property
    def count(self) -> int:
        """How many offsets lie inside."""
        return sum(self._ends) - sum(self._starts)

    def add(self, start: int, end: int) -> bool:
        """Join a range. False, and nothing is changed, if part of it is there already."""
        if start >= end:
            return True
        index = bisect_left(self._starts, start)
        if index < len(self._starts) and self._starts[index] < end:
            return False
        if index and self._ends[index - 1] > start:
            return False
        if index and self._ends[index - 1] == start:
            index -= 1
            self._ends[index] = end
        else:
            self._starts.insert(index, start)
            self._ends.insert(index, end)
        if index + 1 < len(self._starts) and self._starts[index + 1] == end:
            self._ends[index] = self._ends.pop(index + 1)
            self._starts.pop(index + 1)
        return True

    def missing(self, start: int, end: int) -> list[OffsetRange]:
        """What of a range is not there, in order."""
        found: list[OffsetRange] = []
        index = max(0, bisect_left(self._starts, start) - 1)
        while start < end and index < len(self._starts) and self._starts[index] < end:
            if start < self._starts[index]:
                found.append((start, self._starts[index]))
            start = max(start, self._ends[index])
            index += 1
        if start < end:
            found.append((start, end))
        return found

"""Finding the place of a time in a queue whose messages lie in the order of their store times."""

from collections.abc import Callable
from enum import Enum


class Boundary(Enum):
    """Which side of a time is wanted; 4.9 clients always want the first."""

    LOWER = "LOWER"  # the first message at or after it
    UPPER = "UPPER"  # the last message at or before it


def offset_by_time(
    store_time: Callable[[int], int | None],
    min_offset: int,
    max_offset: int,
    timestamp: int,
    boundary: Boundary = Boundary.LOWER,
) -> int:
    """The offset of `timestamp` among the messages `min_offset` to `max_offset` - 1.

    `store_time` gives the store timestamp of a message, None for one that cannot be read.
    LOWER gives `max_offset` when all messages are older, UPPER gives `min_offset` when all
    are younger. Where clocks were set back the result is one of several right ones.
    """
    low, high = min_offset, max_offset
    while low < high:
        middle = (low + high) // 2
        found = _first_readable(store_time, middle, high)
        if found is None or _is_behind(found[1], timestamp, boundary):
            high = middle
        else:
            low = found[0] + 1
    return low if boundary is Boundary.LOWER else max(low - 1, min_offset)


def _is_behind(store_timestamp: int, timestamp: int, boundary: Boundary) -> bool:
    if boundary is Boundary.LOWER:
        return store_timestamp >= timestamp
    return store_timestamp > timestamp


def _first_readable(
    store_time: Callable[[int], int | None], offset: int, end: int
) -> tuple[int, int] | None:
    """The first offset with a time at or after `offset`, and the time."""
    for each in range(offset, end):
        found = store_time(each)
        if found is not None:
            return each, found
    return None

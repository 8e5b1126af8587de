"""How much of what there is a micro-batch takes: pure decisions."""

from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K")


def admitted(backlog: Mapping[K, int], count_max: int) -> dict[K, int]:
    """How many messages of each queue to take, `count_max` in all, in proportion to its backlog.

    A queue with a backlog gets at least one message while there is room, so that a small queue
    is never starved by large ones.
    """
    total = sum(backlog.values())
    if total <= count_max:
        return dict(backlog)
    shares = {queue: count * count_max // total for queue, count in backlog.items()}
    left = count_max - sum(shares.values())
    # What rounding left over goes first to queues that got nothing, then to the largest.
    for queue in sorted(backlog, key=lambda each: (shares[each] > 0, -backlog[each])):
        if not left:
            break
        if shares[queue] < backlog[queue]:
            shares[queue] += 1
            left -= 1
    return shares


def is_held_back(count: int, count_min: int | None, waited_s: float, delay_s_max: float) -> bool:
    """Whether a batch waits for more messages: there are too few, and its time is not up."""
    return count_min is not None and count < count_min and waited_s < delay_s_max

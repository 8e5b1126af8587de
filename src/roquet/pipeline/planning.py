"""Which task reads what: pure decisions over ranges of queues.

A task costs about 30 ms before it reads anything, so few messages get few tasks; a large queue is
split, small ones share a task. What rows there are never depends on the plan.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from roquet.client.queue_ref import QueueRef

# As many messages are worth a task of their own.
ROWS_PER_TASK: Final = 100_000
# So is as much of a log, and more of it is not left to one task alone.
SPLIT_SIZE_MIN: Final = 16 << 20
SPLIT_SIZE_MAX: Final = 128 << 20


class QueueRange(NamedTuple):
    """The messages of a queue from `start` to before `end`."""

    queue: QueueRef
    start: int
    end: int

    @property
    def row_count(self) -> int:
        return self.end - self.start


def task_count(rows: int, *, least: int | None, most: int | None, cores: int) -> int:
    """How many tasks read `rows` messages; `least` is asked for, `most` rows fit into one."""
    wanted = -(-rows // ROWS_PER_TASK)
    count = min(max(wanted, 1), max(least or 1, 2 * cores))
    count = max(count, least or 1)
    if most is not None:
        count = max(count, -(-rows // most))
    return min(count, max(rows, 1))


def even_split_size(size: int, cores: int) -> int:
    """How much of a log of `size` bytes a task reads, so that all cores have as much to do."""
    least = -(-size // SPLIT_SIZE_MAX) or 1
    count = -(-least // (2 * cores)) * 2 * cores
    return max(-(-size // count), SPLIT_SIZE_MIN)


def dealt_out(ranges: Sequence[QueueRange], count: int) -> list[list[QueueRange]]:
    """The ranges in `count` shares of nearly the same size, each range cut where need be.

    Ranges of one broker stay next to each other, so that a task talks to few of them.
    """
    waiting = [each for each in sorted(ranges, key=_by_broker) if each.row_count > 0]
    rows = sum(each.row_count for each in waiting)
    if not rows:
        return []
    # Share i ends behind row rows * (i + 1) // count: nothing is lost to rounding.
    ends = [rows * (number + 1) // count for number in range(count)]
    shares: list[list[QueueRange]] = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        share = list(_between(waiting, start, end))
        if share:
            shares.append(share)
    return shares


def _between(ranges: Sequence[QueueRange], start: int, end: int) -> Iterator[QueueRange]:
    """The part of the ranges, laid end to end, that lies between two row numbers."""
    behind = 0
    for each in ranges:
        first = max(start - behind, 0)
        last = min(end - behind, each.row_count)
        if first < last:
            yield QueueRange(each.queue, each.start + first, each.start + last)
        behind += each.row_count


def _by_broker(each: QueueRange) -> tuple[str, str, int, int]:
    return each.queue.broker_name, each.queue.topic, each.queue.queue_id, each.start

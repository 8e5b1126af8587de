"""How much is read, and by which task: pure decisions over queues and ranges of them.

A task costs about 30 ms before it reads anything, so few messages get few tasks; a large queue is
split, small ones share a task. Which rows are read never depends on the plan.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from roquet.client.queue_ref import QueueRef

# The number of messages that is worth a task of its own.
ROWS_PER_TASK: Final = 100_000
# The bytes of a log that are worth a task, and the most that one task reads.
SPLIT_SIZE_MIN: Final = 16 << 20
SPLIT_SIZE_MAX: Final = 128 << 20

# Python planners run apart from the JVM and do not know its cores; options can ask for more.
_CORES_MAX: Final = 64

K = TypeVar("K")


class QueueRange(NamedTuple):
    """The messages of a queue from `start` to before `end`."""

    queue: QueueRef
    start: int
    end: int

    @property
    def row_count(self) -> int:
        return self.end - self.start


def task_count(rows: int, *, least: int | None, most: int | None, cores: int) -> int:
    """How many tasks read `rows` messages: at least `least`, with at most `most` rows each.

    More tasks than cores are a multiple of these: no core waits while another has one more.
    """
    wanted = -(-rows // ROWS_PER_TASK)
    if wanted > cores:
        wanted = -(-wanted // cores) * cores
    count = min(max(wanted, 1), max(least or 1, 2 * cores))
    count = max(count, least or 1)
    if most is not None:
        count = max(count, -(-rows // most))
    return min(count, max(rows, 1))


def even_split_size(size: int, cores: int) -> int:
    """How much of a log of `size` bytes a task reads, so that all cores are equally busy."""
    least = -(-size // SPLIT_SIZE_MAX) or 1
    count = -(-least // (2 * cores)) * 2 * cores
    return max(-(-size // count), SPLIT_SIZE_MIN)


def split_evenly(ranges: Sequence[QueueRange], count: int) -> list[list[QueueRange]]:
    """The ranges in `count` shares of nearly the same size, each range cut where necessary.

    Ranges of one broker stay next to each other, so that a task talks to few brokers.
    """
    waiting = [each for each in sorted(ranges, key=_by_broker) if each.row_count > 0]
    rows = sum(each.row_count for each in waiting)
    if not rows:
        return []
    # Share i ends after row rows * (i + 1) // count: nothing is lost to rounding.
    ends = [rows * (number + 1) // count for number in range(count)]
    shares: list[list[QueueRange]] = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        share = list(_between(waiting, start, end))
        if share:
            shares.append(share)
    return shares


def _between(ranges: Sequence[QueueRange], start: int, end: int) -> Iterator[QueueRange]:
    """The part of the ranges, laid end to end, that lies between two row numbers."""
    passed = 0
    for each in ranges:
        first = max(start - passed, 0)
        last = min(end - passed, each.row_count)
        if first < last:
            yield QueueRange(each.queue, each.start + first, each.start + last)
        passed += each.row_count


def _by_broker(each: QueueRange) -> tuple[str, str, int, int]:
    return each.queue.broker_name, each.queue.topic, each.queue.queue_id, each.start


def core_count() -> int:
    """Cores of this machine, which in local mode is the cluster."""
    return min(len(os.sched_getaffinity(0)), _CORES_MAX)


def admitted(backlog: Mapping[K, int], count_max: int) -> dict[K, int]:
    """How many messages of each queue to take, `count_max` in all, in proportion to its backlog.

    A queue with a backlog gets at least one message while there is room, so that large queues
    never starve a small one.
    """
    total = sum(backlog.values())
    if total <= count_max:
        return dict(backlog)
    shares = {queue: count * count_max // total for queue, count in backlog.items()}
    left = count_max - sum(shares.values())
    # The remainder of rounding goes first to queues that got nothing, then to the largest.
    for queue in sorted(backlog, key=lambda each: (shares[each] > 0, -backlog[each])):
        if not left:
            break
        if shares[queue] < backlog[queue]:
            shares[queue] += 1
            left -= 1
    return shares


def is_held_back(count: int, count_min: int | None, waited_s: float, delay_s_max: float) -> bool:
    """Whether a batch waits for more messages: too few are there, and its time is not up."""
    return count_min is not None and count < count_min and waited_s < delay_s_max

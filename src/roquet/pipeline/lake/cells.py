"""How what is wanted is cut into files and shared out among tasks: pure decisions.

Files are cut at a grid of offsets that the lake keeps, so where they begin and end depends neither
on the number of tasks nor on how much a batch takes, except at the ends of the batch.
"""

from collections.abc import Iterable, Iterator, Sequence

from roquet.pipeline.lake.state import Wanted
from roquet.pipeline.planning import QueueRange


def cut_at_grid(wanted: Iterable[Wanted], grid: int) -> Iterator[Wanted]:
    """The same offsets, none of the ranges across a multiple of `grid`."""
    for each in wanted:
        queue, start, end = each.range
        while start < end:
            cut = min(end, (start // grid + 1) * grid)
            yield each._replace(range=QueueRange(queue, start, cut))
            start = cut


def shared_out(cells: Sequence[Wanted], count: int) -> list[list[Wanted]]:
    """The cells, each of them whole, in at most `count` shares of nearly the same size.

    The largest go first, each to the share that has least; in the order of brokers and offsets
    within a share.
    """
    shares: list[list[Wanted]] = [[] for _ in range(min(count, len(cells)))]
    sizes = [0] * len(shares)
    for cell in sorted(cells, key=lambda each: (-each.range.row_count, each.range)):
        least = sizes.index(min(sizes))
        shares[least].append(cell)
        sizes[least] += cell.range.row_count
    return [sorted(share, key=_by_broker) for share in shares]


def _by_broker(cell: Wanted) -> tuple[str, str, int, int]:
    queue = cell.range.queue
    return queue.broker_name, queue.topic, queue.queue_id, cell.range.start

"""Which task reads what."""

import pytest
from hypothesis import given, strategies as st

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.planning import (
    ROWS_PER_TASK,
    SPLIT_SIZE_MAX,
    SPLIT_SIZE_MIN,
    QueueRange,
    dealt_out,
    even_split_size,
    task_count,
)


def queue(number: int) -> QueueRef:
    return QueueRef("orders", f"broker-{number % 3}", number)


ranges = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 200)).map(
        lambda pair: (pair[0], pair[0] + pair[1])
    ),
    max_size=12,
).map(lambda bounds: [QueueRange(queue(n), *each) for n, each in enumerate(bounds)])


@given(ranges=ranges, count=st.integers(1, 40))
@pytest.mark.slow
def test_every_message_is_read_by_exactly_one_task(ranges: list[QueueRange], count: int) -> None:
    read = [
        (part.queue, offset)
        for share in dealt_out(ranges, count)
        for part in share
        for offset in range(part.start, part.end)
    ]
    wanted = [(each.queue, offset) for each in ranges for offset in range(each.start, each.end)]
    assert sorted(read) == sorted(wanted)


@given(ranges=ranges, count=st.integers(1, 40))
@pytest.mark.slow
def test_tasks_have_nearly_the_same_to_do(ranges: list[QueueRange], count: int) -> None:
    sizes = [sum(part.row_count for part in share) for share in dealt_out(ranges, count)]
    assert len(sizes) <= count
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_small_queues_share_a_task() -> None:
    shares = dealt_out([QueueRange(queue(number), 0, 3) for number in range(8)], 1)
    assert len(shares) == 1
    assert len(shares[0]) == 8


@pytest.mark.parametrize(
    ("rows", "least", "most", "tasks"),
    [
        (0, None, None, 1),
        (1, None, None, 1),
        (ROWS_PER_TASK, None, None, 1),
        (ROWS_PER_TASK + 1, None, None, 2),
        (100 * ROWS_PER_TASK, None, None, 4),  # twice the cores
        (100 * ROWS_PER_TASK, 16, None, 16),
        (10, 16, None, 10),  # no task without a message
        (1000, None, 10, 100),
    ],
)
def test_the_number_of_tasks_follows_from_the_rows(
    rows: int, least: int | None, most: int | None, tasks: int
) -> None:
    assert task_count(rows, least=least, most=most, cores=2) == tasks


@pytest.mark.parametrize(
    ("size", "cores", "tasks"),
    [
        (0, 2, 1),
        (SPLIT_SIZE_MIN, 2, 1),
        (2 * SPLIT_SIZE_MIN, 2, 2),
        # Three of the largest would keep one of two cores waiting for the last.
        (3 * SPLIT_SIZE_MAX, 2, 4),
        (5 * SPLIT_SIZE_MAX, 2, 8),
        (5 * SPLIT_SIZE_MAX, 64, 40),
    ],
)
def test_parts_of_a_log_leave_no_core_idle(size: int, cores: int, tasks: int) -> None:
    split_size = even_split_size(size, cores)
    assert SPLIT_SIZE_MIN <= split_size <= SPLIT_SIZE_MAX
    assert max(1, -(-size // split_size)) == tasks

"""Which task reads what."""

import pytest
from hypothesis import given, strategies as st

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.planning import (
    ROWS_PER_TASK,
    SPLIT_SIZE_MAX,
    SPLIT_SIZE_MIN,
    QueueRange,
    admitted,
    even_split_size,
    is_held_back,
    split_evenly,
    task_count,
)

backlogs = st.dictionaries(st.integers(0, 30), st.integers(0, 5000))


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
        for share in split_evenly(ranges, count)
        for part in share
        for offset in range(part.start, part.end)
    ]
    wanted = [(each.queue, offset) for each in ranges for offset in range(each.start, each.end)]
    assert sorted(read) == sorted(wanted)


@given(ranges=ranges, count=st.integers(1, 40))
@pytest.mark.slow
def test_tasks_have_nearly_the_same_to_do(ranges: list[QueueRange], count: int) -> None:
    sizes = [sum(part.row_count for part in share) for share in split_evenly(ranges, count)]
    assert len(sizes) <= count
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_small_queues_share_a_task() -> None:
    shares = split_evenly([QueueRange(queue(number), 0, 3) for number in range(8)], 1)
    assert len(shares) == 1
    assert len(shares[0]) == 8


@pytest.mark.parametrize(
    ("rows", "least", "most", "tasks"),
    [
        (0, None, None, 1),
        (1, None, None, 1),
        (ROWS_PER_TASK, None, None, 1),
        (ROWS_PER_TASK + 1, None, None, 2),
        (2 * ROWS_PER_TASK + 1, None, None, 4),  # not three for two cores
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


@given(backlog=backlogs, count_max=st.integers(1, 10_000))
@pytest.mark.slow
def test_a_batch_takes_as_much_as_it_may_and_never_more(
    backlog: dict[int, int], count_max: int
) -> None:
    taken = admitted(backlog, count_max)
    assert sum(taken.values()) == min(count_max, sum(backlog.values()))
    assert all(taken[queue] <= count for queue, count in backlog.items())


def test_small_queues_come_first_when_rounding_leaves_some() -> None:
    assert admitted({"large": 1000, "small": 1, "tiny": 1}, 10) == {
        "large": 9,
        "small": 1,
        "tiny": 0,
    }


def test_what_is_taken_is_in_proportion_to_what_waits() -> None:
    assert admitted({"a": 900, "b": 100}, 100) == {"a": 90, "b": 10}


@pytest.mark.parametrize(
    ("count", "waited_s", "is_held"), [(9, 1, True), (10, 1, False), (9, 60, False), (0, 1, True)]
)
def test_a_batch_waits_for_enough_messages_but_not_for_ever(
    count: int, waited_s: float, is_held: bool
) -> None:
    assert is_held_back(count, 10, waited_s, 60) is is_held


def test_without_a_least_number_nothing_waits() -> None:
    assert not is_held_back(0, None, 0, 60)

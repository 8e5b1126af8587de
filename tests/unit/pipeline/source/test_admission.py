"""How much of what there is a micro-batch takes."""

import pytest
from hypothesis import given, strategies as st

from roquet.pipeline.source.admission import admitted, is_held_back

backlogs = st.dictionaries(st.integers(0, 30), st.integers(0, 5000))


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

import pytest
from hypothesis import given, strategies as st

from roquet.store.reading.queue_reading import Boundary, offset_by_time


def nothing_readable(_offset: int) -> int | None:
    return None


@pytest.mark.parametrize(
    ("timestamp", "lower", "upper"),
    [(0, 3, 3), (10, 3, 3), (11, 4, 3), (20, 4, 6), (21, 7, 6), (30, 7, 7), (31, 8, 7)],
)
def test_both_sides_of_a_time(timestamp: int, lower: int, upper: int) -> None:
    times = {3: 10, 4: 20, 5: 20, 6: 20, 7: 30}
    assert offset_by_time(times.__getitem__, 3, 8, timestamp) == lower
    assert offset_by_time(times.__getitem__, 3, 8, timestamp, Boundary.UPPER) == upper


def test_an_empty_queue_has_one_place_only() -> None:
    assert offset_by_time(nothing_readable, 5, 5, 100) == 5
    assert offset_by_time(nothing_readable, 5, 5, 100, Boundary.UPPER) == 5


def test_messages_that_cannot_be_read_are_passed_over() -> None:
    def store_time(offset: int) -> int | None:
        return {0: 10, 5: 20, 9: 30}.get(offset)

    assert offset_by_time(store_time, 0, 10, 15) in range(1, 6)
    assert offset_by_time(store_time, 0, 10, 31) == 10
    assert offset_by_time(nothing_readable, 0, 10, 31) == 0


@given(st.lists(st.integers(0, 50)), st.integers(-1, 51), st.integers(0, 5))
def test_lower_is_the_first_and_upper_the_last(
    steps: list[int], timestamp: int, min_offset: int
) -> None:
    times = dict(enumerate(sorted(steps), min_offset))
    max_offset = min_offset + len(times)
    lower = offset_by_time(times.__getitem__, min_offset, max_offset, timestamp)
    at_or_after = [offset for offset, time in times.items() if time >= timestamp]
    assert lower == min(at_or_after, default=max_offset)
    upper = offset_by_time(times.__getitem__, min_offset, max_offset, timestamp, Boundary.UPPER)
    at_or_before = [offset for offset, time in times.items() if time <= timestamp]
    assert upper == max(at_or_before, default=min_offset)

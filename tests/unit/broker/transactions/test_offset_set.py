"""A set of offsets, held against a plain one."""

import tracemalloc

import pytest
from hypothesis import given, strategies as st

from roquet.broker.transactions.offset_set import OffsetSet

offsets = st.integers(0, 100)


@given(start=st.integers(0, 50), added=st.lists(offsets))
def test_it_holds_what_was_added_from_its_start_on(start: int, added: list[int]) -> None:
    found = OffsetSet(start)
    for offset in added:
        found.add(offset)
    expected = {offset for offset in added if offset >= start}
    assert {offset for offset in range(start, 200) if offset in found} == expected


@given(added=st.sets(st.integers(0, 60)), offset=st.integers(0, 70))
def test_the_next_absent_offset_is_the_first_that_is_not_in_it(
    added: set[int], offset: int
) -> None:
    found = OffsetSet(0)
    for each in added:
        found.add(each)
    expected = next(each for each in range(offset, 100) if each not in added)
    assert found.next_absent(offset) == expected


def test_long_runs_are_passed_over() -> None:
    found = OffsetSet(5)
    for offset in range(5, 10_003):
        found.add(offset)
    assert found.next_absent(5) == found.next_absent(777) == 10_003


@given(added=st.sets(offsets), start=offsets)
@pytest.mark.slow
def test_what_comes_before_a_new_start_is_forgotten(added: set[int], start: int) -> None:
    found = OffsetSet(0)
    for offset in added:
        found.add(offset)
    found.forget_before(start)
    assert all((offset in found) == (offset in added) for offset in range(start, 200))
    assert not any(offset in found for offset in range(start - 8))


def test_a_start_never_moves_back() -> None:
    found = OffsetSet(80)
    found.add(81)
    found.forget_before(3)
    assert 81 in found
    found.add(3)
    assert 3 not in found


def test_none_is_in_no_set() -> None:
    assert None not in OffsetSet(0)


@pytest.mark.slow
def test_a_million_cost_little() -> None:
    tracemalloc.start()
    try:
        found = OffsetSet(0)
        for offset in range(0, 1_000_000, 7):
            found.add(offset)
        assert tracemalloc.get_traced_memory()[0] < 300_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("start", [0, 5, 8, 1000])
@pytest.mark.parametrize("first", [0, 1, 7, 8, 9, 1003, 5000])
def test_they_are_counted_from_any_offset_on(start: int, first: int) -> None:
    offsets = OffsetSet(start)
    added = [each for each in (0, 1, 7, 8, 9, 1000, 1003, 1017) if each >= start]
    for offset in added:
        offsets.add(offset)
    assert offsets.count_from(first) == sum(each >= first for each in added)

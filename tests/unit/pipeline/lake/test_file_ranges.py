"""Cells: the same cuts whatever the plan."""

import pytest
from hypothesis import given, strategies as st

from roquet.pipeline.lake.file_ranges import OffsetRanges, balanced, split_into_files
from tests.support.lake_pieces import wanted

spans = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda ends: (min(ends), max(ends)))


def test_files_are_cut_at_multiples_and_at_the_ends_of_what_is_wanted() -> None:
    file_ranges = list(split_into_files([wanted(7, 25), wanted(30, 40)], 10))
    assert [file_range.range[1:] for file_range in file_ranges] == [
        (7, 10),
        (10, 20),
        (20, 25),
        (30, 40),
    ]


@given(end=st.integers(1, 500), file_rows_max=st.integers(1, 90), count=st.integers(1, 9))
@pytest.mark.slow
def test_every_file_goes_to_one_task_as_a_whole(end: int, file_rows_max: int, count: int) -> None:
    file_ranges = list(split_into_files([wanted(0, end)], file_rows_max))
    shares = balanced(file_ranges, count)
    assert len(shares) == min(count, len(file_ranges))
    assert all(shares)
    assert sorted(file_range.range for share in shares for file_range in share) == [
        file_range.range for file_range in file_ranges
    ]
    sizes = [sum(file_range.range.row_count for file_range in share) for share in shares]
    assert max(sizes) - min(sizes) <= file_rows_max


def test_no_cells_make_no_tasks() -> None:
    assert balanced([], 4) == []


def offsets_of(ranges: OffsetRanges) -> set[int]:
    return {offset for start, end in ranges for offset in range(start, end)}


@given(added=st.lists(spans), asked=spans)
@pytest.mark.slow
def test_what_was_added_and_what_is_missing_are_the_whole(
    added: list[tuple[int, int]], asked: tuple[int, int]
) -> None:
    ranges = OffsetRanges()
    model: set[int] = set()
    for start, end in added:
        is_new = model.isdisjoint(range(start, end))
        assert ranges.add(start, end) is is_new
        if is_new:
            model |= set(range(start, end))
    assert offsets_of(ranges) == model
    assert ranges.count == len(model)
    missing = {offset for start, end in ranges.missing(*asked) for offset in range(start, end)}
    assert missing == set(range(*asked)) - model


def test_ranges_that_touch_become_one() -> None:
    ranges = OffsetRanges()
    for start, end in ((0, 10), (20, 30), (10, 20)):
        assert ranges.add(start, end)
    assert list(ranges) == [(0, 30)]

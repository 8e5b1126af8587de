"""Ranges of offsets against a set of numbers as model."""

import pytest
from hypothesis import given, strategies as st

from roquet.pipeline.lake.offset_ranges import OffsetRanges

spans = st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda ends: (min(ends), max(ends)))


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

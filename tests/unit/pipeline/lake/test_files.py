"""Cells: the same cuts whatever the plan."""

import pytest
from hypothesis import given, strategies as st

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.lake.files import (
    OffsetRanges,
    balanced,
    published_path,
    split_into_files,
    staged_path,
)
from roquet.pipeline.planning import QueueRange
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


def test_no_ranges_make_no_tasks() -> None:
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


# 2026-11-16T12:00Z.
HOUR = 1_794_830_400 // 3600


def test_a_name_says_queue_and_offsets_and_its_directory_when_it_was_stored() -> None:
    assert published_path(wanted(0, 100), 0, 60, HOUR) == (
        "topic=orders/dt=2026-11-16/hour=12/orders-broker-a-0-0-60.parquet"
    )


def test_the_second_incarnation_of_a_topic_has_names_of_its_own() -> None:
    assert published_path(wanted(0, 100, generation=2), 0, 60, HOUR).endswith("-0-0-60-g2.parquet")


def test_names_that_readers_would_skip_or_misread_are_escaped() -> None:
    hidden = wanted(0, 9)._replace(range=QueueRange(QueueRef("_x", "b", 0), 0, 9))
    retry = wanted(0, 9)._replace(range=QueueRange(QueueRef("%RETRY%g", "b/c", 0), 0, 9))
    assert published_path(hidden, 0, 9, HOUR).endswith("/%5Fx-b-0-0-9.parquet")
    assert published_path(retry, 0, 9, HOUR) == (
        "topic=%25RETRY%25g/dt=2026-11-16/hour=12/%25RETRY%25g-b%2Fc-0-0-9.parquet"
    )


def test_staged_files_are_no_parquet_by_name_and_never_the_same() -> None:
    names = {staged_path("run") for _ in range(10)}
    assert len(names) == 10
    assert all(name.startswith("_") and not name.endswith(".parquet") for name in names)

"""Batches of the right size, whatever comes in."""

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from roquet.pipeline.store_source.rows import ROWS_MAX, ROWS_MIN, SIZE_MAX, RowFilter, rebatched
from roquet.store.offline.snapshot import QueueBounds


def numbered(start: int, count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(range(start, start + count))], names=["number"])


@pytest.mark.parametrize("counts", [[], [0, 0], [1] * 50, [5, 0, 60_000, 3], [4096, 4095, 16384]])
def test_all_rows_come_in_their_order_and_in_good_numbers(counts: list[int]) -> None:
    batches = [numbered(sum(counts[:place]), count) for place, count in enumerate(counts)]
    portions = list(rebatched(batches))
    assert [number for each in portions for number in each.column(0).to_pylist()] == list(
        range(sum(counts))
    )
    sizes = [each.num_rows for each in portions]
    assert all(0 < size <= ROWS_MAX for size in sizes)
    assert all(size >= ROWS_MIN for size in sizes[:-1])


def test_large_rows_go_in_small_numbers() -> None:
    body = bytes(SIZE_MAX // 3)
    batch = pa.RecordBatch.from_arrays([pa.array([body] * 10)], names=["body"])
    portions = list(rebatched([batch]))
    assert sum(each.num_rows for each in portions) == 10
    assert all(each.nbytes <= SIZE_MAX for each in portions)


def test_a_row_that_is_too_large_goes_alone() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([bytes(2 * SIZE_MAX), b"x"])], names=["body"])
    assert [each.num_rows for each in rebatched([batch])] == [1, 1]


def test_large_rows_do_not_wait_for_many() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([bytes(SIZE_MAX // 2)])], names=["body"])
    assert [each.num_rows for each in rebatched([batch] * 3)] == [1, 1, 1]


TOPICS = ("a", "b", "c")
TIMESTAMP = pa.timestamp("us", tz="UTC")

small = st.integers(0, 6)
bounds_tables = st.dictionaries(
    st.tuples(st.sampled_from(TOPICS), st.integers(0, 3)),
    st.builds(QueueBounds, small, small, small),
)
records = st.lists(
    st.tuples(st.sampled_from(TOPICS), st.integers(-1, 4), small, small, st.integers(0, 15))
)


def batch_of(rows: list[tuple[str, int, int, int, int]]) -> pa.RecordBatch:
    topics, queue_ids, queue_offsets, places, flags = zip(*rows, strict=True) if rows else [()] * 5
    return pa.RecordBatch.from_arrays(
        [
            pa.array(topics, pa.string()),
            pa.array(queue_ids, pa.int32()),
            pa.array(queue_offsets, pa.int64()),
            pa.array(places, pa.int64()),
            pa.array(flags, pa.int32()),
        ],
        names=["topic", "queueId", "queueOffset", "physicalOffset", "sysFlag"],
    )


@given(bounds=bounds_tables, rows=records)
@pytest.mark.slow
def test_rows_are_what_the_bounds_hold_one_by_one(
    bounds: dict[tuple[str, int], QueueBounds], rows: list[tuple[str, int, int, int, int]]
) -> None:
    expected = [
        row
        for row in rows
        if (each := bounds.get((row[0], row[1]))) is not None
        and each.holds(queue_offset=row[2], physical_offset=row[3], sys_flag=row[4])
    ]
    kept = RowFilter(topics=TOPICS, bounds=bounds).kept(batch_of(rows))
    assert [tuple(row.values()) for row in kept.to_pylist()] == expected


def test_the_name_of_the_only_topic_is_not_decoded() -> None:
    bounds = {("b", 0): QueueBounds(0, 9, 0)}
    rules = RowFilter(topics=["b"], bounds=bounds)
    assert "topic" not in rules.needs
    rows = [("b", 0, 1, 1, 0), ("b", 1, 1, 1, 0)]
    assert rules.kept(batch_of(rows)).num_rows == 1


def test_what_asks_for_nothing_needs_nothing() -> None:
    assert RowFilter(topics=TOPICS).needs == ()


@pytest.mark.parametrize(
    ("begin_ms", "end_ms", "kept"),
    [
        (2, None, [2, 3]),
        (None, 3, [1, 2]),
        (2, 3, [2]),
        (0, 2**63 - 1, [1, 2, 3]),
        (2**63 - 1, None, []),
    ],
)
def test_a_span_starts_with_its_start_and_ends_before_its_end(
    begin_ms: int | None, end_ms: int | None, kept: list[int]
) -> None:
    times = pa.array([1000, 2000, None, 3000], pa.int64()).view(TIMESTAMP)
    batch = pa.RecordBatch.from_arrays([times], names=["storeTimestamp"])
    rules = RowFilter(topics=TOPICS, begin_ms=begin_ms, end_ms=end_ms)
    assert rules.needs == ("storeTimestamp",)
    found = rules.kept(batch).column(0).cast(pa.int64()).to_pylist()
    assert found == [1000 * each for each in kept]

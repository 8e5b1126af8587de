"""Batches of the right size, whatever comes in."""

import pyarrow as pa
import pytest

from roquet.pipeline.store_source.rows import ROWS_MAX, ROWS_MIN, SIZE_MAX, rebatched


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

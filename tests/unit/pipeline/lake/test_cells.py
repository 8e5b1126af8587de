"""Cells: the same cuts whatever the plan."""

import pytest
from hypothesis import given, strategies as st

from roquet.pipeline.lake.cells import cut_at_grid, shared_out
from tests.support.lake_pieces import wanted


def test_files_are_cut_at_the_grid_and_at_the_ends_of_what_is_wanted() -> None:
    cells = list(cut_at_grid([wanted(7, 25), wanted(30, 40)], 10))
    assert [cell.range[1:] for cell in cells] == [(7, 10), (10, 20), (20, 25), (30, 40)]


@given(end=st.integers(1, 500), grid=st.integers(1, 90), count=st.integers(1, 9))
@pytest.mark.slow
def test_every_cell_goes_to_one_task_as_a_whole(end: int, grid: int, count: int) -> None:
    cells = list(cut_at_grid([wanted(0, end)], grid))
    shares = shared_out(cells, count)
    assert len(shares) == min(count, len(cells))
    assert all(shares)
    assert sorted(cell.range for share in shares for cell in share) == [
        cell.range for cell in cells
    ]
    sizes = [sum(cell.range.row_count for cell in share) for share in shares]
    assert max(sizes) - min(sizes) <= grid


def test_no_cells_make_no_tasks() -> None:
    assert shared_out([], 4) == []

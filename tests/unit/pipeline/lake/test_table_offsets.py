"""The offsets of a table as names and numbers."""

from roquet.pipeline.lake.table_offsets import changed_offsets, state_of
from tests.support.lake_pieces import QUEUE, piece


def test_ranges_grow_in_place_and_gaps_are_kept() -> None:
    offsets: dict[str, int] = {}
    for start, end in ((0, 5), (9, 12), (5, 7), (12, 13), (7, 9)):
        offsets |= changed_offsets(offsets, [piece(start, end)])
    assert state_of(offsets, 1).covered(QUEUE) == [(0, 13)]
    assert offsets["orders@broker-a@0"] == 13
    assert len(offsets) == 3

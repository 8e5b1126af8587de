"""The state of a lake is the replay of its log."""

import msgspec
import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import (
    ENTRY_VERSION,
    Compaction,
    LakeEntry,
    LakeFile,
    LakePiece,
    QueueIncarnation,
)
from roquet.pipeline.lake.state import LakeSnapshot, LakeState
from roquet.pipeline.planning import QueueRange
from tests.support.lake_pieces import QUEUE, piece


def replayed(*entries: list[LakePiece]) -> LakeState:
    state = LakeState()
    for number, added in enumerate(entries, start=1):
        state.apply(LakeEntry(ENTRY_VERSION, number, 0, added))
    return state


def test_a_snapshot_is_the_same_state() -> None:
    state = replayed(
        [piece(0, 10, incarnation=QueueIncarnation(0, 1000))],
        [piece(20, 30)],
        [piece(0, 4, generation=1, incarnation=QueueIncarnation(0, 2000))],
    )
    stored = msgspec.json.encode(state.snapshot())
    again = LakeState.of(msgspec.json.decode(stored, type=LakeSnapshot))
    assert again.snapshot() == state.snapshot()
    assert [again.covered(QUEUE, each) for each in (0, 1)] == [[(0, 10), (20, 30)], [(0, 4)]]
    asked = [QueueRange(QUEUE, 0, 6)], {QUEUE: QueueIncarnation(0, 2000)}
    assert again.missing(*asked) == state.missing(*asked)


def test_only_what_the_lake_lacks_is_wanted() -> None:
    state = replayed([piece(0, 10)], [piece(20, 30)])
    missing = state.missing([QueueRange(QUEUE, 5, 40)], {})
    assert [each.range[1:] for each in missing.wanted] == [(10, 20), (30, 40)]
    assert not missing.recreated


def test_a_queue_that_the_lake_does_not_know_is_wanted_whole() -> None:
    other = QueueRef("orders", "broker-b", 0)
    missing = replayed([piece(0, 10)]).missing([QueueRange(other, 0, 10)], {})
    assert [each.range for each in missing.wanted] == [QueueRange(other, 0, 10)]


def test_a_queue_created_again_is_wanted_from_its_first_message_as_another_generation() -> None:
    state = replayed([piece(0, 10, incarnation=QueueIncarnation(0, 1000))])
    missing = state.missing([QueueRange(QUEUE, 0, 4)], {QUEUE: QueueIncarnation(0, 2000)})
    assert missing.recreated == [QUEUE]
    assert [(each.range[1:], each.generation) for each in missing.wanted] == [((0, 4), 1)]


def test_the_second_incarnation_of_a_queue_is_not_wanted_twice_either() -> None:
    state = replayed(
        [piece(0, 10, incarnation=QueueIncarnation(0, 1000))],
        [piece(0, 4, generation=1, incarnation=QueueIncarnation(0, 2000))],
    )
    missing = state.missing([QueueRange(QUEUE, 0, 6)], {QUEUE: QueueIncarnation(0, 2000)})
    assert not missing.recreated
    assert [(each.range[1:], each.generation) for each in missing.wanted] == [((4, 6), 1)]


def test_a_queue_whose_first_messages_expired_is_the_same_queue() -> None:
    state = replayed([piece(0, 10, incarnation=QueueIncarnation(0, 1000))])
    missing = state.missing([QueueRange(QUEUE, 5, 12)], {QUEUE: QueueIncarnation(5, 2000)})
    assert not missing.recreated
    assert [each.range[1:] for each in missing.wanted] == [(10, 12)]


def test_an_entry_that_adds_what_is_there_is_no_entry_of_this_lake() -> None:
    state = replayed([piece(0, 10)])
    with pytest.raises(BadLake, match="9 to 11"):
        state.apply(LakeEntry(ENTRY_VERSION, 2, 0, [piece(9, 11)]))


def test_a_gap_in_the_log_is_refused() -> None:
    with pytest.raises(BadLake, match="entry 2"):
        LakeState().apply(LakeEntry(ENTRY_VERSION, 2, 0, []))


def joined(rows: int, *removed: str) -> LakeEntry:
    return LakeEntry(
        ENTRY_VERSION,
        2,
        0,
        compacted=[Compaction(list(removed), LakeFile("joined.parquet", "", rows, 0))],
    )


def test_joining_changes_files_and_neither_rows_nor_offsets() -> None:
    state = replayed([piece(0, 10), piece(10, 20)])
    state.apply(joined(20, piece(0, 10).path, piece(10, 20).path))
    assert state.covered(QUEUE) == [(0, 20)]
    assert state.row_count == 20
    assert list(state.files) == ["joined.parquet"]
    state.apply(LakeEntry(ENTRY_VERSION, 3, 0, [piece(20, 30)]))
    assert state.row_count == 30


def test_joining_what_is_not_there_or_other_messages_is_refused() -> None:
    for entry in (joined(10, "nothing.parquet"), joined(9, piece(0, 10).path)):
        with pytest.raises(BadLake, match=r"joined\.parquet"):
            replayed([piece(0, 10)]).apply(entry)


def test_the_latest_schema_of_bodies_is_known() -> None:
    state = replayed([piece(0, 10)])
    assert state.body_schema is None
    state.apply(LakeEntry(ENTRY_VERSION, 2, 0, [piece(10, 20)], body_schema="`a` int"))
    state.apply(
        msgspec.structs.replace(joined(20, piece(0, 10).path, piece(10, 20).path), number=3)
    )
    assert state.body_schema == "`a` int"


def test_messages_in_quarantine_are_counted_apart() -> None:
    bad = LakeFile("bad.parquet", "", 3, 0)
    state = replayed([msgspec.structs.replace(piece(0, 10), rows=7, quarantined=bad)])
    assert (state.row_count, state.quarantined_count) == (7, 3)


def test_pieces_that_overlap_each_other_are_not_new() -> None:
    state = LakeState()
    state.check_new([piece(0, 10), piece(10, 20)])
    with pytest.raises(BadLake, match="twice"):
        state.check_new([piece(0, 10), piece(9, 20)])


def test_a_queue_ends_after_the_last_offset_of_any_of_its_incarnations() -> None:
    state = replayed([piece(0, 10)], [piece(20, 30)], [piece(0, 4, generation=1)])
    assert state.queue_ends() == {QUEUE: 30}
    assert LakeState().queue_ends() == {}

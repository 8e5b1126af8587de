import numpy as np
import pytest

from roquet.store.consume_queue import BLANK_SIZE
from roquet.store.errors import DamagedRange
from roquet.store.offline.audit import (
    DIFFERENT_ENTRY,
    ENTRY_TYPE,
    STRAY_ENTRY,
    Entries,
    EntryFault,
    LogExtent,
    entry_faults,
)

EMPTY = (0, 0, 0)
BLANK = (0, BLANK_SIZE, 0)
FIRST = (1000, 100, 7)
SECOND = (1100, 100, 8)
THIRD = (1200, 100, 9)
CLOSED = LogExtent(1000, 5000, [], is_closed=True)
OPEN = LogExtent(1000, 5000, [], is_closed=False)


def entries(*values: tuple[int, int, int]) -> Entries:
    return np.array(list(values), ENTRY_TYPE)


def faults(
    found: tuple[tuple[int, int, int], ...],
    rebuilt: tuple[tuple[int, int, int], ...],
    extent: LogExtent = CLOSED,
) -> list[EntryFault]:
    return list(entry_faults(entries(*found), entries(*rebuilt), 40, extent))


def test_equal_entries_are_right() -> None:
    assert faults((FIRST, SECOND, EMPTY), (FIRST, SECOND, EMPTY)) == []


@pytest.mark.parametrize("wrong", [(1101, 100, 8), (1100, 101, 8), (1100, 100, 9), (-1, -1, -1)])
def test_another_place_size_or_code_is_not_what_the_log_says(wrong: tuple[int, int, int]) -> None:
    assert faults((FIRST, wrong, THIRD), (FIRST, SECOND, THIRD)) == [
        EntryFault(41, 41, DIFFERENT_ENTRY)
    ]


def test_neighbours_are_reported_together() -> None:
    found = (SECOND, FIRST, THIRD, FIRST)
    assert faults(found, (FIRST, SECOND, THIRD, THIRD)) == [
        EntryFault(40, 41, DIFFERENT_ENTRY),
        EntryFault(43, 43, DIFFERENT_ENTRY),
    ]


def test_an_entry_that_is_not_there_is_missing() -> None:
    assert faults((FIRST, EMPTY, EMPTY), (FIRST, SECOND, THIRD)) == [EntryFault(41, 42, "missing")]


def test_the_owner_of_an_open_store_adds_what_is_missing() -> None:
    assert faults((FIRST, EMPTY, EMPTY), (FIRST, SECOND, THIRD), OPEN) == []


def test_an_entry_without_a_record_is_a_stray() -> None:
    assert faults((FIRST, SECOND), (FIRST, EMPTY)) == [EntryFault(41, 41, STRAY_ENTRY)]
    assert faults((FIRST, SECOND), (FIRST, BLANK)) == [EntryFault(41, 41, STRAY_ENTRY)]


def test_records_behind_the_end_are_excused_in_an_open_store_only() -> None:
    late = (5000, 100, 7)
    assert faults((FIRST, late), (FIRST, EMPTY), OPEN) == []
    assert faults((FIRST, late), (FIRST, EMPTY), CLOSED) != []
    assert faults((FIRST, (4999, 100, 7)), (FIRST, EMPTY), OPEN) != []


def test_records_that_expired_are_excused() -> None:
    assert faults(((999, 100, 7), BLANK, FIRST), (BLANK, BLANK, FIRST)) == []


def test_damaged_records_are_excused() -> None:
    extent = LogExtent(1000, 5000, [DamagedRange(1100, 1200, "torn")], is_closed=True)
    assert faults((FIRST, SECOND, THIRD), (FIRST, BLANK, THIRD), extent) == []
    assert faults((FIRST, THIRD, THIRD), (FIRST, BLANK, THIRD), extent) == [
        EntryFault(41, 41, STRAY_ENTRY)
    ]

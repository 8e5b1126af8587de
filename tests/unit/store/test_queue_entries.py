from struct import Struct

import pytest

from roquet.store.consume_queue import BLANK_SIZE, ENTRY_SIZE, unpack_entries
from roquet.store.queue_entries import (
    count_before,
    leading_blanks,
    pack_entries,
    sound_count,
)

BLANK = (0, BLANK_SIZE, 0)
LARGEST = 2**63 - 1

_ENTRY = Struct(">qiq")


def packed(entries: list[tuple[int, int, int]]) -> bytes:
    return b"".join(_ENTRY.pack(*each) for each in entries)


def test_entries_of_records_that_follow_each_other_are_as_the_queue_draws_them() -> None:
    entries = pack_entries(2**40, [100, 2**31 - 1, 91], [-1, 2**63 - 1, -(2**63)])
    assert len(entries) == 3 * ENTRY_SIZE
    assert list(unpack_entries(entries)) == [
        (2**40, 100, -1),
        (2**40 + 100, 2**31 - 1, 2**63 - 1),
        (2**40 + 100 + 2**31 - 1, 91, -(2**63)),
    ]
    assert pack_entries(0, [], []) == b""


def test_every_record_has_a_code() -> None:
    for codes in ([], [1, 2]):
        with pytest.raises(ValueError, match="for 1 records"):
            pack_entries(0, [100], codes)


@pytest.mark.parametrize(
    ("entries", "count"),
    [
        ([], 0),
        ([(0, 100, 0)], 1),
        ([(0, 100, 0), (100, 1, 0)], 2),
        ([(0, 100, 0), (99, 1, 0)], 1),
        ([BLANK, (0, 100, 0), BLANK, (100, 5, 0)], 4),
        ([BLANK, (7, 100, 0), BLANK, (100, 5, 0)], 3),
        ([(0, 0, 0), (100, 5, 0)], 0),
        ([(5, 9, 0), (0, 0, 0), (1, 1, 1)], 1),
        ([(5, 9, 0), (-1, 9, 0)], 1),
        ([(-(2**63), 9, 0)], 0),
        ([(LARGEST, BLANK_SIZE, 0), (LARGEST, 9, 0)], 1),
        ([(0, 9, 0), (LARGEST, 9, 0)], 2),
    ],
)
def test_entries_are_sound_while_their_records_follow_each_other(
    entries: list[tuple[int, int, int]], count: int
) -> None:
    assert sound_count(packed(entries)) == count


@pytest.mark.parametrize(
    ("entries", "count"),
    [
        ([], 0),
        ([(0, 100, 0)], 0),
        ([BLANK, BLANK, (0, 100, 0), BLANK], 2),
        ([BLANK, (1, BLANK_SIZE, 0)], 1),
        ([BLANK, BLANK], 2),
    ],
)
def test_blank_entries_count_up_to_the_first_other_one(
    entries: list[tuple[int, int, int]], count: int
) -> None:
    assert leading_blanks(packed(entries)) == count


@pytest.mark.parametrize(
    ("entries", "limit", "count"),
    [
        ([], 500, 0),
        ([(0, 100, 0), (100, 100, 0), (200, 100, 0)], 200, 2),
        ([(0, 100, 0), (100, 100, 0), (200, 100, 0)], 201, 3),
        ([(100, 100, 0)], 100, 0),
        ([(100, 100, 0), BLANK, BLANK], 500, 1),
        ([(100, 100, 0), BLANK, (900, 1, 0), (300, 1, 0)], 500, 4),
    ],
)
def test_entries_before_a_limit_end_with_the_last_one_of_a_record_there(
    entries: list[tuple[int, int, int]], limit: int, count: int
) -> None:
    assert count_before(packed(entries), limit) == count


def test_an_entry_that_is_cut_off_is_not_looked_at() -> None:
    entries = packed([BLANK, (100, 50, 0)])[:-1]
    assert sound_count(entries) == 1
    assert leading_blanks(entries) == 1
    assert count_before(entries, 500) == 0

import pytest

from roquet.store.log_scan import NO_END, NOTHING_KNOWN, ChecksummedRanges, ChecksumPart

KNOWN = ChecksummedRanges(((100, 200), (300, NO_END)))


@pytest.mark.parametrize(
    ("offset", "must_have", "end"),
    [
        (0, False, 100),
        (99, False, 100),
        (100, True, 200),
        (199, True, 200),
        (200, False, 300),
        (300, True, NO_END),
        (1 << 50, True, NO_END),
    ],
)
def test_a_part_goes_up_to_where_the_answer_changes(offset: int, must_have: bool, end: int) -> None:
    assert KNOWN.part_at(offset) == ChecksumPart(must_have, end)


def test_where_nothing_is_known_nothing_is_expected() -> None:
    assert NOTHING_KNOWN.part_at(5) == ChecksumPart(must_have=False, end=NO_END)
    assert not NOTHING_KNOWN.touches(0, NO_END)


def test_an_empty_range_expects_nothing() -> None:
    empty = ChecksummedRanges(((100, 100),))
    assert [empty.part_at(offset).must_have for offset in (99, 100, 101)] == [False] * 3
    assert not empty.touches(0, 500)


@pytest.mark.parametrize(
    ("start", "end", "touches"),
    [(0, 100, False), (0, 101, True), (199, 300, True), (200, 300, False), (5000, 6000, True)],
)
def test_a_file_is_touched_when_one_byte_of_it_is(start: int, end: int, touches: bool) -> None:
    assert KNOWN.touches(start, end) is touches

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
    assert NOTHING_KNOWN.first_between(0, NO_END) == NO_END


def test_an_empty_range_expects_nothing() -> None:
    empty = ChecksummedRanges(((100, 100),))
    assert [empty.part_at(offset).must_have for offset in (99, 100, 101)] == [False] * 3
    assert empty.first_between(0, 500) == 500


@pytest.mark.parametrize(
    ("start", "end", "first"),
    [(0, 100, 100), (0, 101, 100), (199, 300, 199), (200, 300, 300), (5000, 6000, 5000)],
)
def test_the_first_record_of_a_file_that_must_have_a_checksum(
    start: int, end: int, first: int
) -> None:
    assert KNOWN.first_between(start, end) == first

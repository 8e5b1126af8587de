"""What a recorded device may hold after a cut: what was flushed, and any of the rest."""

from random import Random

from tests.support.recorded_device import SECTOR_SIZE, Event, Platter

SIZE = 4 * SECTOR_SIZE
OLD = b"o" * SECTOR_SIZE
NEW = b"n" * SECTOR_SIZE
NOTHING = bytes(SECTOR_SIZE)

RECORD = [
    Event(1.0, 0, OLD),
    Event(2.0),
    Event(3.0, 0, NEW + NEW),
    Event(4.0, 3 * SECTOR_SIZE, NEW),
    Event(5.0),
]


def sectors_at(position: int, seed: int) -> list[bytes]:
    content = Platter(SIZE, RECORD).cut_at(position, Random(seed))
    return [content[start : start + SECTOR_SIZE] for start in range(0, SIZE, SECTOR_SIZE)]


def test_what_was_flushed_is_there() -> None:
    for seed in range(20):
        assert sectors_at(2, seed) == [OLD, NOTHING, NOTHING, NOTHING]
        assert sectors_at(5, seed) == [NEW, NEW, NOTHING, NEW]


def test_of_the_rest_every_sector_is_there_or_not() -> None:
    found = {tuple(sectors_at(4, seed)) for seed in range(200)}
    assert found == {
        (first, second, NOTHING, fourth)
        for first in (OLD, NEW)
        for second in (NOTHING, NEW)
        for fourth in (NOTHING, NEW)
    }


def test_a_platter_continues_from_cut_to_cut() -> None:
    platter = Platter(SIZE, RECORD)
    platter.cut_at(1, Random(1))
    platter.cut_at(4, Random(1))
    assert platter.cut_at(5, Random(1)) == NEW + NEW + NOTHING + NEW

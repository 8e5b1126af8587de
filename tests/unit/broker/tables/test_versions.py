"""Which version of a table is the later one."""

import pytest

from roquet.broker.tables.versions import changed, gives_way, in_part, is_later, is_of_epoch, led
from roquet.protocol.bodies.body import DataVersion


def version(epoch: int, counter: int, timestamp: int = 1) -> DataVersion:
    return DataVersion(state_version=epoch, counter=counter, timestamp=timestamp)


@pytest.mark.parametrize(
    ("of_record", "known", "is_news"),
    [
        (version(1, 5), version(1, 4), True),
        (version(1, 5), version(1, 5), False),
        (version(1, 4), version(1, 5), False),
        (version(2, 1), version(1, 900), True),
        (version(1, 900), version(2, 1), False),
        # Times say nothing: clocks of two masters differ.
        (version(1, 5, 10), version(1, 5, 20), False),
        (version(1, 5, 10), version(1, 4, 20), True),
    ],
)
def test_an_epoch_goes_before_a_count(
    of_record: DataVersion, known: DataVersion, is_news: bool
) -> None:
    assert is_later(of_record, known) is is_news


@pytest.mark.parametrize(
    ("master", "is_taken_over"),
    [
        (version(3, 7), False),  # the same
        (version(3, 6), False),  # older than what the log has brought
        (version(2, 99), False),  # of a master that has been succeeded
        (version(3, 8), True),
        (version(4, 1), True),  # of a successor, whatever it counted
        (version(3, 7, timestamp=2), True),  # as old, and whole
        (version(0, 1), True),  # of a master that puts no epochs into its tables
    ],
)
def test_a_copy_is_taken_over_unless_it_is_older(master: DataVersion, is_taken_over: bool) -> None:
    assert gives_way(version(3, 7), master, has_epochs=True) is is_taken_over


@pytest.mark.parametrize(
    ("master", "is_taken_over"),
    [(version(0, 7), False), (version(0, 6), True), (version(0, 7, timestamp=2), True)],
)
def test_without_epochs_whatever_differs_is_taken_over(
    master: DataVersion, is_taken_over: bool
) -> None:
    assert gives_way(version(0, 7), master, has_epochs=False) is is_taken_over


def test_what_is_there_in_part_gives_way_to_the_whole_of_the_same_version() -> None:
    whole = version(3, 7, timestamp=1000)
    part = in_part(whole)
    assert gives_way(part, whole, has_epochs=True)
    assert not is_later(whole, part)
    assert not gives_way(part, version(3, 6), has_epochs=True)


def test_a_change_counts_and_an_epoch_starts_with_one() -> None:
    assert changed(version(3, 7), 1000) == version(3, 8, 1000)
    assert led(version(3, 7), 5, 1000) == version(5, 8, 1000)


def test_tables_of_masters_with_epochs_are_known_by_their_version() -> None:
    assert is_of_epoch(version(1, 0), has_epochs=True)
    assert not is_of_epoch(version(0, 9), has_epochs=True)
    assert not is_of_epoch(version(1, 0), has_epochs=False)

"""Who takes the office."""

import pytest
from msgspec.structs import replace

from roquet.broker.replication.epochs import START, LogPlace
from roquet.broker.replication.failover.election import (
    Candidacy,
    ElectionVerdict,
    verdict,
    voices_needed,
)
from roquet.broker.replication.in_sync import ANY_STORE, Replica

VACANCY = 40


def candidate(replica_id: int, end: int, *, epoch: int = 7, vacancy: int = VACANCY) -> Candidacy:
    return Candidacy(replica_id, vacancy, epoch, end, store=f"store of {replica_id}")


def judged(
    me: Candidacy,
    *others: Candidacy,
    members: tuple[int, ...] = (1, 2, 3),
    copies: int = 2,
    is_patient: bool = False,
    acknowledged: LogPlace = START,
) -> ElectionVerdict:
    return verdict(
        me,
        others,
        frozenset(Replica(each, f"store of {each}") for each in members),
        copies=copies,
        is_patient=is_patient,
        acknowledged=acknowledged,
    )


@pytest.mark.parametrize(
    ("members", "copies", "voices"),
    [(1, 2, 1), (2, 2, 1), (3, 2, 2), (5, 2, 4), (5, 3, 3), (2, 3, 1), (3, 1, 1)],
)
def test_enough_have_spoken_when_one_of_them_must_have_what_was_acknowledged(
    members: int, copies: int, voices: int
) -> None:
    assert voices_needed(members, copies) == voices


def test_the_longest_log_wins() -> None:
    longer, shorter = candidate(2, 900), candidate(3, 800)
    assert judged(longer, shorter) is ElectionVerdict.STAND
    assert judged(shorter, longer) is ElectionVerdict.YIELD


def test_a_later_epoch_is_longer_than_any_size() -> None:
    late, large = candidate(2, 100, epoch=8), candidate(1, 900, epoch=7)
    assert judged(late, large) is ElectionVerdict.STAND
    assert judged(large, late) is ElectionVerdict.YIELD


def test_of_two_equals_exactly_one_stands() -> None:
    one, other = candidate(2, 900), candidate(3, 900)
    assert [judged(one, other), judged(other, one)] == [
        ElectionVerdict.STAND,
        ElectionVerdict.YIELD,
    ]


def test_of_equals_one_that_has_just_stepped_down_comes_last() -> None:
    former, other = replace(candidate(1, 100), abstains=True), candidate(2, 100)
    assert judged(other, former) is ElectionVerdict.STAND
    assert judged(former, other) is ElectionVerdict.YIELD


def test_who_has_the_longest_log_is_waited_for_though_it_has_just_stepped_down() -> None:
    former, other = replace(candidate(1, 101), abstains=True), candidate(2, 100)
    assert judged(other, former) is ElectionVerdict.YIELD


def test_nobody_stands_before_enough_have_spoken() -> None:
    assert judged(candidate(2, 900)) is ElectionVerdict.WAIT
    assert judged(candidate(2, 900), members=(1, 2)) is ElectionVerdict.STAND


def test_what_was_said_in_another_vacancy_does_not_count() -> None:
    assert judged(candidate(2, 900), candidate(3, 950, vacancy=39)) is ElectionVerdict.WAIT


def test_who_is_not_in_sync_neither_stands_nor_speaks() -> None:
    assert judged(candidate(4, 9999)) is ElectionVerdict.OUTSIDE
    assert judged(candidate(2, 900), candidate(4, 9999)) is ElectionVerdict.WAIT


def test_a_patient_one_waits_for_all_but_the_master() -> None:
    me = candidate(2, 900)
    assert judged(me, copies=1, is_patient=True) is ElectionVerdict.WAIT
    assert judged(me, copies=1) is ElectionVerdict.STAND
    assert judged(me, candidate(3, 800), copies=1, is_patient=True) is ElectionVerdict.STAND


def test_who_comes_back_with_an_empty_disk_neither_stands_nor_speaks() -> None:
    """It has the number of a member, and nothing of what that had."""
    empty = Candidacy(2, VACANCY, 0, 0, store="another store")
    assert judged(empty, members=(1, 2)) is ElectionVerdict.OUTSIDE
    assert judged(candidate(3, 900), empty) is ElectionVerdict.WAIT


def test_members_of_before_stores_were_recorded_may_stand() -> None:
    members = frozenset({Replica(1, ANY_STORE), Replica(2, ANY_STORE)})
    me = candidate(2, 900)
    assert verdict(me, (), members, copies=2, is_patient=False) is ElectionVerdict.STAND


@pytest.mark.parametrize(
    ("acknowledged", "expected"),
    [
        (LogPlace(7, 900), ElectionVerdict.STAND),
        (LogPlace(7, 901), ElectionVerdict.BEHIND),
        (LogPlace(6, 9999), ElectionVerdict.STAND),
        (LogPlace(8, 10), ElectionVerdict.BEHIND),
    ],
)
def test_nobody_stands_without_what_was_acknowledged(
    acknowledged: LogPlace, expected: ElectionVerdict
) -> None:
    longer, shorter = candidate(2, 900), candidate(3, 800)
    assert judged(longer, shorter, acknowledged=acknowledged) is expected
    assert judged(shorter, longer, acknowledged=acknowledged) is ElectionVerdict.YIELD

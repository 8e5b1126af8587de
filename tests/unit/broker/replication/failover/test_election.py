"""Which broker becomes master, and what a broker does by what etcd has."""

import pytest
from msgspec.structs import replace

from roquet.broker.replication.epochs import START, LogPlace
from roquet.broker.replication.failover.election import (
    Action,
    ElectionResult,
    Self,
    election_result,
    next_action,
    votes_needed,
)
from roquet.broker.replication.failover.records import Candidacy, MasterRecord, RecordsView
from roquet.broker.replication.in_sync import ANY_STORE, Replica

VACANCY = 40


def candidate(replica_id: int, end: int, *, epoch: int = 7, vacancy: int = VACANCY) -> Candidacy:
    return Candidacy(replica_id, vacancy, epoch, end, store=f"store of {replica_id}")


def result(
    me: Candidacy,
    *others: Candidacy,
    members: tuple[int, ...] = (1, 2, 3),
    replicas_needed: int = 2,
    is_patient: bool = False,
    acknowledged: LogPlace = START,
) -> ElectionResult:
    return election_result(
        me,
        others,
        frozenset(Replica(each, f"store of {each}") for each in members),
        replicas_needed=replicas_needed,
        is_patient=is_patient,
        acknowledged=acknowledged,
    )


@pytest.mark.parametrize(
    ("members", "replicas_needed", "votes"),
    [(1, 2, 1), (2, 2, 1), (3, 2, 2), (5, 2, 4), (5, 3, 3), (2, 3, 1), (3, 1, 1)],
)
def test_enough_have_spoken_when_one_of_them_must_have_what_was_acknowledged(
    members: int, replicas_needed: int, votes: int
) -> None:
    assert votes_needed(members, replicas_needed) == votes


def test_the_longest_log_wins() -> None:
    longer, shorter = candidate(2, 900), candidate(3, 800)
    assert result(longer, shorter) is ElectionResult.STAND
    assert result(shorter, longer) is ElectionResult.YIELD


def test_a_later_epoch_is_longer_than_any_size() -> None:
    late, large = candidate(2, 100, epoch=8), candidate(1, 900, epoch=7)
    assert result(late, large) is ElectionResult.STAND
    assert result(large, late) is ElectionResult.YIELD


def test_of_two_equals_exactly_one_stands() -> None:
    one, other = candidate(2, 900), candidate(3, 900)
    assert [result(one, other), result(other, one)] == [
        ElectionResult.STAND,
        ElectionResult.YIELD,
    ]


def test_of_equals_one_that_has_just_stepped_down_comes_last() -> None:
    former, other = replace(candidate(1, 100), abstains=True), candidate(2, 100)
    assert result(other, former) is ElectionResult.STAND
    assert result(former, other) is ElectionResult.YIELD


def test_the_longest_log_is_waited_for_though_its_broker_has_just_stepped_down() -> None:
    former, other = replace(candidate(1, 101), abstains=True), candidate(2, 100)
    assert result(other, former) is ElectionResult.YIELD


def test_no_replica_is_a_candidate_before_enough_have_published() -> None:
    assert result(candidate(2, 900)) is ElectionResult.WAIT
    assert result(candidate(2, 900), members=(1, 2)) is ElectionResult.STAND


def test_votes_of_another_vacancy_do_not_count() -> None:
    assert result(candidate(2, 900), candidate(3, 950, vacancy=39)) is ElectionResult.WAIT


def test_a_replica_that_is_not_in_sync_is_neither_candidate_nor_voter() -> None:
    assert result(candidate(4, 9999)) is ElectionResult.OUTSIDE
    assert result(candidate(2, 900), candidate(4, 9999)) is ElectionResult.WAIT


def test_a_patient_one_waits_for_all_but_the_master() -> None:
    me = candidate(2, 900)
    assert result(me, replicas_needed=1, is_patient=True) is ElectionResult.WAIT
    assert result(me, replicas_needed=1) is ElectionResult.STAND
    assert result(me, candidate(3, 800), replicas_needed=1, is_patient=True) is ElectionResult.STAND


def test_a_replica_with_an_empty_disk_is_neither_candidate_nor_voter() -> None:
    """It has the number of a member, and nothing of what that had."""
    empty = Candidacy(2, VACANCY, 0, 0, store="another store")
    assert result(empty, members=(1, 2)) is ElectionResult.OUTSIDE
    assert result(candidate(3, 900), empty) is ElectionResult.WAIT


def test_members_of_before_stores_were_recorded_may_stand() -> None:
    members = frozenset({Replica(1, ANY_STORE), Replica(2, ANY_STORE)})
    me = candidate(2, 900)
    assert (
        election_result(me, (), members, replicas_needed=2, is_patient=False)
        is ElectionResult.STAND
    )


@pytest.mark.parametrize(
    ("acknowledged", "expected"),
    [
        (LogPlace(7, 900), ElectionResult.STAND),
        (LogPlace(7, 901), ElectionResult.BEHIND),
        (LogPlace(6, 9999), ElectionResult.STAND),
        (LogPlace(8, 10), ElectionResult.BEHIND),
    ],
)
def test_no_replica_is_a_candidate_without_what_was_acknowledged(
    acknowledged: LogPlace, expected: ElectionResult
) -> None:
    longer, shorter = candidate(2, 900), candidate(3, 800)
    assert result(longer, shorter, acknowledged=acknowledged) is expected
    assert result(shorter, longer, acknowledged=acknowledged) is ElectionResult.YIELD


HERE = "10.0.0.1:10911"
MEMBERS = frozenset({Replica(1, "a"), Replica(2, "b")})


def view(master: int | None, revision: int = 8, address: str = HERE) -> RecordsView:
    record = None if master is None else MasterRecord(master, address, "10.0.0.1:10912")
    return RecordsView(20, record, 0 if master is None else revision, MEMBERS, 9, 100)


NEW = RecordsView(3)


@pytest.mark.parametrize(
    ("seen", "own_epoch", "is_first", "step"),
    [
        (NEW, None, True, Action.FOUND),
        (NEW, None, False, Action.WAIT),
        (view(None), None, True, Action.RUN),
        (view(2), None, True, Action.FOLLOW),
        (view(1), 108, True, Action.LEAD),
        (view(1, revision=9), 108, True, Action.STEP_DOWN),
        (view(2), 108, True, Action.STEP_DOWN),
        (view(None), 108, True, Action.STEP_DOWN),
        (view(1), None, True, Action.CLEAR),
        (view(1, address="10.0.0.9:10911"), None, True, Action.DOUBTED),
    ],
)
def test_every_case_has_its_step(
    seen: RecordsView, own_epoch: int | None, *, is_first: bool, step: Action
) -> None:
    assert next_action(seen, Self(1, HERE, is_first), own_epoch) is step


@pytest.mark.parametrize("is_first", [False, True])
def test_what_etcd_has_lost_is_founded_again_only_by_a_deliberate_word(*, is_first: bool) -> None:
    me = Self(1, HERE, is_first, was_known=True)
    assert next_action(NEW, me, None) is Action.LOST
    assert next_action(NEW, me._replace(is_to_found=True), None) is Action.FOUND
    assert next_action(view(None), me._replace(is_to_found=True), None) is Action.FOUND
    assert next_action(view(2), me._replace(is_to_found=True), None) is Action.FOLLOW

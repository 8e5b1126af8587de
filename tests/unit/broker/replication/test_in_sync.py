"""Who is in sync, and when the set may change."""

from math import inf

import pytest

from roquet.broker.replication.in_sync import (
    ANY_STORE,
    AckPolicy,
    AckRule,
    LagBound,
    Replica,
    ReplicaState,
    end_at_replicas,
    is_in_set,
    is_near,
    next_members,
    wanted_members,
)

BOUND = LagBound(size_max=1000, time_s_max=10.0)
NOW_S = 500.0
LOG_END = 5000


def store_of(replica_id: int) -> Replica:
    return Replica(replica_id, f"store of {replica_id}")


def numbers(members: frozenset[Replica]) -> set[int]:
    return {each.replica_id for each in members}


def follower(
    replica_id: int, end: int = LOG_END, *, caught_up_at_s: float = NOW_S, is_linked: bool = True
) -> ReplicaState:
    return ReplicaState(store_of(replica_id), end, caught_up_at_s, is_linked)


@pytest.mark.parametrize(
    ("each", "expected"),
    [
        (follower(2, 4500), True),
        (follower(2, 3999), False),
        (follower(2, 4500, caught_up_at_s=NOW_S - 10), True),
        (follower(2, 4500, caught_up_at_s=NOW_S - 10.1), False),
        (follower(2, LOG_END, caught_up_at_s=-inf), True),
        (follower(2, LOG_END, caught_up_at_s=-inf, is_linked=False), False),
    ],
    ids=["near", "too much", "long ago", "too long ago", "has all of it", "had, but is gone"],
)
def test_near_is_by_size_and_by_time(each: ReplicaState, *, expected: bool) -> None:
    assert is_near(each, LOG_END, NOW_S, BOUND) is expected


def wanted(members: set[int], *states: ReplicaState) -> set[int]:
    return numbers(
        wanted_members(
            store_of(1),
            set(map(store_of, members)),
            states,
            log_end=LOG_END,
            now_s=NOW_S,
            bound=BOUND,
        )
    )


def test_a_slave_that_is_near_and_linked_joins() -> None:
    assert wanted({1}, follower(2), follower(3, 100)) == {1, 2}


def test_a_member_that_lost_its_link_a_moment_ago_stays() -> None:
    gone = follower(2, is_linked=False)
    assert wanted({1, 2}, gone) == {1, 2}
    assert wanted({1}, gone) == {1}


def test_a_member_that_is_behind_goes() -> None:
    assert wanted({1, 2}, follower(2, 100)) == {1}


def following(
    members: set[int], wanted: set[int], ends: dict[int, int], *, replicas_needed: int = 2
) -> set[int]:
    return numbers(
        next_members(
            frozenset(map(store_of, members)),
            frozenset(map(store_of, wanted)),
            ends={store_of(each): end for each, end in ends.items()},
            acknowledged_end=100,
            replicas_needed=replicas_needed,
        )
    )


def test_a_slave_that_comes_in_must_have_what_was_acknowledged() -> None:
    """The master that was alone has it; the one that joins might be its successor."""
    assert following({1}, {1, 2}, {1: 100, 2: 99}) == {1}
    assert following({1}, {1, 2}, {1: 100, 2: 100}) == {1, 2}


def test_where_nothing_is_promised_everybody_near_comes_in() -> None:
    assert following({1}, {1, 2}, {1: 100, 2: 99}, replicas_needed=1) == {1, 2}


def test_a_set_shrinks_only_when_those_that_stay_have_what_was_acknowledged() -> None:
    """3 and the master have it, 2 does not yet: without 3, a successor might be 2."""
    assert following({1, 2, 3}, {1, 2}, {1: 100, 2: 99, 3: 100}) == {1, 2, 3}
    assert following({1, 2, 3}, {1, 2}, {1: 100, 2: 100, 3: 100}) == {1, 2}


def test_a_master_may_remain_alone() -> None:
    assert following({1, 2}, {1}, {1: 100, 2: 0}) == {1}


def test_a_slave_that_joins_may_replace_one_that_leaves() -> None:
    assert following({1, 2, 3}, {1, 2, 4}, {1: 100, 2: 0, 3: 100, 4: 100}) == {1, 2, 4}


def test_a_member_is_a_store_and_not_a_number() -> None:
    members = frozenset({store_of(1), Replica(2, ANY_STORE)})
    assert is_in_set(store_of(1), members)
    assert not is_in_set(Replica(1, "another store"), members)
    # Recorded before stores were.
    assert is_in_set(store_of(2), members)


def test_an_empty_store_does_not_take_the_place_of_the_one_it_replaces() -> None:
    old, new = store_of(2), Replica(2, "an empty disk")
    members, ends = frozenset({store_of(1), old}), {store_of(1): 100, old: 100, new: 0}

    def following(end: int) -> frozenset[Replica]:
        return next_members(
            members,
            frozenset({store_of(1), new}),
            ends=ends | {new: end},
            acknowledged_end=100,
            replicas_needed=2,
        )

    assert new not in following(99)
    assert following(100) == {store_of(1), new}


@pytest.mark.parametrize(
    ("policy", "counts"),
    [
        (AckPolicy.ASYNC, [1, 1, 1, 1, 1]),
        (AckPolicy.ONE, [2, 2, 2, 2, 2]),
        (AckPolicy.QUORUM, [1, 2, 2, 3, 3]),
    ],
)
def test_a_policy_says_how_many_have_it(policy: AckPolicy, counts: list[int]) -> None:
    assert [AckRule(policy, count).replicas_needed for count in range(1, 6)] == counts


@pytest.mark.parametrize(("needed", "end"), [(1, 90), (2, 70), (3, 50), (4, 0)])
def test_as_many_slaves_have_the_log_up_to_there(needed: int, end: int) -> None:
    assert end_at_replicas([70, 90, 50], needed) == end

"""Random schedules for brokers that step in for each other: nothing acknowledged is lost.

And the same with bugs put in on purpose: rules that find nothing may be blind.
"""

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import pytest

from roquet.broker.replication import decisions, in_sync, leadership
from roquet.broker.replication.epochs import EpochHistory
from roquet.broker.replication.failover import election
from roquet.broker.replication.failover.election import Action, Self
from roquet.broker.replication.failover.records import Candidacy, RecordsView
from roquet.broker.replication.handshake import Admission, Registration
from roquet.broker.replication.in_sync import AckRule, Replica
from roquet.broker.settings.config import BrokerConfig
from tests.support import failover_model
from tests.support.failover_model import TTL_S, FailoverModel

IS_LONG = bool(os.environ.get("ROQUET_LONG"))
SEED_COUNT = 50_000 if IS_LONG else 300
STEPS = 1500


def played(seed: int, replicas_needed: int) -> FailoverModel:
    model = FailoverModel(seed, replicas_needed)
    model.run(STEPS)
    return model


@pytest.mark.parametrize("replicas_needed", [1, 2, 3])
def test_no_schedule_loses_what_was_acknowledged(replicas_needed: int) -> None:
    """Nor does anybody acknowledge when a successor may."""
    models = [(seed, played(seed, replicas_needed)) for seed in range(SEED_COUNT)]
    assert [(seed, each.violations) for seed, each in models if each.violations] == []
    # Or else it would be no wonder.
    assert sum(each.election_count for _, each in models) > 2 * SEED_COUNT
    assert sum(len(each.acknowledged) for _, each in models) > SEED_COUNT


def old_master_returns(*, is_followed: bool) -> FailoverModel:
    """Its successor is lost just then; if `is_followed`, a slave has met the old one meanwhile."""
    model = FailoverModel(0, replicas_needed=2)
    one, two, three = (model.replicas[each] for each in (1, 2, 3))
    model.copy(two, one, 0)
    model.copy(three, one, 0)
    model.review_members(one, 2, 3)
    one.can_reach_etcd = False
    for _ in range(5):
        model.send()  # What no other will ever have.
    model.wait(TTL_S)
    for replica in (two, three, two):
        model.look(replica)
    model.look(three)
    model.send()
    model.copy(three, two, 9)
    model.acknowledge(two)
    assert model.acknowledged
    if is_followed:
        model.copy(three, one, 9)
    model.kill(two)
    model.wait(TTL_S)
    one.can_reach_etcd = True
    for replica in (one, one, three, one, three):
        model.look(replica)
    return model


@pytest.mark.parametrize("is_followed", [False, True])
def test_an_old_master_that_returns_takes_nothing_away(*, is_followed: bool) -> None:
    model = old_master_returns(is_followed=is_followed)
    assert model.replicas[3].epoch is not None
    assert model.violations == []


def empty_disk_returns() -> FailoverModel:
    """Of two that have what was acknowledged one is lost, and the other has a new disk."""
    model = FailoverModel(0, replicas_needed=2)
    one, two, three = (model.replicas[each] for each in (1, 2, 3))
    model.copy(two, one, 0)
    model.copy(three, one, 0)
    model.review_members(one, 2, 3)
    model.send()
    model.copy(two, one, 9)
    model.acknowledge(one)
    assert model.acknowledged
    model.kill(one)
    model.lose_disk(two)
    model.wait(TTL_S)
    for number in (2, 3, 2, 3):
        model.look(model.replicas[number])
    return model


def test_a_broker_with_an_empty_disk_does_not_vote() -> None:
    model = empty_disk_returns()
    assert [model.replicas[each].epoch for each in (2, 3)] == [None, None]
    assert model.violations == []


def tables_come_before_the_log() -> FailoverModel:
    """A slave has the master's progress, and not what was delivered; then it is elected."""
    model = FailoverModel(0, replicas_needed=2)
    one, two = model.replicas[1], model.replicas[2]
    model.copy(two, one, 0)
    model.review_members(one, 2)
    for _ in range(2):
        model.send()
    model.copy(two, one, 9)
    model.acknowledge(one)
    model.deliver(one)
    model.confirm_progress(one)
    model.take_snapshot(one)
    model.copy_tables(two)
    model.kill(one)
    model.wait(TTL_S)
    model.look(two)
    return model


def test_what_a_slave_hears_of_progress_waits_for_its_log() -> None:
    model = tables_come_before_the_log()
    assert model.replicas[2].epoch is not None
    assert model.replicas[2].delivered_count == 0
    assert model.violations == []


class Mutation(NamedTuple):
    bug: str
    put_in: Callable[[pytest.MonkeyPatch], None]
    replicas_needed: int = 2
    # Where luck would take too long.
    scenario: Callable[[], FailoverModel] | None = None


def check_no_epoch(patch: pytest.MonkeyPatch) -> None:
    real = decisions.admission

    def admission(
        slave: Registration, history: EpochHistory, start: int, end: int, **more: Any
    ) -> Admission:
        forgetful = Registration(slave.author, 0, slave.epochs, slave.log_start, slave.log_end)
        return real(forgetful, history, start, end, **more)

    patch.setattr(failover_model, "admission", admission)
    # A second rule would keep it from cutting too much.
    patch.setattr(failover_model, "check_cut", lambda *_places, **_ends: None)


def acknowledge_before_confirmation(patch: pytest.MonkeyPatch) -> None:
    def everything(_ends: Iterable[int], _slaves_needed: int) -> int:
        return 2**63

    patch.setattr(in_sync, "end_at_replicas", everything)


def promote_the_shorter_log(patch: pytest.MonkeyPatch) -> None:
    def rank(self: Candidacy) -> tuple[int, int, int]:
        return self.epoch, -self.end, -self.replica_id

    patch.setattr(Candidacy, "rank", property(rank))


def forget_epochs_in_elections(patch: pytest.MonkeyPatch) -> None:
    def rank(self: Candidacy) -> tuple[int, int, int]:
        return 0, self.end, -self.replica_id

    patch.setattr(Candidacy, "rank", property(rank))


def leave_out_the_margin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leadership, "MARGIN", 0.0)


def elect_with_one_vote(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(election, "votes_needed", lambda _members, _replicas_needed: 1)


def shrink_at_will(patch: pytest.MonkeyPatch) -> None:
    def wanted(
        _members: Collection[Replica], wanted: frozenset[Replica], **_others: object
    ) -> frozenset[Replica]:
        return wanted

    patch.setattr(failover_model, "next_members", wanted)


def let_in_whoever_is_near(patch: pytest.MonkeyPatch) -> None:
    real = in_sync.next_members

    def next_members(
        members: frozenset[Replica],
        wanted: frozenset[Replica],
        *,
        ends: Mapping[Replica, int],
        acknowledged_end: int,
        replicas_needed: int,
    ) -> frozenset[Replica]:
        found = real(
            members,
            wanted,
            ends=ends,
            acknowledged_end=acknowledged_end,
            replicas_needed=replicas_needed,
        )
        return found | wanted

    patch.setattr(failover_model, "next_members", next_members)


def forget_the_policy(patch: pytest.MonkeyPatch) -> None:
    real = BrokerConfig.as_master

    def as_master(self: BrokerConfig, _learned: AckRule | None = None) -> BrokerConfig:
        return real(self)

    patch.setattr(BrokerConfig, "as_master", as_master)


def take_numbers_for_stores(patch: pytest.MonkeyPatch) -> None:
    def is_in_set(replica: Replica, members: Collection[Replica]) -> bool:
        return any(each.replica_id == replica.replica_id for each in members)

    patch.setattr(failover_model, "is_in_set", is_in_set)
    patch.setattr(election, "is_in_set", is_in_set)


def found_again(patch: pytest.MonkeyPatch) -> None:
    def next_action(view: RecordsView, me: Self, own_epoch: int | None) -> Action:
        return election.next_action(view, me._replace(was_known=False), own_epoch)

    patch.setattr(failover_model, "next_action", next_action)


def keep_topics_out_of_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(failover_model, "WRITES_TABLES", False)


def take_any_copy_of_a_table(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(failover_model, "gives_way", lambda *_versions, **_epochs: True)


def use_progress_ahead_of_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(failover_model, "true_at", lambda _end: 0)
    # A second rule would keep it from counting too early.
    patch.setattr(failover_model, "vouched_end", lambda master: len(master.log))


MUTATIONS = (
    Mutation(
        "no epoch check", check_no_epoch, scenario=lambda: old_master_returns(is_followed=True)
    ),
    Mutation("acknowledge before confirmation", acknowledge_before_confirmation),
    Mutation("promote the shorter log", promote_the_shorter_log),
    Mutation(
        "forget epochs in elections",
        forget_epochs_in_elections,
        scenario=lambda: old_master_returns(is_followed=False),
    ),
    Mutation("lease without margin", leave_out_the_margin, replicas_needed=1),
    Mutation("elect with one vote", elect_with_one_vote),
    Mutation("shrink the set at will", shrink_at_will),
    Mutation("let in whoever is near", let_in_whoever_is_near),
    Mutation("a promoted slave forgets the policy", forget_the_policy),
    Mutation("the set holds numbers", take_numbers_for_stores, scenario=empty_disk_returns),
    Mutation("found again when etcd is empty", found_again),
    Mutation("topics are not in the log", keep_topics_out_of_the_log),
    Mutation("any copy of a table is taken", take_any_copy_of_a_table),
    Mutation(
        "progress is used ahead of the log",
        use_progress_ahead_of_the_log,
        scenario=tables_come_before_the_log,
    ),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.bug)
def test_the_bug_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.put_in(monkeypatch)
    if mutation.scenario is not None:
        assert mutation.scenario().violations
    else:
        assert any(played(seed, mutation.replicas_needed).violations for seed in range(SEED_COUNT))

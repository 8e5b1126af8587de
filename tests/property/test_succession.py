"""Random schedules for brokers that are replaced by hand: who was replaced acknowledges nothing.

And the same with bugs put in on purpose.
"""

import os
from collections.abc import Callable, Iterable
from typing import NamedTuple

import pytest

from roquet.broker.replication import leadership
from roquet.broker.replication.other_brokers import OtherBroker
from roquet.namesrv.route_table import BrokerIdentity, LatestMaster, RouteTable
from tests.support.succession_model import SuccessionModel

SEED_COUNT = 50_000 if os.environ.get("ROQUET_LONG") else 500
STEPS = 600


def played(seed: int) -> SuccessionModel:
    model = SuccessionModel(seed)
    model.run(STEPS)
    return model


def test_one_that_was_replaced_acknowledges_nothing() -> None:
    models = [(seed, played(seed)) for seed in range(SEED_COUNT)]
    assert [(seed, each.violations) for seed, each in models if each.violations] == []
    # Or else it would be no wonder.
    assert sum(each.switch_count for _, each in models) > SEED_COUNT
    assert sum(each.acknowledged_count for _, each in models) > 10 * SEED_COUNT


def trust_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leadership, "TRUST_S", 1e9)


def ask_no_name_server(patch: pytest.MonkeyPatch) -> None:
    def nobody(_epoch: int, _masters: Iterable[OtherBroker]) -> None:
        return None

    patch.setattr(leadership, "successor", nobody)


def overlook_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    def later(epoch: int, masters: Iterable[OtherBroker]) -> OtherBroker | None:
        return next((each for each in masters if each.epoch > epoch), None)

    patch.setattr(leadership, "successor", later)


def forget_who_is_lost(patch: pytest.MonkeyPatch) -> None:
    real = RouteTable.latest_master

    def latest_master(self: RouteTable, identity: BrokerIdentity) -> LatestMaster | None:
        group = self.cluster_info().broker_addr_table.get(identity.name)
        return real(self, identity) if group and 0 in group.broker_addrs else None

    patch.setattr(RouteTable, "latest_master", latest_master)


def both_count_to_one_number() -> SuccessionModel:
    """The name server has forgotten the successor, which stands still, when the old one starts."""
    model = SuccessionModel(0)
    one, two = model.brokers
    model.kill(one)
    two.epoch = one.epoch
    model.lead(two)
    two.is_stopped = True
    model.forget_names()
    model.start(one)
    two.is_stopped = False
    model.clock.advance(leadership.TRUST_S)
    model.check(two)
    model.acknowledge(two)
    return model


def test_of_two_masters_of_one_epoch_one_stops() -> None:
    model = both_count_to_one_number()
    assert {each.epoch for each in model.brokers} == {2}
    assert [each.has_rival for each in model.brokers] == [False, True]
    assert model.violations == []


class Mutation(NamedTuple):
    bug: str
    put_in: Callable[[pytest.MonkeyPatch], None]
    # Where luck would take too long.
    scenario: Callable[[], SuccessionModel] | None = None


MUTATIONS = (
    Mutation("answers are trusted for ever", trust_for_ever),
    Mutation("no name server is asked", ask_no_name_server),
    Mutation(
        "the same epoch is overlooked", overlook_the_same_epoch, scenario=both_count_to_one_number
    ),
    Mutation("a master that is lost is forgotten", forget_who_is_lost),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda each: each.bug)
def test_the_bug_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.put_in(monkeypatch)
    if mutation.scenario is not None:
        assert mutation.scenario().violations
        return
    assert any(played(seed).violations for seed in range(SEED_COUNT))

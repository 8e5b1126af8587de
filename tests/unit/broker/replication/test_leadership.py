"""How long a master trusts its lease."""

import asyncio
from collections.abc import Sequence

import pytest

from roquet.broker.registration import OwnIdentity
from roquet.broker.replication.leadership import (
    MARGIN,
    TRUST_S,
    Lease,
    Succession,
    SuccessionWatch,
    succession_by,
    successor,
    trusted_until_s,
)
from roquet.broker.replication.other_brokers import OtherBroker, OtherBrokers
from roquet.net.peers import Peers
from roquet.net.router import Router
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock


def test_a_lease_is_trusted_for_less_than_it_is_given() -> None:
    """By a fifth at least: clocks of the worst machines differ by less."""
    assert trusted_until_s(100.0, 4.0) <= 100.0 + 4.0 * 0.8
    assert MARGIN >= 0.2


def test_time_counts_from_before_it_was_asked_for() -> None:
    clock = FakeClock()
    lease = Lease(clock)
    asked_at_s = clock.monotonic_s()
    clock.advance(2.0)
    lease.renew(asked_at_s, 4.0)
    assert lease.is_trusted
    clock.advance(1.0)
    assert not lease.is_trusted


def test_a_lease_that_was_never_granted_or_has_ended_is_not_trusted() -> None:
    lease = Lease(FakeClock())
    assert not lease.is_trusted
    lease.renew(FakeClock().monotonic_s() + 1e6, 4.0)
    lease.end()
    assert not lease.is_trusted


ELSEWHERE = "10.0.0.2:10911"


def master(epoch: int, *, is_master: bool = True) -> OtherBroker:
    return OtherBroker(ELSEWHERE, epoch, is_master=is_master)


@pytest.mark.parametrize(
    ("epoch", "masters", "expected"),
    [
        (4, [], None),
        (4, [master(3)], None),
        (4, [master(5)], 5),
        (4, [master(5, is_master=False)], 5),
        (4, [master(4)], 4),
        (4, [master(4, is_master=False)], None),
        (0, [master(0)], None),
        (4, [master(4), master(6), master(5)], 6),
    ],
    ids=[
        "alone",
        "an earlier one",
        "a later one",
        "a later one that is away",
        "the same epoch",
        "the same epoch, and perhaps this very broker",
        "no epochs",
        "the latest of all",
    ],
)
def test_which_successor_goes_before(
    epoch: int, masters: Sequence[OtherBroker], expected: int | None
) -> None:
    found = successor(epoch, masters)
    assert (None if found is None else found.epoch) == expected


def others(clock: FakeClock, broker_id: int = 0) -> OtherBrokers:
    """Whom no name server knows."""
    identity = OwnIdentity("cluster", "broker-a", broker_id, "10.0.0.1:10911", "10.0.0.1:10912")
    return OtherBrokers(Peers(Router(None, ()), clock), None, identity, lambda: ())


@pytest.mark.parametrize(("broker_id", "expected"), [(0, 1), (3, 3)])
async def test_a_slave_that_is_succeeded_gets_an_id_that_is_free(
    broker_id: int, expected: int
) -> None:
    found = await succession_by(master(5), others(FakeClock(), broker_id))
    assert found == Succession(master(5), expected)


async def test_a_process_that_stood_still_asks_before_it_acknowledges() -> None:
    clock = FakeClock()
    watch = SuccessionWatch(clock, others(clock), lambda: 4)
    assert not watch.may_acknowledge()
    watch.begin()
    assert watch.may_acknowledge()
    clock.advance(TRUST_S)
    assert not watch.may_acknowledge()
    watching = asyncio.ensure_future(watch.watch(lambda _found: None, lambda: None))
    try:
        await eventually(watch.may_acknowledge)
    finally:
        watching.cancel()

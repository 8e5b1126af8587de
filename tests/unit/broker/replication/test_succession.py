"""Which other master goes before this one, and how long answers are trusted."""

import asyncio
from collections.abc import Sequence

import pytest

from roquet.broker.registration import OwnIdentity
from roquet.broker.replication.other_brokers import OtherBroker, OtherBrokers
from roquet.broker.replication.succession import (
    TRUST_S,
    Succession,
    SuccessionWatch,
    succession_by,
    successor,
)
from roquet.net.peers import Peers
from roquet.net.router import Router
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock

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
def test_who_goes_before(epoch: int, masters: Sequence[OtherBroker], expected: int | None) -> None:
    found = successor(epoch, masters)
    assert (None if found is None else found.epoch) == expected


def others(clock: FakeClock, broker_id: int = 0) -> OtherBrokers:
    """Whom no name server knows."""
    identity = OwnIdentity("cluster", "broker-a", broker_id, "10.0.0.1:10911", "10.0.0.1:10912")
    return OtherBrokers(Peers(Router(None, ()), clock), None, identity, lambda: ())


@pytest.mark.parametrize(("broker_id", "expected"), [(0, 1), (3, 3)])
async def test_who_is_succeeded_gets_an_id_that_is_free(broker_id: int, expected: int) -> None:
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

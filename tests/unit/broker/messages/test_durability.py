"""Who waits for the disk, and what they are told."""

import asyncio
from threading import Thread

import pytest

from roquet.broker.messages.durability import Durability, Outcome
from roquet.store.errors import SyncFailed
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock


class Waiters:
    def __init__(self) -> None:
        self.told: list[tuple[str, Outcome]] = []
        self.clock = FakeClock()
        self.durability = Durability(self.clock, 5)

    def wait(self, name: str, end: int) -> None:
        self.durability.wait(end, lambda outcome: self.told.append((name, outcome)))


@pytest.fixture
async def waiters() -> Waiters:
    return Waiters()


def in_flush_thread(durability: Durability, *ends: int) -> None:
    def run() -> None:
        for end in ends:
            durability.flushed(end)

    thread = Thread(target=run)
    thread.start()
    thread.join()


async def test_one_round_releases_all_that_it_covers_in_their_order(waiters: Waiters) -> None:
    for name, end in (("a", 100), ("b", 200), ("c", 300)):
        waiters.wait(name, end)
    in_flush_thread(waiters.durability, 250)
    await eventually(lambda: len(waiters.told) == 2)
    assert waiters.told == [("a", Outcome.DURABLE), ("b", Outcome.DURABLE)]
    in_flush_thread(waiters.durability, 300)
    await eventually(lambda: len(waiters.told) == 3)


async def test_whoever_follows_the_log_is_told_of_every_round_even_after_the_waiters() -> None:
    durable: list[int] = []
    durability = Durability(FakeClock(), 5, durable.append)
    in_flush_thread(durability, 100)
    await eventually(lambda: durable == [100])
    in_flush_thread(durability, 250)
    await eventually(lambda: durable == [100, 250])


async def test_nobody_is_told_by_the_flush_thread_itself(waiters: Waiters) -> None:
    waiters.wait("a", 100)
    in_flush_thread(waiters.durability, 100, 150, 200)
    assert waiters.told == []
    await eventually(lambda: waiters.told == [("a", Outcome.DURABLE)])


async def test_a_round_during_the_hand_over_is_not_lost(waiters: Waiters) -> None:
    waiters.durability.wait(100, lambda _: in_flush_thread(waiters.durability, 200))
    waiters.wait("b", 200)
    in_flush_thread(waiters.durability, 100)
    await eventually(lambda: waiters.told == [("b", Outcome.DURABLE)])


async def test_after_a_failed_sync_nothing_is_acknowledged_ever_again(
    waiters: Waiters, caplog: pytest.LogCaptureFixture
) -> None:
    waiters.wait("a", 100)
    waiters.durability.flush_failed(SyncFailed("input/output error"))
    await eventually(lambda: waiters.told == [("a", Outcome.FAILED)])
    waiters.wait("b", 200)
    assert waiters.told[1:] == [("b", Outcome.FAILED)]
    assert waiters.durability.has_failed.is_set()
    assert "input/output error" in caplog.text


async def test_who_waits_too_long_is_told_that_nobody_knows(waiters: Waiters) -> None:
    waiters.wait("a", 100)
    waiters.clock.advance(4)
    waiters.wait("b", 200)
    waiters.clock.advance(2)
    await eventually(lambda: waiters.told)
    assert waiters.told == [("a", Outcome.LATE)]
    in_flush_thread(waiters.durability, 200)
    await eventually(lambda: waiters.told[1:] == [("b", Outcome.DURABLE)])


async def test_a_closed_room_leaves_no_timer_behind(waiters: Waiters) -> None:
    waiters.wait("a", 100)
    waiters.durability.close()
    waiters.clock.advance(10)
    await asyncio.sleep(0.6)  # longer than a sweep takes to come
    assert waiters.told == []

"""When to look at what waits."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from roquet.broker.delays.delay_levels import DelayLevels
from roquet.broker.delays.delays import Delays
from roquet.broker.delays.due import ClockSteps
from roquet.broker.delays.timers import Timers
from roquet.broker.tables.durable_state import DurableState
from roquet.clock import SystemClock
from roquet.protocol.bodies.offsets import DelayOffsetTable, TimerProgress
from roquet.store.message_store import MessageStore
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.stores import open_store
from tests.support.waiting import NotNow, Receiver, deliver_once, put_delayed, put_timer

LEVELS_MS = (50, 60_000)
# Far less than the minute that is slept otherwise.
PATIENT_S = 20.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[MessageStore]:
    opened = open_store(tmp_path, clock=clock, delay_levels_ms=LEVELS_MS)
    yield opened
    opened.close()


def delays_of(store: MessageStore, clock: FakeClock | SystemClock) -> Delays:
    steps = ClockSteps(store, clock)
    return Delays(
        clock,
        steps,
        DelayLevels(store, clock, steps, LEVELS_MS, DurableState(DelayOffsetTable())),
        Timers(store, clock, steps, DurableState(TimerProgress())),
    )


@pytest.fixture
def delays(store: MessageStore, clock: FakeClock) -> Delays:
    return delays_of(store, clock)


async def is_waiting(delays: Delays) -> bool:
    """Whether `until_due` waits, having had every chance not to."""
    task = asyncio.create_task(delays.until_due())
    for _ in range(5):
        await asyncio.sleep(0)
    is_done = task.done()
    task.cancel()
    return not is_done


async def test_what_is_due_is_not_waited_for(
    delays: Delays, store: MessageStore, clock: FakeClock
) -> None:
    put_delayed(store)
    assert await is_waiting(delays)
    clock.advance(0.05)
    assert not await is_waiting(delays)


async def test_a_message_that_is_due_before_all_others_wakes(
    delays: Delays, store: MessageStore
) -> None:
    put_delayed(store, level=2)
    task = asyncio.create_task(delays.until_due())
    await asyncio.sleep(0)
    delays.wake_at(START_MS + 60_000)  # not before what it waits for already
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()
    delays.wake_at(START_MS + 59_999)
    async with asyncio.timeout(PATIENT_S):
        await task


async def test_when_nothing_waits_everything_wakes(delays: Delays) -> None:
    task = asyncio.create_task(delays.until_due())
    await asyncio.sleep(0)
    delays.wake_at(START_MS + 10**9)
    async with asyncio.timeout(PATIENT_S):
        await task


async def test_the_sleep_ends_when_the_message_is_due(tmp_path: Path) -> None:
    clock = SystemClock()
    store = open_store(tmp_path, clock=clock, delay_levels_ms=LEVELS_MS)
    delays = delays_of(store, clock)
    appended = put_delayed(store)
    while (delays.next_due_ms or 0) > clock.now_ms():
        await delays.until_due()
    assert 50 <= clock.now_ms() - appended.store_timestamp < PATIENT_S * 1000
    store.close()


@pytest.mark.slow
async def test_a_clock_that_is_put_forward_is_noticed(
    delays: Delays, store: MessageStore, clock: FakeClock
) -> None:
    put_delayed(store, level=2)
    task = asyncio.create_task(delays.until_due())
    await asyncio.sleep(0)
    clock.advance(60)
    async with asyncio.timeout(PATIENT_S):
        await task


async def test_neither_levels_nor_timers_hold_up_the_others(
    delays: Delays, store: MessageStore, clock: FakeClock
) -> None:
    for _ in range(3):
        put_delayed(store, b"level")
        put_timer(store, START_MS + 1_000, b"timer")
    clock.advance(1)
    receiver = Receiver()
    for _ in range(6):
        deliver_once(delays, receiver, clock, count_max=1)
    assert set(receiver.bodies[:2]) == set(receiver.bodies[2:4]) == {b"level", b"timer"}


async def test_both_files_follow_the_disk(
    delays: Delays, store: MessageStore, clock: FakeClock
) -> None:
    put_delayed(store)
    put_timer(store, START_MS + 1_000)
    clock.advance(1)
    deliver_once(delays, Receiver(), clock)
    delays.propose()
    store.flush()
    delays.levels.state.confirm(store.synced_end)
    delays.timers.state.confirm(store.synced_end)
    assert delays.levels.state.value.offset_table[1] == 1
    assert delays.timers.state.value.next_offset == 1


def test_a_clock_that_is_set_is_noticed_before_anything_is_delivered(
    delays: Delays, store: MessageStore, clock: FakeClock
) -> None:
    receiver = Receiver()
    put_delayed(store, b"a minute", level=2)
    put_timer(store, START_MS + 90_000)
    clock.jump(3600)
    deliver_once(delays, receiver, clock)
    assert receiver.bodies == []
    clock.advance(60)
    deliver_once(delays, receiver, clock)
    assert receiver.bodies == [b"a minute"]
    clock.advance(31)
    deliver_once(delays, receiver, clock)
    assert receiver.bodies == [b"a minute", b"timer"]


async def is_noted(delays: Delays) -> bool:
    """Whether nothing was delivered that has not been proposed."""
    task = asyncio.create_task(delays.until_delivered())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    is_done = task.done()
    task.cancel()
    return not is_done


async def test_what_is_delivered_is_noted_once(
    delays: Delays, store: MessageStore, clock: FakeClock
) -> None:
    put_delayed(store)
    deliver_once(delays, Receiver(), clock)
    assert await is_noted(delays)
    clock.advance(1)
    deliver_once(delays, Receiver(), clock)
    assert not await is_noted(delays)
    delays.propose()
    assert await is_noted(delays)


async def test_what_is_delivered_while_the_disk_is_awaited_is_noted_later(
    delays: Delays, store: MessageStore, clock: FakeClock
) -> None:
    for body in (b"first", b"second"):
        put_delayed(store, body)
        clock.advance(1)
        deliver_once(delays, Receiver(), clock)
        delays.propose()
    assert not await is_noted(delays)
    store.flush()
    for state in (delays.levels.state, delays.timers.state):
        state.confirm(store.synced_end)
    delays.propose()
    assert await is_noted(delays)


async def test_what_was_delivered_before_the_store_took_no_more_is_noted(
    delays: Delays, store: MessageStore, clock: FakeClock
) -> None:
    for _ in range(2):
        put_delayed(store)
    clock.advance(1)
    receiver = Receiver()

    def once(records: Sequence[bytes]) -> None:
        receiver(records)
        receiver.is_closed = True

    with pytest.raises(NotNow):
        deliver_once(delays, once, clock, batch_max=1)
    assert not await is_noted(delays)

"""What is due, how long a slice lasts, and what becomes of delays when the clock is set."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.broker.delays import due
from roquet.broker.delays.due import SLICE_SIZE_MAX, ClockSteps, SliceBudget, due_count, due_first
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.stores import opened


def test_a_slice_ends_when_enough_was_delivered() -> None:
    budget = SliceBudget(FakeClock(), count_max=3, batch_max=2)
    assert budget.batch_count == 2
    budget.spend([b"1", b"2"])
    assert (budget.batch_count, budget.is_spent) == (1, False)
    budget.spend([b"3"])
    assert budget.is_spent


def test_a_slice_ends_with_a_large_record() -> None:
    budget = SliceBudget(FakeClock())
    budget.spend([bytes(SLICE_SIZE_MAX - 1)])
    assert not budget.is_spent
    budget.spend([b"1"])
    assert budget.is_spent


def test_a_slice_ends_when_its_time_is_over() -> None:
    clock = FakeClock()
    budget = SliceBudget(clock, length_s=0.005)
    clock.advance(0.004)
    assert not budget.is_spent
    clock.advance(0.002)
    assert budget.is_spent


def test_what_is_due_comes_by_how_long_it_waited() -> None:
    assert due_first({"a": 30, "b": None, "c": 10, "d": 31, "e": 20}, now_ms=30) == ["c", "e", "a"]


def test_what_is_due_ends_at_the_first_that_is_not() -> None:
    assert due_count([10, 30, 31, 20], now_ms=30) == 2
    assert due_count([], now_ms=30) == 0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[MessageStore]:
    with opened(tmp_path, clock=clock) as store:
        yield store


def put(store: MessageStore) -> int:
    return store.append(draft()).physical_offset


def test_time_that_passes_is_no_step(
    store: MessageStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    steps = ClockSteps(store, clock)
    first = put(store)
    clock.advance(86_400)
    clock.jump(0.999)
    steps.check()
    assert steps.since(first) == 0
    assert caplog.text == ""


def test_small_steps_add_up(store: MessageStore, clock: FakeClock) -> None:
    steps = ClockSteps(store, clock)
    first = put(store)
    for _ in range(4):
        clock.jump(0.3)
        steps.check()
    assert steps.since(first) == 1200


def test_a_step_is_reported_once(
    store: MessageStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    steps = ClockSteps(store, clock)
    clock.jump(3600)
    steps.check()
    steps.check()
    assert caplog.text.count("the clock was set forward by 3600.0 seconds") == 1
    clock.jump(-60)
    steps.check()
    assert "the clock was set back by 60.0 seconds" in caplog.text


def test_all_steps_count_since_a_message_was_accepted(
    store: MessageStore, clock: FakeClock
) -> None:
    before_the_run = put(store)
    steps = ClockSteps(store, clock)
    accepted = []
    for seconds in (10, -3, 0):
        accepted.append(put(store))
        clock.jump(seconds)
        steps.check()
    assert [steps.since(each) for each in accepted] == [7_000, -3_000, 0]
    assert steps.since(before_the_run) == 0
    eras = [steps.era_of(each) for each in (before_the_run, *accepted)]
    assert eras == [0, *accepted]
    # All of an era have the same steps behind them.
    assert [steps.since(era) for era in eras] == [0, 7_000, -3_000, 0]


def test_a_run_that_starts_with_an_empty_store_is_a_run(
    store: MessageStore, clock: FakeClock
) -> None:
    steps = ClockSteps(store, clock)
    first = put(store)
    clock.jump(5)
    steps.check()
    assert steps.since(steps.era_of(first)) == 5_000


def test_the_oldest_steps_are_forgotten(
    store: MessageStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(due, "STEP_COUNT_MAX", 2)
    steps = ClockSteps(store, clock)
    accepted = []
    for _ in range(3):
        accepted.append(put(store))
        clock.jump(10)
        steps.check()
    assert [steps.since(each) for each in accepted] == [0, 20_000, 10_000]

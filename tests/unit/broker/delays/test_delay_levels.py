"""Messages by delay level: due at their time, in order, also when clocks and files are strange."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.broker.delays.delay_levels import DelayLevels, OffsetsByTopic
from roquet.broker.delays.due import SLICE_SIZE_MAX, ClockSteps, SliceBudget
from roquet.broker.tables.durable_state import DurableState
from roquet.protocol.bodies.offsets import DelayOffsetTable
from roquet.protocol.names import SCHEDULE_TOPIC
from roquet.store.config import FlushMode
from roquet.store.message_store import MessageStore
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.golden_state import golden_state
from tests.support.inner_parts import log_of, queues_of
from tests.support.stores import open_store
from tests.support.waiting import NotNow, Receiver, deliver_once, put_delayed

DELAYS_MS = (1_000, 5_000, 10_000)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[MessageStore]:
    opened = open_store(
        tmp_path, clock=clock, delay_levels_ms=DELAYS_MS, commit_log_file_size=8 << 20
    )
    yield opened
    opened.close()


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


def levels_of(
    store: MessageStore,
    clock: FakeClock,
    offsets: dict[int, int] | None = None,
    delays_ms: tuple[int, ...] = DELAYS_MS,
    steps: ClockSteps | None = None,
) -> DelayLevels:
    """As a broker starts that finds `offsets` in its file."""
    state = DurableState(DelayOffsetTable(offset_table=offsets or {}))
    return DelayLevels(store, clock, steps or ClockSteps(store, clock), delays_ms, state)


def test_a_message_is_due_when_its_level_says(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    put_delayed(store, b"5 s", level=2)
    assert levels.next_due_ms() == START_MS + 5_000
    clock.advance(4.999)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == []
    clock.advance(0.001)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"5 s"]
    assert levels.next_due_ms() is None


def test_messages_of_a_level_come_in_their_order_and_those_of_others_by_their_time(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    put_delayed(store, b"10 s", level=3)
    clock.advance(6)
    put_delayed(store, b"11 s", level=2)
    put_delayed(store, b"7 s, first", level=1)
    put_delayed(store, b"7 s, second", level=1)
    clock.advance(30)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"7 s, first", b"7 s, second", b"10 s", b"11 s"]


def test_the_next_message_is_the_first_of_all_levels(store: MessageStore, clock: FakeClock) -> None:
    levels = levels_of(store, clock)
    put_delayed(store, level=3)
    clock.advance(1)
    put_delayed(store, level=2)
    assert levels.next_due_ms() == START_MS + 6_000


def test_many_come_in_batches_and_turns(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    for number in range(10):
        put_delayed(store, b"%d" % number)
    clock.advance(1)
    deliver_once(levels, receiver, clock, count_max=7, batch_max=3)
    assert [len(batch) for batch in receiver.batches] == [3, 3, 1]
    next_due_ms = levels.next_due_ms()
    assert next_due_ms is not None
    assert next_due_ms <= clock.now_ms()
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"%d" % number for number in range(10)]


def test_large_messages_come_one_by_one(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    for _ in range(2):
        put_delayed(store, bytes(SLICE_SIZE_MAX))
    clock.advance(1)
    deliver_once(levels, receiver, clock)
    assert len(receiver.bodies) == 1
    deliver_once(levels, receiver, clock)
    assert len(receiver.bodies) == 2


def test_what_cannot_be_taken_now_comes_again(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    for body in (b"1", b"2"):
        put_delayed(store, body)
    clock.advance(1)
    deliver_once(levels, receiver, clock, count_max=1)
    receiver.is_closed = True
    with pytest.raises(NotNow):
        deliver_once(levels, receiver, clock)
    receiver.is_closed = False
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"1", b"2"]


def test_a_start_continues_where_the_file_says(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    for number in range(4):
        put_delayed(store, b"%d" % number)
    clock.advance(1)
    deliver_once(levels_of(store, clock, {1: 2}), receiver, clock)
    assert receiver.bodies == [b"2", b"3"]


@pytest.mark.parametrize("offset", [-5, 4, 2**62])
def test_a_file_that_is_not_of_this_store_is_corrected(
    store: MessageStore, clock: FakeClock, receiver: Receiver, offset: int
) -> None:
    for number in range(3):
        put_delayed(store, b"%d" % number)
    clock.advance(1)
    levels = levels_of(store, clock, {1: offset})
    put_delayed(store, b"new")
    clock.advance(1)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies[-1:] == [b"new"]
    assert len(receiver.bodies) == (4 if offset < 0 else 1)


def test_messages_that_expired_are_passed_over(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    for number in range(3):
        put_delayed(store, b"%d" % number)
    queue = queues_of(store).find(SCHEDULE_TOPIC.encode(), 0)
    assert queue is not None
    queue.min_offset = 2
    clock.advance(1)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"2"]


def test_a_damaged_message_is_passed_over(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    put_delayed(store, b"1")
    bad = put_delayed(store, b"2")
    put_delayed(store, b"3")
    file = log_of(store).file_at(bad.physical_offset)
    assert file is not None
    file.mapping[bad.physical_offset : bad.physical_offset + 8] = bytes(8)
    clock.advance(1)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"1", b"3"]
    assert levels.next_due_ms() is None


def test_a_message_without_a_level_is_due_at_once(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    put_delayed(store, DELAY="none")
    levels = levels_of(store, clock)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"late"]


def test_messages_of_a_level_that_is_not_set_up_any_more_are_delivered(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    put_delayed(store, b"10 s", level=3)
    levels = levels_of(store, clock, delays_ms=DELAYS_MS[:1])
    clock.advance(10)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"10 s"]


def test_with_sync_flush_nothing_is_delivered_before_it_is_on_disk(
    tmp_path: Path, clock: FakeClock, receiver: Receiver
) -> None:
    store = open_store(tmp_path, clock=clock, flush_mode=FlushMode.SYNC, delay_levels_ms=DELAYS_MS)
    levels = levels_of(store, clock)
    put_delayed(store)
    clock.advance(1)
    assert levels.next_due_ms() is None
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == []
    store.flush()
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"late"]
    store.close()


# The clock on the wall is put back or forward.


def put_back(clock: FakeClock, seconds: int) -> None:
    clock._now_ms -= seconds * 1000


def test_when_the_clock_is_put_back_a_message_waits_once_more_but_not_longer(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    for body in (b"1", b"2"):
        put_delayed(store, body, level=2)
    clock.advance(4)
    put_back(clock, 3_600)
    assert levels.next_due_ms() == clock.now_ms() + 5_000
    clock.advance(4.9)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == []
    clock.advance(0.1)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"1", b"2"]


def test_messages_that_came_after_the_clock_was_put_back_wait_for_their_time(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    put_delayed(store, b"before", level=2)
    put_back(clock, 3_600)
    levels.next_due_ms()  # notices it
    clock.advance(3)
    put_delayed(store, b"after", level=2)
    clock.advance(2)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"before"]
    assert levels.next_due_ms() == clock.now_ms() + 3_000


def test_a_clock_that_is_put_forward_brings_delivery_forward(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    put_delayed(store)
    put_back(clock, -3_600)
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"late"]


# What is saved.


def test_the_file_says_what_was_delivered_when_that_is_on_disk(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock, {18: 7})
    put_delayed(store, level=2)
    clock.advance(5)
    deliver_once(levels, receiver, clock)
    levels.propose()
    levels.state.confirm(store.synced_end)
    assert levels.state.value.offset_table == {18: 7}
    store.flush()
    levels.state.confirm(store.synced_end)
    # What is not set up here is kept for whoever sets it up again.
    assert levels.state.value.offset_table == {1: 0, 2: 1, 3: 0, 18: 7}


@pytest.mark.parametrize("name", ["v49_clean", "v49_crashed", "v55_clean", "v55_crashed"])
def test_files_of_apache_are_read(name: str) -> None:
    state = DurableState(DelayOffsetTable())
    state.load(golden_state(name, "delayOffset.json"))
    assert state.value.offset_table[1] > 0


@pytest.mark.parametrize("seconds", [3600, -3600, 1])
@pytest.mark.parametrize("flush_mode", FlushMode)
def test_a_clock_that_is_set_changes_nothing_for_those_that_wait(
    tmp_path: Path, clock: FakeClock, receiver: Receiver, seconds: float, flush_mode: FlushMode
) -> None:
    store = open_store(tmp_path, clock=clock, delay_levels_ms=DELAYS_MS, flush_mode=flush_mode)
    steps = ClockSteps(store, clock)
    levels = levels_of(store, clock, steps=steps)
    put_delayed(store, b"before", level=2)
    clock.advance(2)
    clock.jump(seconds)
    steps.check()
    put_delayed(store, b"behind", level=2)
    store.flush()
    for passed_s, bodies in (
        (2.9, []),
        (0.1, [b"before"]),
        (1.9, [b"before"]),
        (0.1, [b"before", b"behind"]),
    ):
        clock.advance(passed_s)
        deliver_once(levels, receiver, clock)
        assert receiver.bodies == bodies
    store.close()


def test_those_of_earlier_runs_go_by_the_clock(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    put_delayed(store, b"long ago", level=3)
    steps = ClockSteps(store, clock)
    levels = levels_of(store, clock, steps=steps)
    put_delayed(store, b"of this run", level=2)
    clock.jump(10)
    steps.check()
    deliver_once(levels, receiver, clock)
    assert receiver.bodies == [b"long ago"]


def test_what_was_refused_does_not_count(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    put_delayed(store)
    clock.advance(DELAYS_MS[0] / 1000)
    budget = SliceBudget(clock, count_max=1)
    receiver.is_closed = True
    with pytest.raises(NotNow):
        receiver(next(levels_of(store, clock).due(budget)))
    assert not budget.is_spent


# --- which topics messages wait for ---


def waiting(levels: DelayLevels) -> dict[str, tuple[int, int]]:
    """Of one level each."""
    return {topic: (count, due_ms) for topic, count, due_ms in levels.waiting()}


def test_what_is_appended_is_counted_by_topic_until_it_is_delivered(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    levels = levels_of(store, clock)
    for topic in ("a", "b", "a"):
        appended = put_delayed(store, level=2, REAL_TOPIC=topic)
        levels.appended(1, appended.queue_offset, topic)
        clock.advance(1)
    assert levels.is_counted
    assert waiting(levels) == {"a": (2, START_MS + 5_000), "b": (1, START_MS + 6_000)}
    clock.advance(3)
    deliver_once(levels, receiver, clock)
    assert waiting(levels) == {"a": (1, START_MS + 7_000)}
    clock.advance(2)
    deliver_once(levels, receiver, clock)
    assert waiting(levels) == {}


def test_messages_from_before_the_start_are_counted_a_few_at_a_time(
    store: MessageStore, clock: FakeClock
) -> None:
    for number in range(500):
        put_delayed(store, level=3, REAL_TOPIC="odd" if number % 2 else "even")
    levels = levels_of(store, clock, {3: 100})
    assert not levels.is_counted
    step_count = 0
    while levels.count_some():
        step_count += 1
    assert 1 < step_count < 100
    assert waiting(levels) == {
        "even": (200, START_MS + 10_000),
        "odd": (200, START_MS + 10_000),
    }


def test_what_comes_before_the_counting_is_done_is_counted_once(
    store: MessageStore, clock: FakeClock
) -> None:
    put_delayed(store, level=1, REAL_TOPIC="old")
    levels = levels_of(store, clock)
    appended = put_delayed(store, level=1, REAL_TOPIC="new")
    levels.appended(0, appended.queue_offset, "new")
    assert not levels.is_counted
    levels.count_some()
    assert {topic: count for topic, count, _ in levels.waiting()} == {"old": 1, "new": 1}


def test_offsets_of_delivered_messages_are_forgotten() -> None:
    offsets = OffsetsByTopic(0)
    for offset in range(10_000):
        offsets.add(offset, f"topic{offset % 3}", offset)
    assert sum(map(len, offsets._offsets.values())) < 2_000
    assert list(offsets.waiting(9_999)) == [("topic0", 1, 9_999)]

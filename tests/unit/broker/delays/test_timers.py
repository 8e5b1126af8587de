"""Messages with a delivery time of their own."""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from roquet.broker.delays.due import SLICE_SIZE_MAX, ClockSteps
from roquet.broker.delays.timers import Timers, TimerWheel, apache_progress, out_ms
from roquet.broker.tables.durable_state import DurableState
from roquet.protocol.bodies.offsets import TimerProgress
from roquet.protocol.errors import BadBody
from roquet.protocol.names import TIMER_TOPIC
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import START_MS, FakeClock
from tests.support.inner_parts import queues_of
from tests.support.stores import open_store
from tests.support.waiting import NotNow, Receiver, deliver_once, put_timer


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(tmp_path: Path, clock: FakeClock) -> Iterator[MessageStore]:
    opened = open_store(tmp_path, clock=clock, commit_log_file_size=8 << 20)
    yield opened
    opened.close()


@pytest.fixture
def receiver() -> Receiver:
    return Receiver()


def timers_of(
    store: MessageStore,
    clock: FakeClock,
    progress: TimerProgress | None = None,
    steps: ClockSteps | None = None,
) -> Timers:
    """As a broker starts that finds `progress` in its file."""
    state = DurableState(progress or TimerProgress())
    return Timers(store, clock, steps or ClockSteps(store, clock), state)


def deliver(timers: Timers, receiver: Receiver, clock: FakeClock) -> None:
    """All that is due now."""
    next_due_ms = timers.next_due_ms()
    while next_due_ms is not None and next_due_ms <= clock.now_ms():
        deliver_once(timers, receiver, clock)
        next_due_ms = timers.next_due_ms()


def saved(timers: Timers, store: MessageStore) -> TimerProgress:
    """What the file has when everything is on disk."""
    timers.propose()
    store.flush()
    timers.state.confirm(store.synced_end)
    return timers.state.value


@pytest.mark.parametrize(
    ("delivery_ms", "out"),
    [(1_001, 1_000), (1_999, 1_000), (2_000, 1_000), (2_001, 2_000), (1, 0)],
)
def test_the_second_before_the_delivery_is_noted_as_apache_does(delivery_ms: int, out: int) -> None:
    assert out_ms(delivery_ms) == out


@pytest.mark.parametrize("delay_ms", [1, 999, 1_000, 1_001, 59_999, 60_000, 3 * 86_400_000])
def test_a_message_comes_within_a_second_of_its_time_and_never_before(
    store: MessageStore, clock: FakeClock, receiver: Receiver, delay_ms: int
) -> None:
    timers = timers_of(store, clock)
    put_timer(store, START_MS + delay_ms)
    deliver(timers, receiver, clock)
    clock.advance((delay_ms - 1) / 1000)
    deliver(timers, receiver, clock)
    assert receiver.bodies == []
    clock.advance(1)
    deliver(timers, receiver, clock)
    assert receiver.bodies == [b"timer"]


def test_messages_come_in_the_order_of_their_times(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    timers = timers_of(store, clock)
    for delay_s in (70, 5, 300, 6):
        put_timer(store, START_MS + delay_s * 1000, b"%d" % delay_s)
    clock.advance(100)
    deliver(timers, receiver, clock)
    assert receiver.bodies == [b"5", b"6", b"70"]
    clock.advance(200)
    deliver(timers, receiver, clock)
    assert receiver.bodies[3:] == [b"300"]


def test_new_messages_are_looked_at_soon(store: MessageStore, clock: FakeClock) -> None:
    timers = timers_of(store, clock)
    assert timers.next_due_ms() is None
    put_timer(store, START_MS + 90_000)
    assert timers.next_due_ms() == START_MS
    deliver_once(timers, Receiver(), clock)
    next_due_ms = timers.next_due_ms()
    assert next_due_ms is not None
    assert START_MS < next_due_ms <= START_MS + 90_000
    assert timers.pending_count == 1


def test_messages_that_follow_one_another_come_together(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    timers = timers_of(store, clock)
    for number in range(6):
        put_timer(store, START_MS + (9_000 if number == 2 else 1_000), b"%d" % number)
    clock.advance(1)
    deliver(timers, receiver, clock)
    assert receiver.batches == [[b"0", b"1"], [b"3", b"4", b"5"]]
    assert timers.pending_count == 1


def test_many_come_in_turns(store: MessageStore, clock: FakeClock, receiver: Receiver) -> None:
    timers = timers_of(store, clock)
    for number in range(10):
        put_timer(store, START_MS + 1_000, b"%d" % number)
    clock.advance(1)
    deliver_once(timers, receiver, clock, count_max=7, batch_max=3)
    assert [len(batch) for batch in receiver.batches] == [3, 3, 1]
    deliver(timers, receiver, clock)
    assert receiver.bodies == [b"%d" % number for number in range(10)]


def test_large_messages_come_one_by_one(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    timers = timers_of(store, clock)
    for _ in range(2):
        put_timer(store, START_MS + 1_000, bytes(SLICE_SIZE_MAX))
    clock.advance(1)
    deliver_once(timers, receiver, clock)  # indexes the first one
    deliver_once(timers, receiver, clock)
    assert len(receiver.bodies) <= 2
    assert [len(batch) for batch in receiver.batches] == [1] * len(receiver.bodies)
    deliver(timers, receiver, clock)
    assert [len(batch) for batch in receiver.batches] == [1, 1]


def test_what_cannot_be_taken_now_comes_again(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    timers = timers_of(store, clock)
    put_timer(store, START_MS + 1_000)
    clock.advance(1)
    receiver.is_closed = True
    with pytest.raises(NotNow):
        deliver_once(timers, receiver, clock)
    receiver.is_closed = False
    deliver(timers, receiver, clock)
    assert receiver.bodies == [b"timer"]


@pytest.mark.parametrize("text", ["soon", "-5", "9" * 16])
def test_what_is_no_timer_waits_for_nothing(
    store: MessageStore, clock: FakeClock, receiver: Receiver, text: str
) -> None:
    timers = timers_of(store, clock)
    store.append(draft(topic=TIMER_TOPIC))
    put_timer(store, START_MS, b"strange", TIMER_OUT_MS=text)
    put_timer(store, START_MS + 1_000)
    clock.advance(1)
    deliver(timers, receiver, clock)
    assert receiver.bodies == [b"timer"]
    assert timers.next_due_ms() is None


def test_messages_that_expired_are_passed_over(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    timers = timers_of(store, clock)
    for number in range(3):
        put_timer(store, START_MS + 1_000, b"%d" % number)
    deliver_once(timers, receiver, clock)
    queue = queues_of(store).find(TIMER_TOPIC.encode(), 0)
    assert queue is not None
    queue.min_offset = 2
    clock.advance(1)
    deliver(timers, receiver, clock)
    assert receiver.bodies == [b"2"]
    assert timers.pending_count == 0


# What is saved, and what a start makes of it.


def test_a_start_delivers_what_was_not_delivered_and_nothing_else(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    timers = timers_of(store, clock)
    for delay_s in (1, 300, 2, 200):
        put_timer(store, START_MS + delay_s * 1000, b"%d" % delay_s)
    clock.advance(100)
    deliver(timers, receiver, clock)
    progress = saved(timers, store)
    assert (progress.first_offset, progress.next_offset) == (1, 4)

    again = timers_of(store, clock, progress)
    put_timer(store, START_MS + 250_000, b"250")
    clock.advance(300)
    deliver(again, receiver, clock)
    assert receiver.bodies == [b"1", b"2", b"200", b"250", b"300"]


def test_when_all_is_delivered_a_start_looks_at_new_messages_only(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    timers = timers_of(store, clock)
    put_timer(store, START_MS + 1_000)
    clock.advance(1)
    deliver(timers, receiver, clock)
    assert saved(timers, store) == TimerProgress(
        first_offset=1, next_offset=1, true_at=store.log_end
    )


def test_what_came_after_the_file_was_written_is_delivered_even_if_the_clock_went_back(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    timers = timers_of(store, clock)
    put_timer(store, START_MS + 1_000, b"first")
    put_timer(store, START_MS + 900_000, b"last")
    clock.advance(600)
    deliver(timers, receiver, clock)
    progress = saved(timers, store)
    clock._now_ms -= 600_000
    put_timer(store, START_MS + 2_000, b"early")
    clock.advance(900)
    deliver(timers_of(store, clock, progress), receiver, clock)
    assert receiver.bodies == [b"first", b"early", b"last"]


def test_a_file_is_not_replaced_before_all_that_it_speaks_of_was_looked_at(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    for _ in range(300):  # more than are looked at in one slice
        put_timer(store, START_MS + 900_000)
    progress = TimerProgress(first_offset=0, next_offset=300, delivered_until_s=START_MS // 1000)
    timers = timers_of(store, clock, progress)
    deliver_once(timers, receiver, clock, count_max=0)
    assert saved(timers, store) is progress
    deliver_once(timers, receiver, clock)
    assert saved(timers, store).delivered_until_s > progress.delivered_until_s


def test_the_file_never_knows_more_than_the_disk(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    timers = timers_of(store, clock)
    put_timer(store, START_MS + 1_000)
    clock.advance(1)
    deliver(timers, receiver, clock)
    timers.propose()
    timers.state.confirm(store.synced_end)
    assert timers.state.value == TimerProgress()


def test_a_file_that_is_not_of_this_store_is_corrected(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    progress = TimerProgress(
        first_offset=50, next_offset=100, delivered_until_s=(START_MS + 9_000) // 1000
    )
    timers = timers_of(store, clock, progress)
    put_timer(store, START_MS + 1_000)
    clock.advance(1)
    deliver(timers, receiver, clock)
    assert receiver.bodies == [b"timer"]


# The first bytes of `config/timercheck` of a 5.5.0 broker: what it delivered up to 23:01:57, and
# that it looked at the first five messages.
TIMERCHECK = bytes.fromhex(
    "000001a1e1722688 0000000000000104 0000000000000005 0000000000000005"
    "0000000000000000 000001a1e17228f2 000000000000000e"
)


def test_what_apache_delivered_is_known() -> None:
    assert apache_progress(TIMERCHECK.ljust(4096, b"\0")) == TimerProgress(
        delivered_until_s=1_794_783_717, next_offset=5
    )
    with pytest.raises(BadBody):
        apache_progress(TIMERCHECK[:40])


def test_a_start_delivers_what_apache_has_not_delivered(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    now_s = START_MS // 1000 + 10
    for delivery_s in (now_s - 5, now_s, now_s + 1, now_s - 1):
        put_timer(store, delivery_s * 1000, b"%d" % (delivery_s - now_s))
    # Three were looked at, and the second that began ten seconds after the start was reached.
    timers = timers_of(store, clock, TimerProgress(delivered_until_s=now_s, next_offset=3))
    clock.advance(60)
    deliver(timers, receiver, clock)
    assert receiver.bodies == [b"-1", b"1"]


@pytest.mark.parametrize("seconds", [3600, -3600])
@pytest.mark.parametrize("is_followed", [False, True])
def test_a_clock_that_is_set_changes_nothing_for_those_that_wait(
    store: MessageStore, clock: FakeClock, receiver: Receiver, seconds: int, is_followed: bool
) -> None:
    put_timer(store, START_MS + 20_000, b"of an earlier run")
    steps = ClockSteps(store, clock)
    timers = timers_of(store, clock, steps=steps)
    put_timer(store, START_MS + 10_000, b"before")
    if is_followed:
        deliver(timers, receiver, clock)
    clock.jump(seconds)
    steps.check()
    put_timer(store, clock.now_ms() + 12_000, b"behind")
    # What came in an earlier run goes by the clock on the wall.
    early = [b"of an earlier run"] if seconds > 0 else []
    for passed_s, bodies in ((9, []), (2, [b"before"]), (2, [b"before", b"behind"])):
        clock.advance(passed_s)
        deliver(timers, receiver, clock)
        assert receiver.bodies == early + bodies
    assert timers.pending_count == (0 if early else 1)


def test_what_waits_by_an_older_clock_is_not_recorded_as_delivered(
    store: MessageStore, clock: FakeClock, receiver: Receiver
) -> None:
    steps = ClockSteps(store, clock)
    timers = timers_of(store, clock, steps=steps)
    put_timer(store, START_MS + 600_000, b"before")
    clock.jump(3600)
    steps.check()
    put_timer(store, clock.now_ms() + 1_000, b"behind")
    clock.advance(3)
    deliver(timers, receiver, clock)
    assert receiver.bodies == [b"behind"]
    progress = saved(timers, store)
    assert progress.delivered_until_s < (START_MS + 600_000) // 1000
    # After a start the clock on the wall is all there is: it is late, but it comes.
    deliver(timers_of(store, clock, progress), receiver, clock)
    assert b"before" in receiver.bodies


NOON_S = 1_700_000_040  # a full minute


def test_messages_are_counted_by_the_time_when_they_are_due() -> None:
    wheel = TimerWheel()
    # Of the minute that has begun by the second, of others by the minute.
    wheel.add(59, 0)
    wheel.due(59, 1)
    for offset, due_s in enumerate((70, 119, 600, 601, 100_000), 1):
        wheel.add(due_s, offset)
    assert wheel.counts([59, 119, 600]) == [1, 2, 2, 1]
    assert TimerWheel().counts([1]) == [0, 0]


def due(wheel: TimerWheel, now_s: int) -> list[int]:
    """All that is due, taken out."""
    found: list[int] = []
    while batch := wheel.due(now_s, 2):
        found += batch
        wheel.remove(len(batch))
    return found


def test_a_message_is_due_in_its_second_and_not_before() -> None:
    wheel = TimerWheel()
    wheel.add(NOON_S + 61, 7)
    assert due(wheel, NOON_S + 60) == []
    assert due(wheel, NOON_S + 61) == [7]
    assert due(wheel, NOON_S + 61) == []


def test_messages_come_in_the_order_of_their_seconds_and_then_of_their_offsets() -> None:
    wheel = TimerWheel()
    for offset, second in enumerate([3, 1, 125, 3, 1, 0]):
        wheel.add(NOON_S + second, offset)
    assert due(wheel, NOON_S + 200) == [5, 1, 4, 0, 3, 2]


def test_a_minute_that_has_begun_takes_more() -> None:
    wheel = TimerWheel()
    wheel.add(NOON_S + 30, 1)
    assert due(wheel, NOON_S) == []
    wheel.add(NOON_S + 30, 2)
    wheel.add(NOON_S + 10, 3)
    wheel.add(NOON_S - 100, 4)  # long overdue
    assert due(wheel, NOON_S + 10) == [4, 3]
    assert due(wheel, NOON_S + 30) == [1, 2]


def test_what_is_not_removed_is_due_again() -> None:
    wheel = TimerWheel()
    for offset in range(3):
        wheel.add(NOON_S, offset)
    assert list(wheel.due(NOON_S, 2)) == [0, 1]
    wheel.remove(1)
    assert list(wheel.due(NOON_S, 10)) == [1, 2]
    assert len(wheel) == 2


def test_an_empty_wheel_knows_that_it_is() -> None:
    wheel = TimerWheel()
    assert (len(wheel), wheel.next_s, wheel.first_offset) == (0, None, None)
    wheel.add(NOON_S, 1)
    due(wheel, NOON_S)
    assert (len(wheel), wheel.next_s, wheel.first_offset) == (0, None, None)


@given(
    steps=st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.integers(-200, 400)),
            st.tuples(st.just("go on"), st.integers(0, 100)),
            st.tuples(st.just("go back"), st.integers(0, 100)),
        )
    )
)
@pytest.mark.slow
def test_a_wheel_is_a_list_that_is_sorted_by_time(steps: list[tuple[str, int]]) -> None:
    wheel = TimerWheel()
    now_s = NOON_S
    model: dict[int, list[int]] = defaultdict(list)
    for offset, (step, seconds) in enumerate(steps):
        if step == "add":
            wheel.add(now_s + seconds, offset)
            model[now_s + seconds].append(offset)
        else:
            now_s += seconds if step == "go on" else -seconds
        expected = [
            each for second in sorted(model) if second <= now_s for each in model.pop(second)
        ]
        assert due(wheel, now_s) == expected
        waiting = [each for offsets in model.values() for each in offsets]
        assert len(wheel) == len(waiting)
        assert wheel.first_offset == min(waiting, default=None)
        if wheel.next_s is None:
            assert not waiting
        else:
            # Never behind the first one; a minute that has not begun counts from its start.
            assert min(model) - 60 < wheel.next_s <= min(model)
            assert wheel.next_s > now_s

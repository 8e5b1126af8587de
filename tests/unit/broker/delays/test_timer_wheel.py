"""Which messages are due when."""

from collections import defaultdict

import pytest
from hypothesis import given, strategies as st

from roquet.broker.delays.timer_wheel import TimerWheel

NOON_S = 1_700_000_040  # a full minute


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

"""Sessions end, are bounded, and their plans are taken once."""

from roquet.dashboard.web.sessions import (
    PLAN_COUNT_MAX,
    SESSION_COUNT_MAX,
    SESSION_S_MAX,
    Plans,
    Sessions,
)
from tests.support.fake_clock import FakeClock


def test_a_session_ends_when_it_is_not_used() -> None:
    clock = FakeClock()
    sessions = Sessions(clock)
    session = sessions.open("ada")
    assert sessions.find(session.key) is session
    clock.advance(SESSION_S_MAX + 1)
    assert sessions.find(session.key) is None


def test_the_session_used_least_recently_goes_when_there_are_too_many() -> None:
    sessions = Sessions(FakeClock())
    first, second = sessions.open(None), sessions.open(None)
    assert sessions.find(first.key) is first
    for _ in range(SESSION_COUNT_MAX - 1):
        sessions.open(None)
    assert sessions.find(second.key) is None
    assert sessions.find(first.key) is first


def test_a_token_is_that_of_one_session() -> None:
    sessions = Sessions(FakeClock())
    one, other = sessions.open(None), sessions.open(None)
    assert one.is_csrf(one.csrf)
    assert not one.is_csrf(other.csrf)
    assert not one.is_csrf("größe\udcff")


def test_a_plan_is_confirmed_once_and_only_the_newest_are_kept() -> None:
    plans: Plans[int] = Plans()
    keys = [plans.put(number) for number in range(PLAN_COUNT_MAX + 1)]
    assert plans.take(keys[0]) is None
    assert plans.take(keys[-1]) == PLAN_COUNT_MAX
    assert plans.take(keys[-1]) is None

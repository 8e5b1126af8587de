"""A clock that is put forward, and runs on from there."""

from datetime import UTC, datetime, timedelta

from roquet.client.errors import BadArgument
from roquet.testing import MovableClock
from tests.support.raising import raises

HOUR = timedelta(hours=1)


def test_it_runs_as_other_clocks_until_it_is_moved() -> None:
    before, now, after = datetime.now(UTC), MovableClock().now(), datetime.now(UTC)
    assert before - timedelta(milliseconds=1) <= now <= after


def test_it_continues_from_where_it_was_put() -> None:
    clock = MovableClock()
    clock.advance(HOUR)
    clock.advance(2 * HOUR)
    ahead = clock.now() - datetime.now(UTC)
    assert abs(ahead - 3 * HOUR) < timedelta(minutes=1)


def test_the_time_that_passes_is_not_moved() -> None:
    clock = MovableClock()
    before = clock.monotonic_s()
    clock.advance(HOUR)
    assert clock.monotonic_s() - before < 60


def test_it_is_never_put_back() -> None:
    with raises(BadArgument, argument="time"):
        MovableClock().advance(-HOUR)


def test_listeners_are_notified_of_a_move_while_the_block_runs() -> None:
    clock = MovableClock()
    seen: list[datetime] = []
    with clock.notifying(lambda: seen.append(clock.now())):
        clock.advance(HOUR)
    clock.advance(HOUR)
    assert len(seen) == 1
    assert seen[0] > datetime.now(UTC) + HOUR / 2

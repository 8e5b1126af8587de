"""How long a turn lasts."""

import pytest

from roquet.broker.delays.slice import TURN_SIZE_MAX, Turn
from tests.support.fake_clock import FakeClock


def take(_records: object) -> None:
    pass


def refuse(_records: object) -> None:
    raise ConnectionError


def test_a_turn_is_over_when_enough_was_handed_over() -> None:
    turn = Turn(take, FakeClock(), count_max=3, batch_max=2)
    assert turn.batch_count == 2
    turn.hand_over([b"1", b"2"])
    assert (turn.batch_count, turn.is_over) == (1, False)
    turn.hand_over([b"3"])
    assert turn.is_over


def test_a_turn_is_over_with_a_large_record() -> None:
    turn = Turn(take, FakeClock())
    turn.hand_over([bytes(TURN_SIZE_MAX - 1)])
    assert not turn.is_over
    turn.hand_over([b"1"])
    assert turn.is_over


def test_a_turn_is_over_when_its_time_is() -> None:
    clock = FakeClock()
    turn = Turn(take, clock, length_s=0.005)
    clock.advance(0.004)
    assert not turn.is_over
    clock.advance(0.002)
    assert turn.is_over


def test_what_was_refused_does_not_count() -> None:
    turn = Turn(refuse, FakeClock(), count_max=1)
    with pytest.raises(ConnectionError):
        turn.hand_over([b"1"])
    assert not turn.is_over

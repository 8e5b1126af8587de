"""How long a slice lasts."""

import pytest

from roquet.broker.delays.slice import SLICE_SIZE_MAX, DeliverySlice
from tests.support.fake_clock import FakeClock


def take(_records: object) -> None:
    pass


def refuse(_records: object) -> None:
    raise ConnectionError


def test_a_turn_is_over_when_enough_was_handed_over() -> None:
    part = DeliverySlice(take, FakeClock(), count_max=3, batch_max=2)
    assert part.batch_count == 2
    part.hand_over([b"1", b"2"])
    assert (part.batch_count, part.is_over) == (1, False)
    part.hand_over([b"3"])
    assert part.is_over


def test_a_turn_is_over_with_a_large_record() -> None:
    part = DeliverySlice(take, FakeClock())
    part.hand_over([bytes(SLICE_SIZE_MAX - 1)])
    assert not part.is_over
    part.hand_over([b"1"])
    assert part.is_over


def test_a_turn_is_over_when_its_time_is() -> None:
    clock = FakeClock()
    part = DeliverySlice(take, clock, length_s=0.005)
    clock.advance(0.004)
    assert not part.is_over
    clock.advance(0.002)
    assert part.is_over


def test_what_was_refused_does_not_count() -> None:
    part = DeliverySlice(refuse, FakeClock(), count_max=1)
    with pytest.raises(ConnectionError):
        part.hand_over([b"1"])
    assert not part.is_over

import time

import pytest

from roquet.clock import SystemClock

HOUR_NS = 3_600 * 10**9


def test_a_clock_that_is_not_set_has_not_jumped() -> None:
    assert abs(SystemClock().jumped_ms()) < 1_000


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_that_is_set_has_jumped(monkeypatch: pytest.MonkeyPatch, hours: int) -> None:
    clock = SystemClock()
    real = time.time_ns
    # Only root may set the real one, for everybody.
    monkeypatch.setattr(time, "time_ns", lambda: real() + hours * HOUR_NS)
    assert abs(clock.jumped_ms() - hours * 3_600_000) < 1_000
    assert abs(SystemClock().jumped_ms()) < 1_000

"""Deadlines of many, and the end of all."""

import pytest

from roquet.net import deadlines as watch_module
from roquet.net.deadlines import DeadlineSweep
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock


class Patient:
    """Ends when it is asked to, if it is polite."""

    def __init__(
        self, sweep: DeadlineSweep, deadline_s: float = 1e9, *, is_polite: bool = True
    ) -> None:
        self.deadline_s = deadline_s
        self.calls: list[str] = []
        self._sweep = sweep
        self._is_polite = is_polite
        sweep.add(self)

    def expire(self) -> None:
        self.calls.append("expire")

    def close(self, reason: str) -> None:
        self.calls.append(f"close: {reason}")
        if self._is_polite:
            self._sweep.discard(self)

    def abort(self, reason: str) -> None:
        self.calls.append(f"abort: {reason}")
        self._sweep.discard(self)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def sweep(clock: FakeClock) -> DeadlineSweep:
    return DeadlineSweep(clock)


async def test_only_peers_that_are_due_expire(clock: FakeClock, sweep: DeadlineSweep) -> None:
    due = Patient(sweep, clock.monotonic_s() + 5)
    later = Patient(sweep, clock.monotonic_s() + 6)
    sweep.sweep()
    assert due.calls == []
    clock.advance(5)
    sweep.sweep()
    assert (due.calls, later.calls) == (["expire"], [])
    assert sweep.now_s == clock.monotonic_s()
    await sweep.close_all("test")


async def test_looking_happens_by_itself_while_there_is_something_to_watch(
    clock: FakeClock, sweep: DeadlineSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "PERIOD_S", 0.001)
    for _ in range(2):
        patient = Patient(sweep, clock.monotonic_s())
        await eventually(lambda: len(patient.calls) >= 2)  # noqa: B023  Used up at once.
        sweep.discard(patient)
        assert (len(sweep), patient in sweep) == (0, False)


async def test_the_polite_close_and_the_others_are_cut(
    sweep: DeadlineSweep, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_module, "CLOSING_TIMEOUT_S", 0.001)
    polite = Patient(sweep)
    stubborn = Patient(sweep, is_polite=False)
    await sweep.close_all("bye")
    assert polite.calls == ["close: bye"]
    assert stubborn.calls == ["close: bye", "abort: bye"]
    assert len(sweep) == 0

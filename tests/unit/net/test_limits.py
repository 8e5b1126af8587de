"""What all peers together may take, and who has to go when it is too much."""

from typing import Any

import pytest

from roquet.net.limits import ConnectionBudget, ServerLimits
from tests.support.fake_clock import FakeClock

NEAR, FAR, FARTHER = "127.0.0.1", "198.51.100.7", "198.51.100.8"


def budget(clock: FakeClock | None = None, **limits: int) -> ConnectionBudget:
    return ConnectionBudget(clock or FakeClock(), ServerLimits(**({"local_count_max": 0} | limits)))


def refusal(full: ConnectionBudget, ip: str) -> str | None:
    return full.refusal(ip, is_local=ip == NEAR)


def fill(full: ConnectionBudget, ip: str, count: int) -> None:
    for _ in range(count):
        assert refusal(full, ip) is None
        full.opened(ip)


# --- how many ---


def test_there_is_a_bound_for_all() -> None:
    full = budget(connection_count_max=3)
    fill(full, FAR, 2)
    fill(full, FARTHER, 1)
    assert refusal(full, FARTHER) == "3 connections are open"
    assert full.refused_count == 1
    full.closed(FAR)
    assert refusal(full, FARTHER) is None


def test_no_address_keeps_out_the_others() -> None:
    full = budget(connection_count_max=10, connection_count_max_per_address=2)
    fill(full, FAR, 2)
    assert refusal(full, FAR) == f"2 connections from {FAR} are open"
    fill(full, FARTHER, 2)
    full.closed(FAR)
    fill(full, FAR, 1)


def test_they_may_not_all_come_at_once() -> None:
    clock = FakeClock()
    busy = budget(clock, accept_rate_max=2)
    fill(busy, FAR, 2)
    assert "more than 2 connections" in (refusal(busy, FARTHER) or "")
    clock.advance(0.5)
    fill(busy, FAR, 1)
    assert refusal(busy, FAR) is not None
    clock.advance(60)
    fill(busy, FAR, 2)
    assert refusal(busy, FAR) is not None


@pytest.mark.parametrize(
    ("limits", "is_refused_elsewhere"),
    [
        ({"connection_count_max": 1}, True),
        ({"connection_count_max": 100, "connection_count_max_per_address": 1}, False),
        ({"accept_rate_max": 1}, True),
    ],
)
def test_an_operator_on_the_machine_itself_can_always_come_in(
    limits: dict[str, Any], is_refused_elsewhere: bool
) -> None:
    without_exception = budget(**limits)
    fill(without_exception, NEAR, 1)
    assert refusal(without_exception, NEAR) is not None
    full = budget(None, **limits, local_count_max=2)
    fill(full, NEAR, 1)
    assert (refusal(full, FAR) is not None) == is_refused_elsewhere
    fill(full, NEAR, 2)
    assert refusal(full, NEAR) is not None


# --- what they hold ---


class HeldConnection:
    def __init__(self, owner: ConnectionBudget, name: str, reported: list[str]) -> None:
        self.held_size = 0
        self._owner = owner
        self._name = name
        self._reported = reported
        self.true_size = 0
        owner.add(self)

    def hold(self, size: int) -> None:
        self.true_size = size
        self.count_held()

    def count_held(self) -> None:
        difference, self.held_size = self.true_size - self.held_size, self.true_size
        if difference:
            self._owner.hold(difference)

    def cut_off(self, reason: str) -> None:
        self.true_size = 0
        self._reported.append(f"{self._name} {reason}")


def test_the_peer_that_holds_the_most_is_cut_off_first_and_only_as_many_as_needed() -> None:
    full = budget(held_size_max=100)
    reported: list[str] = []
    small, large, middle = (
        HeldConnection(full, name, reported) for name in ("small", "large", "middle")
    )
    small.hold(10)
    large.hold(60)
    middle.hold(30)
    assert (reported, full.held_size) == ([], 100)
    small.hold(11)
    assert reported == ["large held 60 bytes, the most of all, and all together may hold 100"]
    assert (full.held_size, full.cut_off_count) == (41, 1)


def test_what_was_read_meanwhile_does_not_count() -> None:
    full = budget(held_size_max=100)
    reported: list[str] = []
    reader, other = (
        HeldConnection(full, "reader", reported),
        HeldConnection(full, "other", reported),
    )
    reader.hold(90)
    reader.true_size = 0  # Nobody tells.
    other.hold(50)
    assert (reported, full.held_size) == ([], 50)


def test_a_peer_that_is_gone_holds_nothing() -> None:
    full = budget(held_size_max=100)
    holder = HeldConnection(full, "gone", [])
    holder.hold(90)
    full.discard(holder)
    full.recount()
    assert full.held_size == 0

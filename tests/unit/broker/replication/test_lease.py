"""How long a master trusts its lease."""

from roquet.broker.replication.lease import MARGIN, Lease, trusted_until_s
from tests.support.fake_clock import FakeClock


def test_a_lease_is_trusted_for_less_than_it_is_given() -> None:
    """By a fifth at least: clocks of the worst machines differ by less."""
    assert trusted_until_s(100.0, 4.0) <= 100.0 + 4.0 * 0.8
    assert MARGIN >= 0.2


def test_time_counts_from_before_it_was_asked_for() -> None:
    clock = FakeClock()
    lease = Lease(clock)
    asked_at_s = clock.monotonic_s()
    clock.advance(2.0)
    lease.renew(asked_at_s, 4.0)
    assert lease.is_trusted
    clock.advance(1.0)
    assert not lease.is_trusted


def test_a_lease_that_was_never_granted_or_has_ended_is_not_trusted() -> None:
    lease = Lease(FakeClock())
    assert not lease.is_trusted
    lease.renew(FakeClock().monotonic_s() + 1e6, 4.0)
    lease.end()
    assert not lease.is_trusted

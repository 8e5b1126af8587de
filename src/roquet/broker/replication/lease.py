"""How long a master may trust its lease without asking etcd.

etcd counts the seconds of a lease by its own clock, from when it was granted or renewed. The
master counts from before it asked, and stops earlier: its clock may be slower, and between reading
the clock and sending an acknowledgement its process may be suspended for a moment.

    asked        answered                  the master stops           etcd gives it to others
    |------------|-------------------------|..........margin..........|
    0                                      TTL * (1 - MARGIN)         TTL, or later
"""

from typing import Final, final

from roquet.clock import Clock

# Clocks of healthy machines differ by less than a thousandth; the rest is for the moment between
# reading the clock and sending.
MARGIN: Final = 0.25


def trusted_until_s(asked_at_s: float, ttl_s: float) -> float:
    return asked_at_s + ttl_s * (1 - MARGIN)


@final
class Lease:
    """Belongs to the event loop. The clock must run on while the process is suspended."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until_s = 0.0

    def renew(self, asked_at_s: float, ttl_s: float) -> None:
        self._until_s = max(self._until_s, trusted_until_s(asked_at_s, ttl_s))

    def end(self) -> None:
        self._until_s = 0.0

    @property
    def is_trusted(self) -> bool:
        return self._clock.monotonic_s() < self._until_s

"""Whether a master may still acknowledge: its lease with etcd, its succession without.

With etcd: how long a master may trust its lease without asking. etcd counts the seconds of a lease
by its own clock, from when it was granted or renewed. The master counts from before it asked, and
stops earlier: its clock may be slower, and between reading the clock and sending an acknowledgement
its process may be suspended for a moment.

    asked        answered                  the master stops           etcd gives it to others
    |------------|-------------------------|..........margin..........|
    0                                      TTL * (1 - MARGIN)         TTL, or later

Without: whether another broker has become the master of this name. A master that an operator has
replaced may not know it: it was suspended, cut off, or restarted from its own file. Name servers
know, because every master registers with its epoch. So

    before it starts    a master asks them, and starts as a slave if there is a successor
    while it serves     it asks twice a second. Its answers are trusted for three seconds: a process
                        that was suspended for longer asks again before it acknowledges anything
    a later epoch       it steps down, and becomes a slave
    the same epoch      of another broker, too: it is not known whose messages count. It refuses
                        messages until an operator has demoted one of the two

Name servers that do not answer stop no master: one that is cut off from all of them continues.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, final

import msgspec

from roquet.broker.replication.other_brokers import OtherBroker, OtherBrokers
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


log = logging.getLogger(__name__)

PERIOD_S: Final = 0.5
TRUST_S: Final = 3.0


def successor(epoch: int, masters: Iterable[OtherBroker]) -> OtherBroker | None:
    """Of the master of `epoch`: the one that goes before it, if there is one.

    A broker of the same epoch has to answer as a master itself: what a name server remembers may be
    this very broker by an earlier address, and slaves have the epoch of their master.
    """
    rivals = [
        each
        for each in masters
        if each.epoch > epoch or (each.epoch == epoch > 0 and each.is_master)
    ]
    return max(rivals, key=lambda each: each.epoch, default=None)


class Succession(msgspec.Struct, frozen=True):
    """The successor of this broker, and the slave id that is free for this one."""

    by: OtherBroker
    free_id: int


async def succession_by(master: OtherBroker, others: OtherBrokers) -> Succession:
    """The id under which a broker can follow its successor; its own, if that is still free."""
    taken = set((await others.addresses()).values()) | {0}
    numbers = (others.identity.broker_id, *range(1, len(taken) + 1))
    return Succession(master, next(each for each in numbers if each not in taken))


@final
class SuccessionWatch:
    """Belongs to the event loop. `own_epoch` gives the epoch in which this broker is the master."""

    def __init__(self, clock: Clock, others: OtherBrokers, own_epoch: Callable[[], int]) -> None:
        self._clock = clock
        self._others = others
        self._own_epoch = own_epoch
        self._trusted_until_s = 0.0
        # Another master of the same epoch.
        self.rival: OtherBroker | None = None

    def begin(self) -> None:
        """This broker has just become the master, after a check for others."""
        self.rival = None
        self._trusted_until_s = self._clock.monotonic_s() + TRUST_S

    def may_acknowledge(self) -> bool:
        return self.rival is None and self._clock.monotonic_s() < self._trusted_until_s

    async def watch(
        self, on_succeeded: Callable[[Succession], None], on_rival: Callable[[], None]
    ) -> None:
        """Never returns. `on_rival` is called when `rival` has changed."""
        while True:
            asked_at_s = self._clock.monotonic_s()
            found = successor(self._own_epoch(), await self._others.masters())
            if found is not None and found.epoch > self._own_epoch():
                on_succeeded(await succession_by(found, self._others))
            elif found != self.rival:
                self.rival = found
                on_rival()
            self._trusted_until_s = asked_at_s + TRUST_S
            await asyncio.sleep(PERIOD_S)

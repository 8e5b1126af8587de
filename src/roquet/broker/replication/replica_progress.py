"""Which slaves a master has, and how far each has confirmed the log. State; it knows no sockets.

A master that waits for slaves answers a send when `slaves_needed` of them have confirmed it. If
fewer are near enough it does not wait, and answers so:

    too few     fewer have reported and lag by less than `lag_size_max`     SLAVE_NOT_AVAILABLE
    enough      that many have                                              wait, with a timeout

While it waits for them, readers are shown only what was confirmed, or given up: what a reader has
seen does not vanish with the master. What was readable stays so when a slave connects.

Where another broker may take over (`members` is not None) only those in sync count, nothing is
acknowledged unless `may_acknowledge` allows it, and what was given up is not shown: a successor may
not have it. A master that is alone in sync has no successor, and shows everything.
"""

from collections.abc import Callable
from math import inf
from typing import Final, final

import msgspec

from roquet.broker.replication.in_sync import Replica, ReplicaState, end_at_replicas, is_in_set

EVERYTHING: Final = 2**63 - 1
# For how long a slave that was refused is shown to operators.
_DUPLICATE_S: Final = 30.0


def do_nothing() -> None:
    """For a master that waits for no slave."""


def always() -> bool:
    """For a master that has no successor."""
    return True


@final
class Slave(msgspec.Struct, eq=False):
    """One link, from its first report on. Slaves of Apache are no `replica`."""

    address: str
    confirmed_end: int
    sent_end: int
    replica: Replica | None = None
    # Where clients find it.
    broker_address: str = ""
    linked_at_s: float = 0.0
    # When it had all that the log had then; the mark is what it has to confirm to prove it again.
    caught_up_at_s: float = -inf
    mark_end: int = 0
    mark_at_s: float = 0.0

    def lag_s(self, log_end: int, now_s: float) -> float:
        if self.confirmed_end >= log_end:
            return 0.0
        return now_s - max(self.caught_up_at_s, self.linked_at_s)


@final
class ReplicaProgress:
    """Belongs to the event loop. `on_change` is called after every change that is made here."""

    def __init__(
        self,
        lag_size_max: int,
        log_end: Callable[[], int],
        *,
        slaves_needed: int = 1,
        now_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._lag_size_max = lag_size_max
        self._log_end = log_end
        self._now_s = now_s
        self._slaves_needed = slaves_needed
        self.slaves: list[Slave] = []
        # The in-sync set, with the master itself; None without etcd.
        self.members: frozenset[Replica] | None = None
        self.may_acknowledge: Callable[[], bool] = always
        # The most that enough slaves ever confirmed.
        self._confirmed_end = 0
        # What readers were shown while no slave was waited for, or given up.
        self._shown_end = 0
        # When this broker became master, and its log then: all of it may be acknowledged.
        self._since_s = now_s()
        self._since_end = 0
        self._gone: dict[Replica, ReplicaState] = {}
        self._duplicate = ""
        self._duplicate_at_s = -inf
        self.on_change: Callable[[], None] = do_nothing

    def require(self, slaves_needed: int) -> None:
        """So many have to confirm a message from now on."""
        self._slaves_needed = slaves_needed

    def lead(self, members: frozenset[Replica], may_acknowledge: Callable[[], bool]) -> None:
        """From now on there may be a successor. What the log has now was elected with it."""
        self.members = members
        self.may_acknowledge = may_acknowledge
        self._since_s = self._now_s()
        self._since_end = self._shown_end = self._log_end()
        self.on_change()

    def use_members(self, members: frozenset[Replica]) -> None:
        self._note_shown()
        self.members = members
        self._count()

    def join(self, slave: Slave) -> None:
        self._note_shown()
        now_s = self._now_s()
        slave.linked_at_s = slave.mark_at_s = now_s
        slave.mark_end = self._log_end()
        self.slaves.append(slave)
        if slave.replica is not None:
            self._forget_earlier_stores(slave.replica)
        self.confirm(slave, slave.confirmed_end)

    def leave(self, slave: Slave) -> None:
        self.slaves.remove(slave)
        if slave.replica is not None:
            self._gone[slave.replica] = _state_of(slave.replica, slave, is_linked=False)
        self.on_change()

    def confirm(self, slave: Slave, end: int) -> None:
        self._note_shown()
        slave.confirmed_end = end
        if end >= slave.mark_end:
            slave.caught_up_at_s = slave.mark_at_s
            slave.mark_end, slave.mark_at_s = self._log_end(), self._now_s()
        self._count()

    def give_up(self, end: int) -> None:
        """A sender has waited long enough for what ends there."""
        if self.members is None:
            self._shown_end = max(self._shown_end, end)

    @property
    def confirmed_end(self) -> int:
        return self._confirmed_end if self._slaves_needed else self._log_end()

    @property
    def acknowledged_end(self) -> int:
        """What lies before it in the log may have been acknowledged, by this master or another."""
        return max(self.confirmed_end, self._since_end)

    def is_awaited(self, end: int) -> bool:
        """Whether it makes sense to wait for what ends there in the log."""
        return (
            len(self._counted()) >= self._slaves_needed
            and end - self.confirmed_end < self._lag_size_max
        )

    def shortage(self) -> str | None:
        """Why no message is waited for, so that no send is safe; None if it is."""
        found, needed = len(self._counted()), self._slaves_needed
        if found < needed:
            kind = "linked" if self.members is None else "linked and in sync"
            return f"confirmations needed from slaves: {needed}, slaves {kind}: {found}"
        if not self.is_awaited(self._log_end()):
            return f"slaves are {self._lag_size_max} bytes behind (haSlaveFallbehindMax) or more"
        return None

    @property
    def shown_end(self) -> int:
        """What lies after it in the log is not shown to readers yet."""
        if not self._slaves_needed or not self._hides():
            return EVERYTHING
        return max(self.confirmed_end, self._shown_end)

    @property
    def apache_end(self) -> int:
        """What all slaves of Apache have: they do not know for which log a table is true."""
        ends = (slave.confirmed_end for slave in self.slaves if slave.replica is None)
        return min(ends, default=EVERYTHING)

    def replica_states(self) -> list[ReplicaState]:
        """Of those that can be in sync: all that are linked, were, or should be."""
        known = dict(self._gone)
        for replica in self.members or ():
            away = ReplicaState(replica, self._since_end, self._since_s, is_linked=False)
            known.setdefault(replica, away)
        for slave in self.slaves:
            if slave.replica is not None:
                known[slave.replica] = _state_of(slave.replica, slave, is_linked=True)
        return list(known.values())

    def note_duplicate(self, text: str) -> None:
        """A slave was refused, because another one has its number."""
        self._duplicate, self._duplicate_at_s = text, self._now_s()

    @property
    def duplicate(self) -> str | None:
        """What was refused for that, lately: a slave retries every second or so."""
        is_recent = self._now_s() - self._duplicate_at_s <= _DUPLICATE_S
        return self._duplicate if is_recent else None

    def other_store_of(self, replica: Replica) -> Slave | None:
        """A linked slave that has the same number and is another store."""
        return next(
            (
                slave
                for slave in self.slaves
                if slave.replica is not None
                and slave.replica.replica_id == replica.replica_id
                and slave.replica.store != replica.store
            ),
            None,
        )

    def _forget_earlier_stores(self, replica: Replica) -> None:
        """Of a broker that lost its disk; as a member of the set it is still counted."""
        for gone in [each for each in self._gone if each.replica_id == replica.replica_id]:
            del self._gone[gone]

    def _hides(self) -> bool:
        if self.members is not None:
            return len(self.members) > 1
        return self.is_awaited(self._log_end())

    def _counted(self) -> dict[Replica | str, int]:
        """How far those that count have the log; a slave with two links counts once."""
        found: dict[Replica | str, int] = {}
        for slave in self.slaves:
            if self.members is None or self._is_in_sync(slave):
                key = slave.replica or slave.address
                found[key] = max(slave.confirmed_end, found.get(key, 0))
        return found

    def _is_in_sync(self, slave: Slave) -> bool:
        return slave.replica is not None and is_in_set(slave.replica, self.members or ())

    def _count(self) -> None:
        if self._slaves_needed:
            end = end_at_replicas(self._counted().values(), self._slaves_needed)
            self._confirmed_end = max(self._confirmed_end, end)
        self.on_change()

    def _note_shown(self) -> None:
        if self.shown_end == EVERYTHING:
            self._shown_end = self._log_end()


def _state_of(replica: Replica, slave: Slave, *, is_linked: bool) -> ReplicaState:
    return ReplicaState(replica, slave.confirmed_end, slave.caught_up_at_s, is_linked)

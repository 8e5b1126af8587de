"""Who becomes master when there is none.

Every broker that finds no master stops following, so that its log does not grow any more, and
says how far it has come. Whoever is in sync and has the longest log takes the office, as soon as
enough have spoken (`in_sync` says how many are enough, and why). A log is longer if its last epoch
is later, whatever its size: an old master may have much that nobody else ever had.

Masters also record now and then how far they have acknowledged. A store that lost its end, or came
from a backup, is recognised by that, and never takes the office.
"""

from collections.abc import Iterable
from enum import Enum

import msgspec

from roquet.broker.replication.epochs import START, LogPlace
from roquet.broker.replication.in_sync import ANY_STORE, Replica, is_in_set


class Candidacy(msgspec.Struct, frozen=True):
    """What one broker says of itself while there is no master."""

    replica_id: int
    # Which change of the in-sync set the vacancy was found at: what was said before is outdated.
    vacancy: int
    epoch: int  # of the last byte of its log
    end: int
    # It has just stepped down, and leaves the office to others that have as much.
    abstains: bool = False
    store: str = ANY_STORE

    @property
    def replica(self) -> Replica:
        return Replica(self.replica_id, self.store)

    @property
    def place(self) -> LogPlace:
        return LogPlace(self.epoch, self.end)

    @property
    def rank(self) -> tuple[LogPlace, bool, int]:
        # Of two that have the same, the one that is named first.
        return self.place, not self.abstains, -self.replica_id


class ElectionVerdict(Enum):
    STAND = "take the office"
    WAIT = "too few have spoken yet"
    YIELD = "another one has a longer log"
    OUTSIDE = "this broker is not in sync"
    BEHIND = "the longest log lacks what was acknowledged"


def voices_needed(member_count: int, copies: int) -> int:
    """How many members must have spoken, so that one has all that was acknowledged.

    With one copy that would be all, the lost master among them: nobody was promised anything then.
    """
    return max(1, member_count - copies + 1) if copies > 1 else 1


def verdict(
    me: Candidacy,
    others: Iterable[Candidacy],
    members: frozenset[Replica],
    *,
    copies: int,
    is_patient: bool,
    acknowledged: LogPlace = START,
) -> ElectionVerdict:
    """`is_patient` waits for all members but one, the lost master, even if enough have spoken."""
    if not is_in_set(me.replica, members):
        return ElectionVerdict.OUTSIDE
    spoken = {
        each.replica: each
        for each in (*others, me)
        if each.vacancy == me.vacancy and is_in_set(each.replica, members)
    }
    needed = voices_needed(len(members), copies)
    if len(spoken) < max(needed, len(members) - 1 if is_patient else 0):
        return ElectionVerdict.WAIT
    best = max(spoken.values(), key=lambda each: each.rank)
    if best.replica != me.replica:
        return ElectionVerdict.YIELD
    return ElectionVerdict.BEHIND if best.place < acknowledged else ElectionVerdict.STAND

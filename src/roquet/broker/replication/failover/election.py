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
from typing import NamedTuple

from roquet.broker.replication.epochs import START, LogPlace
from roquet.broker.replication.failover.records import Candidacy, RecordsView
from roquet.broker.replication.in_sync import Replica, is_in_set


class ElectionResult(Enum):
    STAND = "take the office"
    WAIT = "too few have spoken yet"
    YIELD = "another one has a longer log"
    OUTSIDE = "this broker is not in sync"
    BEHIND = "the longest log lacks what was acknowledged"


def votes_needed(member_count: int, replicas_needed: int) -> int:
    """How many members must have spoken, so that one has all that was acknowledged.

    With one copy that would be all, the lost master among them: nobody was promised anything then.
    """
    return max(1, member_count - replicas_needed + 1) if replicas_needed > 1 else 1


def election_result(
    me: Candidacy,
    others: Iterable[Candidacy],
    members: frozenset[Replica],
    *,
    replicas_needed: int,
    is_patient: bool,
    acknowledged: LogPlace = START,
) -> ElectionResult:
    """`is_patient` waits for all members but one, the lost master, even if enough have spoken."""
    if not is_in_set(me.replica, members):
        return ElectionResult.OUTSIDE
    spoken = {
        each.replica: each
        for each in (*others, me)
        if each.vacancy == me.vacancy and is_in_set(each.replica, members)
    }
    needed = votes_needed(len(members), replicas_needed)
    if len(spoken) < max(needed, len(members) - 1 if is_patient else 0):
        return ElectionResult.WAIT
    best = max(spoken.values(), key=lambda each: each.rank)
    if best.replica != me.replica:
        return ElectionResult.YIELD
    return ElectionResult.BEHIND if best.place < acknowledged else ElectionResult.STAND


class Action(Enum):
    FOUND = "nobody was ever master, or a person wants so: become the first"
    WAIT = "nobody was ever master, and another one is to be the first"
    LOST = "etcd has lost what it knew of this name: a person has to decide"
    RUN = "there is no master: say how far the log is, and take the office if it is the longest"
    FOLLOW = "another one is master"
    LEAD = "this one is master: see who is in sync"
    STEP_DOWN = "this one was master"
    CLEAR = "this one was master before it began again: the office is free"
    DOUBTED = "the master is said to be this one, and is another"


class Self(NamedTuple):
    replica_id: int
    address: str
    is_first: bool  # whether it is to be the first master
    was_known: bool = False  # whether etcd has known brokers of this name before
    is_to_found: bool = False  # whether a person wants it to begin again with this store


def next_action(view: RecordsView, me: Self, office_epoch: int | None) -> Action:
    """`office_epoch` is that of the office which this broker holds, or takes itself to hold."""
    master = view.master
    is_named = master is not None and master.replica_id == me.replica_id
    if office_epoch is not None:
        return Action.LEAD if is_named and view.epoch == office_epoch else Action.STEP_DOWN
    if master is not None and is_named:
        return Action.CLEAR if master.address == me.address else Action.DOUBTED
    if master is not None:
        return Action.FOLLOW
    if me.is_to_found:
        return Action.FOUND
    if view.members is None:
        if me.was_known:
            return Action.LOST
        return Action.FOUND if me.is_first else Action.WAIT
    return Action.RUN

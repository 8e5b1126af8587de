"""What a broker does next by what etcd has, and which broker becomes master when there is none.

Every broker that finds no master stops replicating, so that its log does not grow any more, and
publishes how far it is: its vote. The one in sync with the longest log becomes master as soon as
there are enough votes (`in_sync` explains how many are enough). A log is longer if its last epoch
is later, whatever its size: an old master may have much that no other broker ever had.

Masters also record now and then how far they have acknowledged. A store that lost its end, or came
from a backup, is recognised by that, and never becomes master.
"""

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from roquet.broker.replication.epochs import START, LogPlace
from roquet.broker.replication.failover.records import Candidacy, RecordsView
from roquet.broker.replication.in_sync import Replica, is_in_set


class ElectionResult(Enum):
    STAND = "become master"
    WAIT = "too few votes yet"
    YIELD = "another broker has a longer log"
    OUTSIDE = "this broker is not in sync"
    BEHIND = "the longest log lacks what was acknowledged"


def votes_needed(member_count: int, replicas_needed: int) -> int:
    """How many of the in-sync set must vote, so that one has all that was acknowledged.

    With one replica that would be all, and the lost master too: nothing was promised then.
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
    """`is_patient` waits for all members but one, the lost master, even with enough votes."""
    if not is_in_set(me.replica, members):
        return ElectionResult.OUTSIDE
    votes = {
        each.replica: each
        for each in (*others, me)
        if each.vacancy == me.vacancy and is_in_set(each.replica, members)
    }
    needed = votes_needed(len(members), replicas_needed)
    if len(votes) < max(needed, len(members) - 1 if is_patient else 0):
        return ElectionResult.WAIT
    best = max(votes.values(), key=lambda each: each.rank)
    if best.replica != me.replica:
        return ElectionResult.YIELD
    return ElectionResult.BEHIND if best.place < acknowledged else ElectionResult.STAND


class Action(Enum):
    FOUND = "there was never a master, or an operator wants so: become the first"
    WAIT = "there was never a master, and another broker is to be the first"
    LOST = "etcd has lost the records of this broker name: an operator has to decide"
    RUN = "there is no master: vote, and become master if this log is the longest"
    FOLLOW = "another broker is master"
    LEAD = "this broker is master: review the in-sync set"
    STEP_DOWN = "this broker is no longer master"
    CLEAR = "this broker was master before it restarted: delete its record"
    DOUBTED = "the master has the id of this broker, and is another one"


class Self(NamedTuple):
    replica_id: int
    address: str
    is_first: bool  # whether it is to be the first master
    was_known: bool = False  # whether etcd had records of this broker name before
    is_to_found: bool = False  # whether an operator wants to start again with this store


def next_action(view: RecordsView, me: Self, own_epoch: int | None) -> Action:
    """`own_epoch` is the epoch in which this broker is master, as far as it knows."""
    master = view.master
    is_named = master is not None and master.replica_id == me.replica_id
    if own_epoch is not None:
        return Action.LEAD if is_named and view.epoch == own_epoch else Action.STEP_DOWN
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

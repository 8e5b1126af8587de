"""Which brokers are in sync: the only ones that count for an acknowledgement, or can be elected.

An acknowledged message is on `replicas_needed` of the in-sync set. So all of the set but
`replicas_needed - 1` include one that has it, and the longest log of those has everything:

    3 in sync, 2 needed      {A B C}: an acknowledged message is on two of them, so of any two
                             one has it; a single one may not

Whenever the set changes, every acknowledged message has to be on `replicas_needed` of it, or on all
if they are fewer. A replica that joins must have them all, and others may leave only if enough of
those that stay do.

A member of the set is a store, not a number: a broker that returns under its number with an empty
disk has none of the acknowledged messages, and is outside until it has caught up.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from typing import Final, NamedTuple

import msgspec

# Of members that were recorded by brokers which did not record stores yet.
ANY_STORE: Final = ""


class Replica(NamedTuple):
    """One store of one broker."""

    replica_id: int
    store: str


def is_in_set(replica: Replica, members: Collection[Replica]) -> bool:
    return replica in members or Replica(replica.replica_id, ANY_STORE) in members


class ReplicaState(msgspec.Struct, frozen=True):
    """What a master knows of one replica that is linked, was, or should be."""

    replica: Replica
    confirmed_end: int
    # When it had, as it turned out later, all that the log had then.
    caught_up_at_s: float
    is_linked: bool


class LagBound(msgspec.Struct, frozen=True):
    size_max: int
    time_s_max: float


def is_near(state: ReplicaState, log_end: int, now_s: float, bound: LagBound) -> bool:
    if state.is_linked and state.confirmed_end >= log_end:
        return True
    is_recent = now_s - state.caught_up_at_s <= bound.time_s_max
    return is_recent and log_end - state.confirmed_end <= bound.size_max


def wanted_members(
    master: Replica,
    members: Collection[Replica],
    states: Iterable[ReplicaState],
    *,
    log_end: int,
    now_s: float,
    bound: LagBound,
) -> frozenset[Replica]:
    """The set as it should be: members that are near, and others that are near and linked."""
    return frozenset(
        each.replica
        for each in states
        if is_near(each, log_end, now_s, bound) and (each.is_linked or each.replica in members)
    ) | {master}


def next_members(
    members: frozenset[Replica],
    wanted: frozenset[Replica],
    *,
    ends: Mapping[Replica, int],
    acknowledged_end: int,
    replicas_needed: int,
) -> frozenset[Replica]:
    """The set to propose: as near to `wanted` as is safe now.

    `ends` has how far each store has the log, the master among them. With one replica, none was
    promised anything.
    """
    have_all = {each for each, end in ends.items() if end >= acknowledged_end}
    come = wanted - members
    come = come if replicas_needed == 1 else come & have_all
    proposed = (members & wanted) | come
    is_safe = len(proposed & have_all) >= min(replicas_needed, len(proposed))
    return proposed if is_safe else members | come


class AckPolicy(Enum):
    ASYNC = "async"
    ONE = "one"
    QUORUM = "quorum"


class AckRule(msgspec.Struct, frozen=True):
    """A policy among `broker_count` brokers of one name."""

    policy: AckPolicy
    broker_count: int

    @property
    def replicas_needed(self) -> int:
        """How many brokers must have a message before it is acknowledged."""
        match self.policy:
            case AckPolicy.ASYNC:
                return 1
            case AckPolicy.ONE:
                return 2
            case AckPolicy.QUORUM:
                return self.broker_count // 2 + 1


def end_at_replicas(slave_ends: Iterable[int], slaves_needed: int) -> int:
    """Up to where `slaves_needed` slaves have the log; 0 if there are fewer."""
    assert slaves_needed > 0, "the master alone has all of it"
    ends = sorted(slave_ends, reverse=True)
    return ends[slaves_needed - 1] if len(ends) >= slaves_needed else 0

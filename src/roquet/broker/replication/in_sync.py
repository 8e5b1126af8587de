"""Which brokers are in sync: the only ones that count for an acknowledgement, or can be elected.

What was acknowledged is on `copies` of the members. So whoever hears of all members but
`copies - 1` hears of one that has it, and the longest log of those has everything:

    members = 3, copies = 2      {A B C}: what was acknowledged is on two of them, so of any two
                                 one has it; a single one may not

So whatever becomes of the set, all that was acknowledged has to be on `copies` of it, or on all if
they are fewer. Whoever comes in must have it, and others may go only if enough who stay do.

A member is a store, not a number: a broker that comes back under its number with an empty disk has
nothing of what the set had acknowledged, and is outside until it has caught up.
"""

from collections.abc import Collection, Iterable, Mapping
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


class Follower(msgspec.Struct, frozen=True):
    """What a master knows of one broker that follows it, or did, or should."""

    replica: Replica
    confirmed_end: int
    # When it had, as it turned out later, all that the log had then.
    caught_up_at_s: float
    is_linked: bool


class LagBound(msgspec.Struct, frozen=True):
    size_max: int
    time_s_max: float


def is_near(follower: Follower, log_end: int, now_s: float, bound: LagBound) -> bool:
    if follower.is_linked and follower.confirmed_end >= log_end:
        return True
    is_recent = now_s - follower.caught_up_at_s <= bound.time_s_max
    return is_recent and log_end - follower.confirmed_end <= bound.size_max


def wanted_members(
    master: Replica,
    members: Collection[Replica],
    followers: Iterable[Follower],
    *,
    log_end: int,
    now_s: float,
    bound: LagBound,
) -> frozenset[Replica]:
    """Who should be in sync: members that are near, and others that are near and linked."""
    return frozenset(
        each.replica
        for each in followers
        if is_near(each, log_end, now_s, bound) and (each.is_linked or each.replica in members)
    ) | {master}


def next_members(
    members: frozenset[Replica],
    wanted: frozenset[Replica],
    *,
    ends: Mapping[Replica, int],
    acknowledged_end: int,
    copies: int,
) -> frozenset[Replica]:
    """The set to propose: as near to `wanted` as is safe now.

    `ends` says how far each store has the log, the master among them. With one copy, nobody was
    promised anything.
    """
    have_all = {each for each, end in ends.items() if end >= acknowledged_end}
    come = wanted - members
    come = come if copies == 1 else come & have_all
    proposed = (members & wanted) | come
    is_safe = len(proposed & have_all) >= min(copies, len(proposed))
    return proposed if is_safe else members | come

"""Which brokers are in sync: the only ones that count for an acknowledgement, or can be elected.

What was acknowledged is on `copies` of the members. So whoever hears of all members but
`copies - 1` hears of one that has it, and the longest log of those has everything:

    members = 3, copies = 2      {A B C}: what was acknowledged is on two of them, so of any two
                                 one has it; a single one may not

So whatever becomes of the set, all that was acknowledged has to be on `copies` of it, or on all if
they are fewer. Whoever comes in must have it, and others may go only if enough who stay do.
"""

from collections.abc import Collection, Iterable, Mapping

import msgspec


class Follower(msgspec.Struct, frozen=True):
    """What a master knows of one broker that follows it, or did, or should."""

    replica_id: int
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
    master_id: int,
    members: Collection[int],
    followers: Iterable[Follower],
    *,
    log_end: int,
    now_s: float,
    bound: LagBound,
) -> frozenset[int]:
    """Who should be in sync: members that are near, and others that are near and linked."""
    return frozenset(
        each.replica_id
        for each in followers
        if is_near(each, log_end, now_s, bound) and (each.is_linked or each.replica_id in members)
    ) | {master_id}


def next_members(
    members: frozenset[int],
    wanted: frozenset[int],
    *,
    ends: Mapping[int, int],
    acknowledged_end: int,
    copies: int,
) -> frozenset[int]:
    """The set to propose: as near to `wanted` as is safe now.

    `ends` says how far each replica has the log, the master among them. With one copy, nobody was
    promised anything.
    """
    have_all = {each for each, end in ends.items() if end >= acknowledged_end}
    come = wanted - members
    come = come if copies == 1 else come & have_all
    proposed = (members & wanted) | come
    is_safe = len(proposed & have_all) >= min(copies, len(proposed))
    return proposed if is_safe else members | come

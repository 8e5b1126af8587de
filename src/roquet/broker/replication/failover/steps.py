"""What a broker does next, by what etcd says: a decision for each look at it."""

from enum import Enum
from typing import NamedTuple

from roquet.broker.replication.failover.records import RecordsView


class Step(Enum):
    FOUND = "nobody was ever master, or a person wants so: become the first"
    WAIT = "nobody was ever master, and another one is to be the first"
    LOST = "etcd has lost what it knew of this name: a person has to decide"
    RUN = "there is no master: say how far the log is, and take the office if it is the longest"
    FOLLOW = "another one is master"
    LEAD = "this one is master: see who is in sync"
    STEP_DOWN = "this one was master"
    CLEAR = "this one was master before it began again: the office is free"
    DOUBTED = "the master is said to be this one, and is another"


class Me(NamedTuple):
    replica_id: int
    address: str
    is_first: bool  # whether it is to be the first master
    was_known: bool = False  # whether etcd has known brokers of this name before
    is_to_found: bool = False  # whether a person wants it to begin again with this store


def next_step(view: RecordsView, me: Me, office_epoch: int | None) -> Step:
    """`office_epoch` is that of the office which this broker holds, or takes itself to hold."""
    master = view.master
    is_named = master is not None and master.replica_id == me.replica_id
    if office_epoch is not None:
        return Step.LEAD if is_named and view.epoch == office_epoch else Step.STEP_DOWN
    if master is not None and is_named:
        return Step.CLEAR if master.address == me.address else Step.DOUBTED
    if master is not None:
        return Step.FOLLOW
    if me.is_to_found:
        return Step.FOUND
    if view.members is None:
        if me.was_known:
            return Step.LOST
        return Step.FOUND if me.is_first else Step.WAIT
    return Step.RUN

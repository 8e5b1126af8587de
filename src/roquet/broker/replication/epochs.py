"""Which master wrote which part of a log: epochs, and where each of them begins.

An epoch is the time of one master, and a later master has a greater one. Within an epoch only its
master appends, so two logs that have the same epoch of the same author at the same offset are the
same up to there. (Without etcd, two masters that do not see each other may come to one number.)

    this log      | epoch 3      | epoch 7           |
    that log      | epoch 3           | not copied   |
    in common     |--------------|

What lies before the first epoch that is known counts as epoch 0: it was written before there were
any.
"""

from itertools import takewhile
from typing import Final, NamedTuple

import msgspec


class Epoch(msgspec.Struct, frozen=True):
    number: int
    author: str  # the store of its master; empty before there were epochs


class EpochStart(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    start: int  # the physical offset of its first record
    author: str = ""


class LogPlace(NamedTuple):
    """An end of a log: a later epoch is further, whatever the size."""

    epoch: int  # of the last byte
    end: int


START: Final = LogPlace(0, 0)

_BEFORE_ALL: Final = EpochStart(0, -1)


class EpochHistory(msgspec.Struct, frozen=True):
    """The epochs of one log, in its order. Both members of its entries only grow."""

    starts: tuple[EpochStart, ...] = ()

    @property
    def latest(self) -> int:
        return self.starts[-1].epoch if self.starts else 0

    def at(self, end: int) -> Epoch:
        """Of the last byte before `end`."""
        entry = next((each for each in reversed(self.starts) if each.start < end), _BEFORE_ALL)
        return Epoch(entry.epoch, entry.author)

    def begun(self, epoch: int, start: int, author: str) -> "EpochHistory":
        """With one more. What began there, or later, has left nothing."""
        assert epoch > self.latest, "a later master has a greater epoch"
        return EpochHistory((*self.before(start).starts, EpochStart(epoch, start, author)))

    def before(self, end: int) -> "EpochHistory":
        """Of a log that is cut there."""
        return EpochHistory(tuple(each for each in self.starts if each.start < end))

    def last_reign_start(self, end: int) -> int:
        """Where the author of the last byte before `end` took over from another one."""
        starts = self.before(end).starts
        reign = takewhile(lambda each: each.author == starts[-1].author, reversed(starts))
        return min((each.start for each in reign), default=0)


def is_history(starts: tuple[EpochStart, ...]) -> bool:
    """Whether what came over the wire, or from a file, can be one."""
    before = _BEFORE_ALL
    for each in starts:
        if each.epoch <= before.epoch or each.start <= before.start:
            return False
        before = each
    return True


def common_end(history: EpochHistory, end: int, other_history: EpochHistory, other_end: int) -> int:
    """Up to where two logs that end there are the same."""
    shorter = min(end, other_end)
    starts = {each.start for each in (*history.starts, *other_history.starts)}
    ends = sorted({shorter, *(each for each in starts if each < shorter)}, reverse=True)
    return next((each for each in ends if history.at(each) == other_history.at(each)), 0)

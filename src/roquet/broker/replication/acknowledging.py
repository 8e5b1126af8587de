"""When a send is acknowledged: how many brokers must have it, the master among them."""

from collections.abc import Iterable
from enum import Enum

import msgspec


class AckPolicy(Enum):
    ASYNC = "async"
    ONE = "one"
    QUORUM = "quorum"


class AckRule(msgspec.Struct, frozen=True):
    """A policy among `broker_count` brokers of one name."""

    policy: AckPolicy
    broker_count: int

    @property
    def copies_needed(self) -> int:
        """How many brokers must have a message before it is acknowledged."""
        match self.policy:
            case AckPolicy.ASYNC:
                return 1
            case AckPolicy.ONE:
                return 2
            case AckPolicy.QUORUM:
                return self.broker_count // 2 + 1


def end_with_copies(slave_ends: Iterable[int], slaves_needed: int) -> int:
    """Up to where `slaves_needed` slaves have the log; 0 if there are fewer."""
    assert slaves_needed > 0, "the master alone has all of it"
    ends = sorted(slave_ends, reverse=True)
    return ends[slaves_needed - 1] if len(ends) >= slaves_needed else 0

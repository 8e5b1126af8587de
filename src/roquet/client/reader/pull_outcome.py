"""What a reply says about a range that is read: decisions only."""

from enum import Enum, auto

from roquet.client.group.pulling import PulledRecords, PullStatus


class PullOutcome(Enum):
    GOES_ON = auto()  # behind `next_offset`
    GONE = auto()  # the broker does not have what is wanted, and will not
    NOT_NOW = auto()  # it has, or another replica has; ask again


def outcome_of_pull(reply: PulledRecords, offset: int, *, is_filtered: bool) -> PullOutcome:
    """Of a pull from `offset` on."""
    goes_on = reply.next_offset > offset
    match reply.status:
        case PullStatus.FOUND:
            return PullOutcome.GOES_ON if goes_on else PullOutcome.NOT_NOW
        case PullStatus.NOTHING_MATCHED:
            if not goes_on:
                return PullOutcome.NOT_NOW  # of a slave, for what it does not have yet
            # Without a filter everything matches, unless it is being removed right now.
            return PullOutcome.GOES_ON if is_filtered else PullOutcome.GONE
        case PullStatus.NOTHING_NEW:
            # It ends there, or the file of the queue is not there any more.
            is_gone = goes_on or reply.max_offset <= offset
        case PullStatus.OUT_OF_RANGE:
            # Inside the range it is the word of an operator to the group, which is said once.
            is_gone = not reply.min_offset <= offset < reply.max_offset
    return PullOutcome.GONE if is_gone and reply.is_newest else PullOutcome.NOT_NOW


def behind_gap(reply: PulledRecords, offset: int, end: int) -> int:
    """Where to go on when what lies at `offset` is gone, or `end` if there is nothing."""
    if offset < reply.min_offset:
        return min(reply.min_offset, end)
    return min(reply.next_offset, end) if reply.next_offset > offset else end

"""Messages that a stream still needed and that are gone: found by comparing, pure.

A queue can lose its oldest messages (they expired), its newest ones (a broker without its disk),
or all of them (its topic was deleted and made again).
"""

from typing import NamedTuple

from roquet.client.queue_ref import QueueRef


class QueueState(NamedTuple):
    """A queue as its broker describes it. `born_ms` is when its first message was stored."""

    min_offset: int
    max_offset: int
    born_ms: int | None


class Loss(NamedTuple):
    """`resume` is where the queue can be read again."""

    reason: str
    resume: int


def find_loss(
    queue: QueueRef,
    position: int,
    seen_first: int | None,
    seen_born_ms: int | None,
    now: QueueState,
) -> Loss | None:
    """None if everything from `position` on is there."""
    name = f"queue {queue.queue_id} of topic {queue.topic!r} at {queue.broker_name}"
    if (
        now.born_ms is not None
        and seen_born_ms is not None
        and seen_first is not None
        and now.born_ms > seen_born_ms
        and now.min_offset <= seen_first
    ):
        return Loss(f"{name} was deleted and made again", now.min_offset)
    if position < now.min_offset:
        return Loss(
            f"{name} begins at {now.min_offset}, and {position} is next: what lies between"
            " has expired",
            now.min_offset,
        )
    if position > now.max_offset:
        return Loss(
            f"{name} ends at {now.max_offset}, and {position} is next: it was made again, or its"
            " broker lost messages",
            now.min_offset,
        )
    return None

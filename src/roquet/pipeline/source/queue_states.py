"""The state of queues as brokers report it, and messages that a stream needed and that are gone.

A queue can lose its oldest messages (they expired), its newest ones (a broker without its disk),
or all of them (its topic was deleted and created again).
"""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import NamedTuple

from roquet.client.blocking.reader import TopicReader
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.connections import UNANSWERED, may_pass

log = logging.getLogger(__name__)


class QueueState(NamedTuple):
    """A queue as its broker reports it. `born_ms` is the store time of its first message."""

    min_offset: int
    max_offset: int
    born_ms: int | None


class Loss(NamedTuple):
    """`resume` is the offset at which reading can continue."""

    reason: str
    resume: int


def states_of(reader: TopicReader, queues: Collection[QueueRef]) -> dict[QueueRef, QueueState]:
    """The states of all these queues. Raises what the client raises."""
    bounds = reader.bounds(queues)
    born = reader.earliest_store_times(queues)
    return {
        queue: QueueState(min_offset, max_offset, _milliseconds(born[queue]))
        for queue, (min_offset, max_offset) in bounds.items()
    }


def states_of_some(reader: TopicReader, queues: Iterable[QueueRef]) -> dict[QueueRef, QueueState]:
    """Without the queues of unreachable brokers. Raises RequestRefused if a broker refuses."""
    by_broker: dict[str, list[QueueRef]] = defaultdict(list)
    for queue in queues:
        by_broker[queue.broker_name].append(queue)
    states: dict[QueueRef, QueueState] = {}
    for broker_name, its_queues in by_broker.items():
        try:
            states |= states_of(reader, its_queues)
        except UNANSWERED as error:
            if not may_pass(error):
                raise
            # The next batch asks again; meanwhile the others are read.
            log.warning("queues of broker %s are skipped in this batch: %s", broker_name, error)
    return states


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def find_loss(
    queue: QueueRef,
    position: int,
    seen_first: int | None,
    seen_born_ms: int | None,
    now: QueueState,
) -> Loss | None:
    """None if everything from `position` on exists."""
    name = f"queue {queue.queue_id} of topic {queue.topic!r} at {queue.broker_name}"
    if (
        now.born_ms is not None
        and seen_born_ms is not None
        and seen_first is not None
        and now.born_ms > seen_born_ms
        and now.min_offset <= seen_first
    ):
        return Loss(f"{name} was deleted and created again", now.min_offset)
    if position < now.min_offset:
        return Loss(
            f"{name} starts at offset {now.min_offset}, after the next offset {position}: the"
            " messages between them have expired",
            now.min_offset,
        )
    if position > now.max_offset:
        return Loss(
            f"{name} ends at offset {now.max_offset}, before the next offset {position}: it was"
            " created again, or its broker lost messages",
            now.min_offset,
        )
    return None

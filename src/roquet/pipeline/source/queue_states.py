"""What brokers say of queues: of all that were asked about, or of those that are within reach."""

import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime

from roquet.client.blocking.reader import TopicReader
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.retrying import UNANSWERED, may_pass
from roquet.pipeline.source.losses import QueueState

log = logging.getLogger(__name__)


def states_of(reader: TopicReader, queues: Collection[QueueRef]) -> dict[QueueRef, QueueState]:
    """Of all these queues, or raises what the client raises."""
    bounds = reader.bounds(queues)
    born = reader.earliest_store_times(queues)
    return {
        queue: QueueState(min_offset, max_offset, _milliseconds(born[queue]))
        for queue, (min_offset, max_offset) in bounds.items()
    }


def states_of_some(reader: TopicReader, queues: Iterable[QueueRef]) -> dict[QueueRef, QueueState]:
    """Without those of brokers that are away; one that says no is not. Raises RequestRefused."""
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
            # It is asked again with the next batch; meanwhile the others are read.
            log.warning("queues of %s stay where they are: %s", broker_name, error)
    return states


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)

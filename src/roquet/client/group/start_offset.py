"""Where a group begins to read a queue."""

from collections.abc import Iterable
from datetime import datetime
from enum import Enum, auto

from roquet.client.cluster.brokers import Brokers
from roquet.client.group.offsets import OffsetKeeper
from roquet.client.queue_ref import QueueRef
from roquet.protocol.names import RETRY_PREFIX


class StartFrom(Enum):
    """For a group that was never there; any other goes on where it was."""

    FIRST = auto()
    LAST = auto()


Start = StartFrom | datetime


async def start_offset(
    brokers: Brokers,
    keeper: OffsetKeeper,
    queue: QueueRef,
    start: Start,
    siblings: Iterable[QueueRef],
) -> int:
    """`siblings` are all queues of the topic. Raises Unreachable or RequestRefused."""
    kept = await keeper.kept(queue)
    if kept is not None:
        return kept
    if queue.topic.startswith(RETRY_PREFIX) or start is StartFrom.FIRST:
        return 0
    if isinstance(start, datetime):
        return await brokers.offset_at(queue, round(start.timestamp() * 1000))
    # A queue that was added to a topic the group already reads: its messages are all new to it.
    for sibling in siblings:
        if sibling != queue and await keeper.kept(sibling) is not None:
            return await brokers.min_offset(queue)
    return await brokers.max_offset(queue)

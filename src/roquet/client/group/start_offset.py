"""Where a group begins to read a queue.

    it committed there                what it committed
    a retry topic, or FIRST           the first message
    a moment that has passed          the first message that is not older
    the topic came after the member   the first message: all of them are newer
    a queue that was added later      the first message: all of them are new to the group
    AUTO, and the topic is young      the first message, as the broker says
    AUTO, LAST, or a moment to come   the end, which 4.9 does not tell when asked for such a time

Where the end was is kept at once: a group that dies before its first commit must not begin at
another end, and leave out what came between.
"""

from collections.abc import Collection
from datetime import datetime
from enum import Enum, auto

from roquet.client.cluster.brokers import Brokers
from roquet.client.group.offsets import OffsetKeeper
from roquet.client.moments import timestamp_ms
from roquet.client.queue_ref import QueueRef
from roquet.protocol.names import RETRY_PREFIX


class StartFrom(Enum):
    """For a group that was never there; any other goes on where it was.

    FIRST takes everything there is, LAST what is sent from now on. AUTO is what Java's consumers do
    unless they are told otherwise: everything of a topic so young that the broker has all of it in
    memory, and what is sent from now on of any other.

    For example:

        PushConsumer("127.0.0.1:9876", "billing", print, start_from=StartFrom.FIRST)
        PushConsumer("127.0.0.1:9876", "audit", print, start_from=datetime(2026, 11, 1, tzinfo=UTC))
    """

    FIRST = auto()
    LAST = auto()
    AUTO = auto()


Start = StartFrom | datetime


async def start_offset(
    brokers: Brokers,
    keeper: OffsetKeeper,
    queue: QueueRef,
    start: Start,
    siblings: Collection[QueueRef],
    *,
    now_ms: int,
    is_new_topic: bool = False,
) -> int:
    """`siblings` are all queues of the topic. Raises Unreachable or RequestRefused."""
    is_auto = start is StartFrom.AUTO
    kept = await (keeper.kept_or_young(queue) if is_auto else keeper.kept(queue))
    if kept is not None:
        return kept
    if queue.topic.startswith(RETRY_PREFIX) or start is StartFrom.FIRST:
        return 0
    if isinstance(start, datetime) and (moment_ms := timestamp_ms(start)) <= now_ms:
        return await brokers.offset_at(queue, moment_ms)
    if is_new_topic or await _has_kept(keeper, queue, siblings):
        return await brokers.min_offset(queue)
    end = await brokers.max_offset(queue)
    keeper.begun[queue] = frozenset(siblings)
    keeper.move(queue, end)
    await keeper.save([queue])
    return end


async def _has_kept(keeper: OffsetKeeper, queue: QueueRef, siblings: Collection[QueueRef]) -> bool:
    """Whether the group already reads other queues of the topic, so that this one was added.

    Those that began at their ends a moment ago, when this one was there already, say nothing.
    """
    for sibling in siblings:
        if sibling == queue or _is_beginning(keeper, queue, sibling):
            continue
        is_kept = await keeper.kept(sibling) is not None
        # It may have begun, and been kept, while the broker was asked.
        if is_kept and not _is_beginning(keeper, queue, sibling):
            return True
    return False


def _is_beginning(keeper: OffsetKeeper, queue: QueueRef, sibling: QueueRef) -> bool:
    return queue in keeper.begun.get(sibling, ())

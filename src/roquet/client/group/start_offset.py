"""Where a group starts to read a queue.

    it committed there                its committed offset
    a retry topic, or FIRST           the first message
    a moment in the past              the first message that is not older
    a topic newer than the member     the first message: all of them are newer
    a queue that was added later      the first message: all of them are new to the group
    AUTO, and the topic is new        the first message, as the broker decides
    AUTO, LAST, or a future moment    the end; 4.9 does not return it for such a time

An end is committed at once: a group that ends before its first commit must not start at another
end, and skip the messages in between.
"""

from collections.abc import Collection
from datetime import datetime
from enum import Enum, auto

from roquet.client.arguments import timestamp_ms
from roquet.client.cluster.brokers import Brokers
from roquet.client.group.offsets import OffsetKeeper
from roquet.client.queue_ref import QueueRef
from roquet.protocol.names import RETRY_PREFIX


class StartFrom(Enum):
    """Where a group without committed offsets starts; any other resumes at its offsets.

    FIRST reads all messages, LAST those sent from now on. AUTO is the default of Java's consumers:
    all messages of a topic so new that the broker has all of it in memory, and those sent from now
    on of any other topic.

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
    keeper.started_at_end[queue] = frozenset(siblings)
    keeper.move(queue, end)
    await keeper.save([queue])
    return end


async def _has_kept(keeper: OffsetKeeper, queue: QueueRef, siblings: Collection[QueueRef]) -> bool:
    """Whether the group already reads other queues of the topic, so that this one was added.

    Queues that were started at their ends a moment ago, when this one existed, do not count.
    """
    for sibling in siblings:
        if sibling == queue or _is_starting(keeper, queue, sibling):
            continue
        is_kept = await keeper.kept(sibling) is not None
        # It may have been started, and stored, while the broker was asked.
        if is_kept and not _is_starting(keeper, queue, sibling):
            return True
    return False


def _is_starting(keeper: OffsetKeeper, queue: QueueRef, sibling: QueueRef) -> bool:
    return queue in keeper.started_at_end.get(sibling, ())

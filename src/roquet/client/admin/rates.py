"""Rates of topics and groups, from the offsets of two moments."""

from collections.abc import Mapping

from roquet.client.admin.progress import GroupProgress
from roquet.client.admin.topics import TopicStatistics
from roquet.client.queue_ref import QueueRef

Offsets = Mapping[QueueRef, int]


def rate_between(first: Offsets, last: Offsets, seconds: float) -> float | None:
    """Per second, of the queues in both samples; None if there are none, and after a reset."""
    both = first.keys() & last.keys()
    moved = sum(last[queue] - first[queue] for queue in both)
    if not both or moved < 0 or seconds <= 0:
        return None
    return moved / seconds


def ends_of(statistics: TopicStatistics | None) -> Offsets:
    queues = () if statistics is None else statistics.queues
    return {each.queue: each.max_offset for each in queues}


def taken_by(progress: GroupProgress | None) -> Offsets:
    queues = () if progress is None else progress.queues
    return {each.queue: each.consumer_offset or 0 for each in queues}

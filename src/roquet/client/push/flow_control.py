"""When a consumer has enough of a queue for now: pure decisions."""

from typing import NamedTuple

from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.offset_book import OffsetBook


class QueueLimits(NamedTuple):
    """Above one of these no more is pulled. Without a span, in order, there is no limit to it."""

    count_max: int
    size_max: int
    span_max: int | None


def limits_of(config: PushConsumerConfig, queue_count: int) -> QueueLimits:
    """Of each queue of a topic, when this member reads `queue_count` of them."""
    count, size = config.queue_count_max, config.queue_size_max
    if config.topic_count_max is not None:
        count = max(1, config.topic_count_max // max(1, queue_count))
    if config.topic_size_max is not None:
        size = max(1, config.topic_size_max // max(1, queue_count))
    # In order, the first unfinished message is the one that runs.
    return QueueLimits(count, size, None if config.orderly else config.queue_span_max)


def has_room(book: OffsetBook, limits: QueueLimits) -> bool:
    return (
        book.count <= limits.count_max
        and book.size <= limits.size_max
        and (limits.span_max is None or book.span <= limits.span_max)
    )

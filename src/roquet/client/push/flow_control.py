"""When a consumer has enough of a queue for now, and pulling pauses."""

import asyncio
from typing import NamedTuple, final

from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.offset_book import OffsetBook


class QueueLimits(NamedTuple):
    """Above one of these pulling pauses. An orderly queue has no limit of its span."""

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
    # In an orderly queue the first unfinished message is the one that runs.
    return QueueLimits(count, size, None if config.orderly else config.queue_span_max)


def has_room(book: OffsetBook, limits: QueueLimits) -> bool:
    return (
        book.count <= limits.count_max
        and book.size <= limits.size_max
        and (limits.span_max is None or book.span <= limits.span_max)
    )


@final
class Room:
    """Lets a pull loop wait until a queue has room for more messages."""

    __slots__ = ("_book", "_is_there", "limits")

    def __init__(self, book: OffsetBook, limits: QueueLimits) -> None:
        self._book = book
        self._is_there: asyncio.Event | None = None
        self.limits = limits

    async def wait(self) -> None:
        while not has_room(self._book, self.limits):
            self._is_there = asyncio.Event()
            await self._is_there.wait()
            self._is_there = None

    def check(self) -> None:
        """Called when messages have finished."""
        if self._is_there is not None and has_room(self._book, self.limits):
            self._is_there.set()

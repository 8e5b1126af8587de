"""One queue whose messages are delivered as they arrive, several of them concurrently."""

from dataclasses import dataclass
from typing import final

from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Delivery, Workers
from roquet.client.push.flow_control import QueueLimits, Room
from roquet.client.push.offset_book import OffsetBook
from roquet.client.push.outcome import consequence_of
from roquet.client.push.retries import Retries, next_try
from roquet.client.push.statistics import ConsumerCounters
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock


@dataclass(frozen=True, slots=True)
class FeedContext:
    """What all feeds of a consumer share."""

    config: PushConsumerConfig
    workers: Workers
    retries: Retries
    counters: ConsumerCounters
    clock: Clock


@final
class ConcurrentFeed:
    def __init__(
        self, queue: QueueRef, start: int, context: FeedContext, limits: QueueLimits
    ) -> None:
        self.queue = queue
        self.is_dropped = False
        self.ended_s: float | None = None
        self.book = OffsetBook(start)
        self.room = Room(self.book, limits)
        self._context = context
        self._counts = context.counters.topics[queue.topic]

    def take_in(self, messages: list[ReceivedMessage], next_offset: int) -> None:
        """Takes the messages of a pull; everything before `next_offset` was pulled or skipped."""
        fresh = self.book.add_all(messages)
        self.book.skip_to(next_offset)
        self._counts.pulled_count += len(fresh)
        self._put(fresh)

    def drop(self) -> None:
        """The queue is lost; its next reader delivers unfinished messages again."""
        self.is_dropped = True

    async def until_quiet(self) -> None:
        """Running deliveries do no harm: their results are ignored."""

    @property
    def is_locked(self) -> bool:
        return False

    def ended(self, delivery: Delivery, error: BaseException | None, duration_s: float) -> None:
        if self.is_dropped:
            return
        counts = self._counts
        counts.call_count += 1
        counts.call_duration_s += duration_s
        self.ended_s = self._context.clock.monotonic_s()
        messages = delivery.messages
        if error is None:
            counts.done_count += len(messages)
            if len(messages) == 1:
                self.book.finish(messages[0].queue_offset)
            else:
                self.book.finish_all([message.queue_offset for message in messages])
            self.room.check()
        else:
            self._fail(messages, error)

    def _fail(self, messages: list[ReceivedMessage], error: BaseException) -> None:
        consequence = consequence_of(error, len(messages))
        failed = messages[consequence.done_count :]
        self._counts.done_count += consequence.done_count
        self._counts.failed_count += len(failed)
        for message in messages[: consequence.done_count]:
            self._finish(message)
        if not failed:
            return
        retries = self._context.retries
        if self._context.config.broadcasting:
            retries.note(error, failed, "dropped, because broadcasting does not retry")
            for message in failed:
                self._finish(message)
            return
        retries.note(error, failed, next_try(failed[0], retries.retry_count_max, consequence))
        retries.later(failed, error, consequence.delay_level, self._finish, self._put)

    def _finish(self, message: ReceivedMessage) -> None:
        self.book.finish(message.queue_offset)
        self.room.check()

    def _put(self, messages: list[ReceivedMessage]) -> None:
        if self.is_dropped:
            return
        size = self._context.config.delivery_count_max
        if size == 1:
            deliveries = [Delivery(self, [message]) for message in messages]
        else:
            deliveries = [
                Delivery(self, messages[start : start + size])
                for start in range(0, len(messages), size)
            ]
        self._context.workers.put(deliveries)

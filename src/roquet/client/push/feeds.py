"""Feeds: one queue each, from the messages of pulls to deliveries, and when a queue has enough.

`ConcurrentFeed` delivers messages as they arrive, several of them concurrently; `OrderlyFeed` one
delivery after the other, while the queue is locked. `Room` makes pulling pause above the limits.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Delivery, Workers
from roquet.client.push.offset_book import OffsetBook
from roquet.client.push.outcome import NotStarted, consequence_of
from roquet.client.push.retries import Retries, next_try, next_try_in_order
from roquet.client.push.statistics import ConsumerCounters
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock


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

    def all_done(self, deliveries: Sequence[Delivery], duration_s: float) -> None:
        if self.is_dropped:
            return
        offsets = [each.queue_offset for delivery in deliveries for each in delivery.messages]
        counts = self._counts
        counts.call_count += len(deliveries)
        counts.call_duration_s += duration_s
        counts.done_count += len(offsets)
        self.ended_s = self._context.clock.monotonic_s()
        self.book.finish_all(offsets)
        self.room.check()

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


Messages = list[ReceivedMessage]


@final
class OrderlyFeed:
    """At most one delivery at a time; one that fails is repeated before the following ones."""

    def __init__(
        self,
        queue: QueueRef,
        start: int,
        context: FeedContext,
        limits: QueueLimits,
        is_locked: Callable[[], bool],
    ) -> None:
        self.queue = queue
        self.is_dropped = False
        self.ended_s: float | None = None
        self.book = OffsetBook(start)
        self.room = Room(self.book, limits)
        self._context = context
        self._counts = context.counters.topics[queue.topic]
        self._may_run = is_locked
        self._waiting: deque[ReceivedMessage] = deque()
        self._current: Delivery | None = None
        # The queue pauses after a failure, or until a broker has stored a dead letter.
        self._is_pausing = False
        self._is_sending_dead = False
        self._is_quiet = asyncio.Event()

    @property
    def is_locked(self) -> bool:
        return self._may_run()

    def take_in(self, messages: Messages, next_offset: int) -> None:
        """Takes the messages of a pull; everything before `next_offset` was pulled or skipped."""
        fresh = self.book.add_all(messages)
        self.book.skip_to(next_offset)
        self._counts.pulled_count += len(fresh)
        self._waiting.extend(fresh)
        self.go_on()

    def go_on(self) -> None:
        """Delivers the next messages, if it may."""
        is_busy = self._current is not None or self._is_pausing or self.is_dropped
        if is_busy or not self._waiting or not self._may_run():
            return
        waiting = self._waiting
        count = min(len(waiting), self._context.config.delivery_count_max)
        self._current = Delivery(self, [waiting.popleft() for _ in range(count)])
        self._context.workers.put([self._current])

    def drop(self) -> None:
        self.is_dropped = True
        running = [each.delivery for each in self._context.workers.running]
        if self._current not in running:
            self._current = None  # And it will not be started.
        self._check_quiet()

    async def until_quiet(self) -> None:
        """After `drop`: returns when the listener has ended."""
        await self._is_quiet.wait()

    def ended(self, delivery: Delivery, error: BaseException | None, duration_s: float) -> None:
        if delivery is not self._current:
            return
        self._current = None
        if not isinstance(error, NotStarted):
            self._counts.call_count += 1
            self._counts.call_duration_s += duration_s
            self.ended_s = self._context.clock.monotonic_s()
            self._finish_or_retry(delivery.messages, error)
        self._check_quiet()
        self.go_on()

    def all_done(self, deliveries: Sequence[Delivery], duration_s: float) -> None:
        for delivery in deliveries:
            self.ended(delivery, None, duration_s)

    def _finish_or_retry(self, messages: Messages, error: BaseException | None) -> None:
        if error is None:
            self._finish(messages)
            return
        consequence = consequence_of(error, len(messages))
        self._finish(messages[: consequence.done_count])
        failed = messages[consequence.done_count :]
        self._counts.failed_count += len(failed)
        if not failed or self.is_dropped:
            return
        retries = self._context.retries
        pause_s = consequence.pause_s
        if pause_s is None:
            pause_s = self._context.config.retry_pause_s
        dead = [each for each in failed if consequence.is_dead or retries.is_over(each)]
        again = [each for each in failed if each not in dead]
        count_max = retries.retry_count_max
        if again:
            retries.note(error, failed, next_try_in_order(again[0], count_max, pause_s))
        else:
            retries.note(error, failed, next_try(dead[0], count_max, consequence))
        for message in again:
            message.local_retry_count += 1
        self._is_pausing = True
        if dead:
            self._is_sending_dead = True
            retries.send_to_dlq(
                dead, error, lambda kept: self._dead_sent(dead, kept, again, pause_s)
            )
        else:
            self._pause(again, pause_s)

    def _dead_sent(self, dead: Messages, kept: Messages, again: Messages, pause_s: float) -> None:
        self._is_sending_dead = False
        self._finish([each for each in dead if each not in kept])
        again = sorted(kept + again, key=lambda message: message.queue_offset)
        self._pause(again, pause_s if again else 0.0)
        self._check_quiet()

    def _pause(self, again: Messages, pause_s: float) -> None:
        self._waiting.extendleft(reversed(again))
        asyncio.get_running_loop().call_later(pause_s, self._wake)

    def _wake(self) -> None:
        self._is_pausing = False
        self.go_on()

    def _finish(self, messages: Messages) -> None:
        self._counts.done_count += len(messages)
        self.book.finish_all(message.queue_offset for message in messages)
        self.room.check()

    def _check_quiet(self) -> None:
        if self.is_dropped and self._current is None and not self._is_sending_dead:
            self._is_quiet.set()

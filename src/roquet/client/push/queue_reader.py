"""One queue that a push consumer reads: its pull loop fills a feed, which delivers messages."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, final

from roquet.client.arguments import moment_before
from roquet.client.cluster.pulling import PULL_SIZE_MAX, Pulled, PullOrder, PullTerms
from roquet.client.group.offsets import OffsetKeeper
from roquet.client.group.pull_loop import PullContext, PullLoop
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Feed
from roquet.client.push.feeds import QueueLimits, Room, limits_of
from roquet.client.push.offset_book import OffsetBook
from roquet.client.push.statistics import ConsumerCounters, PushProgress
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.protocol.subscription import Subscription


class ReadFeed(Feed, Protocol):
    """What a reader fills: a feed that takes messages."""

    book: OffsetBook
    room: Room
    # When the last delivery ended.
    ended_s: float | None

    def take_in(self, messages: list[ReceivedMessage], next_offset: int) -> None: ...

    def drop(self) -> None: ...

    async def until_quiet(self) -> None:
        """Returns when no delivery runs whose result matters."""

    @property
    def is_locked(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ReaderContext:
    """What all queue readers of a consumer share."""

    config: PushConsumerConfig
    pull_context: PullContext
    keeper: OffsetKeeper
    counters: ConsumerCounters
    # Not set while the consumer is paused.
    may_pull: asyncio.Event


@final
class QueueReader:
    """`start_offset` finds the first offset; it raises ClientError."""

    def __init__(
        self,
        queue: QueueRef,
        context: ReaderContext,
        new_feed: Callable[[int, QueueLimits], ReadFeed],
        start_offset: Callable[[], Awaitable[int]],
    ) -> None:
        self.queue = queue
        self.feed: ReadFeed | None = None
        self.limits = limits_of(context.config, 1)
        self.loop = PullLoop(queue, context.pull_context, self, start_offset)
        self._context = context
        self._new_feed = new_feed

    def limit(self, limits: QueueLimits) -> None:
        """The member reads more queues of the topic than before, or fewer."""
        self.limits = limits
        if self.feed is not None:
            self.feed.room.limits = limits
            self.feed.room.check()

    def stop(self) -> None:
        """Stops pulling, and starts no more deliveries."""
        self.loop.stop()
        if self.feed is not None:
            self.feed.drop()

    def move(self, offset: int) -> None:
        """Continues at that offset, as if nothing had been delivered."""
        self.stop()
        self.loop.restart(offset)

    def note(self) -> None:
        """Notes the offset up to which everything is finished."""
        if self.feed is not None and self.loop.max_offset is not None:
            self._context.keeper.note(self.queue, self.feed.book.commit_offset)

    def progress(self) -> PushProgress | None:
        """None before it has started."""
        if self.feed is None:
            return None
        clock = self._context.pull_context.clock
        book, end = self.feed.book, self.loop.max_offset
        return PushProgress(
            book.commit_offset,
            None if end is None else max(0, end - book.commit_offset),
            book.count,
            book.size,
            book.span,
            self.feed.is_locked,
            moment_before(clock, self.loop.pulled_s),
            moment_before(clock, self.feed.ended_s),
        )

    # What its pull loop calls.

    def start_at(self, offset: int) -> None:
        self.feed = self._new_feed(offset, self.limits)

    async def restart_at(self, offset: int) -> None:
        if self.feed is not None:
            self.feed.drop()
            await self.feed.until_quiet()
            # Its old offset must not be noted any more.
            self.feed = None
        keeper = self._context.keeper
        keeper.move(self.queue, offset)
        await keeper.save([self.queue])
        self.start_at(offset)

    @property
    def unfinished_offset(self) -> int:
        assert self.feed is not None
        return self.feed.book.commit_offset

    async def until_room(self) -> None:
        await self._context.may_pull.wait()
        assert self.feed is not None
        await self.feed.room.wait()

    def order(self, subscription: Subscription, offset: int) -> PullOrder:
        self.note()
        config = self._context.config
        noted = None if config.broadcasting else self._context.keeper.noted(self.queue)
        terms = PullTerms(subscription, config.pull_count_max, size_max=PULL_SIZE_MAX)
        # A broker takes 0 for no offset.
        return PullOrder(self.queue, terms, offset, commit_offset=noted or None)

    async def take_in(self, pulled: Pulled, duration_s: float) -> None:
        assert self.feed is not None
        if pulled.messages:
            counts = self._context.counters.topics[self.queue.topic]
            counts.pull_count += 1
            counts.pull_duration_s += duration_s
        self.feed.take_in(pulled.messages, pulled.next_offset)
        if self._context.config.pull_interval_s:
            await asyncio.sleep(self._context.config.pull_interval_s)

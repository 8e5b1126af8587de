"""Reads one queue: one long poll after the other, as long as there is room for what they bring."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol, final

from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import ClientError, RequestRefused, Unreachable
from roquet.client.group.offsets import OffsetKeeper
from roquet.client.group.pulling import Pulled, Puller, PullOrder, PullStatus
from roquet.client.push.concurrent_feed import Room
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Feed
from roquet.client.push.flow_control import QueueLimits, limits_of
from roquet.client.push.offset_book import OffsetBook
from roquet.client.push.statistics import Counting, QueueProgress
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock
from roquet.net.service import OnFailure, Services
from roquet.protocol.codes import ResponseCode
from roquet.protocol.subscription import Subscription

log = logging.getLogger(__name__)

# A broker that has too much to do says so, and means a moment.
_FLOW_CONTROL_PAUSE_S: Final = 0.02
# The broker does not know the group or what it wants, or knows something older.
_NOT_INTRODUCED: Final = frozenset(
    {
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.FILTER_DATA_NOT_EXIST,
        ResponseCode.FILTER_DATA_NOT_LATEST,
    }
)


class ReadFeed(Feed, Protocol):
    """What a reader fills."""

    book: OffsetBook
    room: Room
    # When a listener last ended.
    ended_s: float | None

    def take_in(self, messages: list[ReceivedMessage], next_offset: int) -> None: ...

    def drop(self) -> None: ...

    async def until_quiet(self) -> None:
        """Returns when nothing of it runs whose end matters."""

    @property
    def is_locked(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What all readers of a consumer use."""

    config: PushConsumerConfig
    puller: Puller
    keeper: OffsetKeeper
    routes: RouteBook
    counting: Counting
    clock: Clock
    services: Services
    # Not set while the consumer rests.
    may_pull: asyncio.Event
    # What brokers know to be wanted of a topic.
    subscription_of: Callable[[str], Subscription | None]
    # Tells brokers who we are and what we want.
    introduce: Callable[[], None]


@final
class QueueReader:
    """`start_offset` is asked when it is not known where to begin; it raises ClientError."""

    def __init__(
        self,
        queue: QueueRef,
        reading: Reading,
        new_feed: Callable[[int, QueueLimits], ReadFeed],
        start_offset: Callable[[], Awaitable[int]],
    ) -> None:
        self.queue = queue
        self.feed: ReadFeed | None = None
        self.limits = limits_of(reading.config, 1)
        self.has_begun = asyncio.Event()
        self._pulled_s: float | None = None
        self._reading = reading
        self._new_feed = new_feed
        self._start_offset = start_offset
        self._task: asyncio.Task[None] | None = None
        self._move_to: int | None = None
        self._is_failing = False
        # The end of the queue, when its broker was last heard.
        self._max_offset: int | None = None

    def start(self) -> None:
        self._task = self._reading.services.run(
            f"read {self.queue}", self._read, on_failure=OnFailure.RESTART
        )

    def limit(self, limits: QueueLimits) -> None:
        """The member reads more queues of the topic than before, or fewer."""
        self.limits = limits
        if self.feed is not None:
            self.feed.room.limits = limits
            self.feed.room.look()

    def stop_pulling(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def stop(self) -> None:
        """Pulls no more, and begins no more deliveries."""
        self.stop_pulling()
        if self.feed is not None:
            self.feed.drop()

    def move(self, offset: int) -> None:
        """Goes on at that offset, as if nothing had been delivered."""
        self.stop()
        self._move_to = offset
        self.start()

    def note(self) -> None:
        """What is finished is known to the keeper."""
        if self.feed is not None and self._max_offset is not None:
            self._reading.keeper.note(self.queue, self.feed.book.commit_offset)

    def progress(self) -> QueueProgress | None:
        """None before it has begun."""
        if self.feed is None:
            return None
        book = self.feed.book
        lag = None if self._max_offset is None else max(0, self._max_offset - book.commit_offset)
        return QueueProgress(
            book.commit_offset,
            lag,
            book.count,
            book.size,
            book.span,
            self.feed.is_locked,
            self._pulled_s,
            self.feed.ended_s,
        )

    async def _read(self) -> None:
        if self._move_to is not None:
            await self._begin_at(self._move_to)
            self._move_to = None
        elif self.feed is None:
            self.feed = self._new_feed(await self._found_start(), self.limits)
        self.has_begun.set()
        while True:
            await self._reading.may_pull.wait()
            assert self.feed is not None
            await self.feed.room.wait()
            await self._pull(self.feed)

    async def _found_start(self) -> int:
        while True:
            try:
                return await self._start_offset()
            except ClientError as error:
                log.info("where %s begins is not known yet: %s", self.queue, error)
                await asyncio.sleep(self._reading.config.error_pause_s)

    async def _begin_at(self, offset: int) -> None:
        if self.feed is not None:
            self.feed.drop()
            await self.feed.until_quiet()
            # Nobody may note any more how far it was.
            self.feed = None
        keeper = self._reading.keeper
        keeper.move(self.queue, offset)
        await keeper.save([self.queue])
        self.feed = self._new_feed(offset, self.limits)

    async def _pull(self, feed: ReadFeed) -> None:
        reading = self._reading
        subscription = reading.subscription_of(self.queue.topic)
        if subscription is None:
            await self._recover("nothing is wanted of it yet", reading.config.error_pause_s)
            return
        self.note()
        begin_s = reading.clock.monotonic_s()
        try:
            pulled = await reading.puller.pull(self._order(feed, subscription))
        except RequestRefused as error:
            await self._recover_from(error)
        except Unreachable as error:
            reading.routes.renew_soon(self.queue.topic)
            await self._recover(str(error), reading.config.error_pause_s)
        else:
            self._pulled_s = reading.clock.monotonic_s()
            self._is_failing = False
            await self._take(feed, pulled, self._pulled_s - begin_s)

    def _order(self, feed: ReadFeed, subscription: Subscription) -> PullOrder:
        config = self._reading.config
        noted = None if config.broadcasting else self._reading.keeper.noted(self.queue)
        return PullOrder(
            self.queue,
            subscription,
            feed.book.next_offset,
            config.pull_count_max,
            # Zero is what a broker without an offset assumes.
            commit_offset=noted or None,
        )

    async def _take(self, feed: ReadFeed, pulled: Pulled, duration_s: float) -> None:
        self._max_offset = pulled.max_offset
        if pulled.status is PullStatus.OUT_OF_RANGE:
            log.warning(
                "%s has no offset %d; going on at %d",
                *(self.queue, feed.book.next_offset, pulled.next_offset),
            )
            is_new = pulled.next_offset != feed.book.next_offset
            await self._begin_at(pulled.next_offset)
            if not is_new:
                await asyncio.sleep(self._reading.config.error_pause_s)
            return
        if pulled.messages:
            counts = self._reading.counting.topics[self.queue.topic]
            counts.pull_count += 1
            counts.pull_duration_s += duration_s
        feed.take_in(pulled.messages, pulled.next_offset)
        if self._reading.config.pull_interval_s:
            await asyncio.sleep(self._reading.config.pull_interval_s)

    async def _recover_from(self, error: RequestRefused) -> None:
        pause_s = self._reading.config.error_pause_s
        if error.code == ResponseCode.FLOW_CONTROL:
            pause_s = _FLOW_CONTROL_PAUSE_S
        elif error.code in _NOT_INTRODUCED:
            self._reading.introduce()
        elif error.code in {ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION}:
            self._reading.routes.renew_soon(self.queue.topic)
        await self._recover(str(error), pause_s)

    async def _recover(self, reason: str, pause_s: float) -> None:
        self._reading.counting.last_error = f"pull of {self.queue}: {reason}"
        level = logging.DEBUG if self._is_failing else logging.WARNING
        log.log(level, "pull of %s: %s; trying on", self.queue, reason)
        self._is_failing = True
        await asyncio.sleep(pause_s)

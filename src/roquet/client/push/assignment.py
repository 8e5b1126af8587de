"""The queues that a push consumer reads now: taken, locked, started, lost and left.

The straight way of a queue: the membership's rebalance gives this owner its share, which starts a
reader for each queue; a reader has a pull loop, and a feed that delivers what the loop pulled.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import final

from roquet.client.group.membership import Membership
from roquet.client.push.feeds import (
    ConcurrentFeed,
    FeedContext,
    OrderlyFeed,
    QueueLimits,
    limits_of,
)
from roquet.client.push.queue_locks import RENEW_PERIOD_S, QueueLocks
from roquet.client.push.queue_reader import QueueReader, ReaderContext, ReadFeed
from roquet.client.queue_ref import QueueRef

log = logging.getLogger(__name__)


@final
class Assignment:
    """The `QueueOwner` of a push consumer. Without `locks` its queues are not locked."""

    def __init__(
        self,
        membership: Membership,
        reader_context: ReaderContext,
        feed_context: FeedContext,
        locks: QueueLocks | None,
    ) -> None:
        self._membership = membership
        self._keeper = membership.keeper
        self._config = reader_context.config
        self._reader_context = reader_context
        self._feed_context = feed_context
        self._locks = locks
        self.readers: dict[QueueRef, QueueReader] = {}
        # Lost, but not yet left.
        self.leaving: dict[QueueRef, QueueReader] = {}

    # As the membership sees it.

    def topics(self) -> Collection[str]:
        return self._membership.subscriptions.by_topic.keys()

    async def registered(self) -> None:
        """Its share comes later; unsubscribed topics were dropped before."""

    async def share(
        self, topic: str, queues: Sequence[QueueRef], share: Sequence[QueueRef]
    ) -> bool:
        has_all = await self._take_over(topic, queues, share)
        mine = self.of_topic(topic)
        if topic not in self.topics():
            # It was unsubscribed during this round.
            for queue in mine:
                self.drop(queue)
            return True
        limits = limits_of(self._config, len(mine))
        for queue in mine:
            self.readers[queue].limit(limits)
        return has_all

    async def until_started(self) -> None:
        for reader in [*self.readers.values()]:
            await reader.loop.has_started.wait()

    async def save(self) -> None:
        """Stores the offsets of what is finished."""
        await self._keeper.save(self._noted(self.readers))

    # As its consumer sees it.

    def of_topic(self, topic: str) -> list[QueueRef]:
        return sorted(queue for queue in self.readers if queue.topic == topic)

    def drop_unsubscribed(self) -> None:
        for queue in [*self.readers]:
            if queue.topic not in self.topics():
                self.drop(queue)

    def drop(self, queue: QueueRef) -> None:
        """Another member may read the queue from now on."""
        reader = self.readers.pop(queue)
        self.leaving[queue] = reader
        reader.stop()
        services = self._membership.instance.services
        services.once(f"leave {queue}", lambda: self._leave(reader))

    async def leave_all(self, busy: Collection[QueueRef]) -> None:
        """After the last delivery has started; `busy` queues have a listener that did not end."""
        # Those that are being left are saved by services that are about to be cancelled.
        await self._keeper.save_finally(self._noted(self.readers | self.leaving))
        if self._locks is not None:
            # No other member may start on a busy queue before its lock expires.
            idle = [queue for queue in (*self.readers, *self.leaving) if queue not in busy]
            await self._locks.unlock(idle)

    async def keep_locked(self, locks: QueueLocks) -> None:
        """Renews the locks of its queues; runs for ever."""
        pause_s = RENEW_PERIOD_S
        while True:
            await asyncio.sleep(pause_s)
            asked = [*self.readers, *self.leaving]
            renewal = await locks.renew(asked)
            pause_s = RENEW_PERIOD_S if renewal.have_all_answered else self._config.error_pause_s
            for queue in renewal.taken:
                if queue in self.readers:
                    log.warning("lost the lock of %s", queue)
                    self.drop(queue)
            # A queue that was left meanwhile may have been locked again after it was unlocked.
            left = [each for each in asked if not self._has(each)]
            await locks.unlock(left)
            for reader in self.readers.values():
                if isinstance(reader.feed, OrderlyFeed):
                    reader.feed.go_on()

    # How it is done.

    async def _take_over(
        self, topic: str, queues: Sequence[QueueRef], share: Sequence[QueueRef]
    ) -> bool:
        """False if some queues of the share cannot be had yet."""
        lost = [queue for queue in self.readers if queue.topic == topic and queue not in share]
        for queue in lost:
            self.drop(queue)
        self._drop_stuck(topic)
        wanted = [queue for queue in share if queue not in self.readers]
        free = [queue for queue in wanted if queue not in self.leaving]
        if self._locks is not None and free:
            locked = await self._locks.lock(free)
            free = [queue for queue in free if queue in locked]
        if lost or free:
            # Before any new queue is read.
            await self._membership.registration.renew(topic)
        for queue in free:
            reader = self.readers[queue] = self._new_reader(queue, queues)
            reader.loop.start()
        if lost or free:
            log.info("reading %s of %s", [queue[1:] for queue in self.of_topic(topic)], topic)
        return len(free) == len(wanted)

    def _drop_stuck(self, topic: str) -> None:
        """They are started again as soon as they are left."""
        for queue in self.of_topic(topic):
            if self.readers[queue].loop.is_stuck(self._config.stuck_pull_s):
                log.warning("the pull of %s got stuck; restarting the queue", queue)
                self._feed_context.counters.topics[topic].stuck_count += 1
                self.drop(queue)

    async def _leave(self, reader: QueueReader) -> None:
        queue = reader.queue
        try:
            if reader.feed is not None:
                await reader.feed.until_quiet()
            if self._is_ours(queue):
                reader.note()
                await self._keeper.save([queue])
            self._membership.forget(queue)
            if self._locks is not None:
                await self._locks.unlock([queue])
        finally:
            del self.leaving[queue]
            # It can be had again.
            self._membership.rebalance.wake()

    def _noted(self, readers: Mapping[QueueRef, QueueReader]) -> list[QueueRef]:
        """The queues, with what is finished of each noted."""
        for reader in readers.values():
            if self._is_ours(reader.queue):
                reader.note()
        return list(readers)

    def _has(self, queue: QueueRef) -> bool:
        return queue in self.readers or queue in self.leaving

    def _is_ours(self, queue: QueueRef) -> bool:
        """A member that lost a lock does not know how far the new owner is."""
        return self._locks is None or self._locks.is_held(queue)

    def _new_reader(self, queue: QueueRef, siblings: Sequence[QueueRef]) -> QueueReader:
        start = self._membership.start_of(queue, siblings)
        return QueueReader(queue, self._reader_context, partial(self._new_feed, queue), start)

    def _new_feed(self, queue: QueueRef, start: int, limits: QueueLimits) -> ReadFeed:
        if not self._config.orderly:
            return ConcurrentFeed(queue, start, self._feed_context, limits)
        locks = self._locks
        is_locked = (lambda: True) if locks is None else partial(locks.is_held, queue)
        return OrderlyFeed(queue, start, self._feed_context, limits, is_locked)

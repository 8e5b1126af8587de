"""Prefetched messages: one pull loop for each queue fills a cache that all queues share.

Pulls are cached whole, and a poll takes whole ones, so it costs nothing per message.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import final

from roquet.client.cluster.pulling import PULL_SIZE_MAX, Pulled, PullOrder, PullTerms
from roquet.client.group.pull_loop import PullContext, PullLoop
from roquet.client.pull.config import PullConsumerConfig
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.protocol.subscription import Subscription


@final
class _Batch:
    """The messages of one pull, until they are polled."""

    __slots__ = ("count", "messages", "next_offset", "prefetcher", "size")

    def __init__(self, prefetcher: "Prefetcher", pulled: Pulled) -> None:
        self.prefetcher = prefetcher
        self.messages = pulled.messages
        self.count = len(pulled.messages)
        self.size = sum([message.size for message in pulled.messages])
        self.next_offset = pulled.next_offset


@final
class Cache:
    """The pulls of all queues, in the order of their arrival."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._batches: deque[_Batch] = deque()
        self._prefetchers: set[Prefetcher] = set()
        self.count = 0
        self.has_some = asyncio.Event()

    @property
    def is_full(self) -> bool:
        return self.count > self._count_max

    def put(self, batch: _Batch) -> None:
        self._batches.append(batch)
        self.count += batch.count
        self.has_some.set()

    def take(self, count: int) -> tuple[list[ReceivedMessage], set["Prefetcher"]]:
        """Whole pulls until there are enough messages, and their prefetchers."""
        messages: list[ReceivedMessage] = []
        owners: set[Prefetcher] = set()
        batches = self._batches
        was_full = self.is_full
        while batches and len(messages) < count:
            batch = batches.popleft()
            self.count -= batch.count
            if messages:
                messages += batch.messages
            else:
                messages = batch.messages
            batch.prefetcher.taken(batch)
            owners.add(batch.prefetcher)
        self._update(was_full=was_full)
        return messages, owners

    def drop(self, prefetcher: "Prefetcher") -> None:
        """Discards what is cached of a queue."""
        was_full = self.is_full
        kept = [batch for batch in self._batches if batch.prefetcher is not prefetcher]
        self._batches = deque(kept)
        self.count = sum(batch.count for batch in kept)
        self._update(was_full=was_full)

    def enter(self, prefetcher: "Prefetcher") -> None:
        self._prefetchers.add(prefetcher)

    def leave(self, prefetcher: "Prefetcher") -> None:
        self._prefetchers.discard(prefetcher)
        self.drop(prefetcher)

    def _update(self, *, was_full: bool) -> None:
        if not self._batches:
            self.has_some.clear()
        if was_full and not self.is_full:
            for each in self._prefetchers:
                each.check_room()


@final
class Prefetcher:
    """Prefetches one queue. `start_offset` finds the first offset; it raises ClientError."""

    def __init__(
        self,
        queue: QueueRef,
        config: PullConsumerConfig,
        context: PullContext,
        cache: Cache,
        start_offset: Callable[[], Awaitable[int]],
    ) -> None:
        self.queue = queue
        # Everything before it was polled or skipped; None until it is known.
        self.position: int | None = None
        self.cached_count = 0
        self._cached_size = 0
        self.is_paused = False
        self._newest: _Batch | None = None
        self._config = config
        self._cache = cache
        self._loop = PullLoop(queue, context, self, start_offset)
        self._may_pull = asyncio.Event()

    @property
    def lag(self) -> int | None:
        if self.position is None or self._loop.max_offset is None:
            return None
        return max(0, self._loop.max_offset - self.position)

    def start(self) -> None:
        self._cache.enter(self)
        self.check_room()
        if self._config.prefetch:
            self._loop.start()

    def stop(self) -> None:
        """Stops pulling, and discards what is cached."""
        self._loop.stop()
        self._cache.leave(self)

    def seek(self, offset: int) -> None:
        """Discards what is cached; the next poll continues at that offset."""
        self._loop.stop()
        self._forget_cached()
        self.start_at(offset)
        if self._config.prefetch:
            self._loop.restart(offset)

    def pause(self, *, is_paused: bool) -> None:
        self.is_paused = is_paused
        self.check_room()

    def taken(self, batch: _Batch) -> None:
        """A poll took it."""
        self.position = batch.next_offset
        self.cached_count -= batch.count
        self._cached_size -= batch.size
        if self._newest is batch:
            self._newest = None
        self.check_room()

    def check_room(self) -> None:
        """Pulling continues or pauses, depending on the room for more."""
        config = self._config
        if (
            self.is_paused
            or self.cached_count > config.queue_count_max
            or self._cached_size > config.queue_size_max
            or self._cache.is_full
        ):
            self._may_pull.clear()
        else:
            self._may_pull.set()

    # What its pull loop calls.

    def start_at(self, offset: int) -> None:
        self.position = offset

    async def restart_at(self, offset: int) -> None:
        """Commits nothing: the program does that."""
        self._forget_cached()
        self.start_at(offset)

    @property
    def unfinished_offset(self) -> int:
        """Of what is cached, nothing may be skipped; what was polled is the program's."""
        assert self.position is not None
        return self.position

    async def until_room(self) -> None:
        await self._may_pull.wait()

    def order(self, subscription: Subscription, offset: int) -> PullOrder:
        terms = PullTerms(
            subscription,
            self._config.pull_count,
            self._config.suspend_s,
            sends_subscription=True,
            is_lite=True,
            size_max=PULL_SIZE_MAX,
        )
        return PullOrder(self.queue, terms, offset)

    async def take_in(self, pulled: Pulled, duration_s: float) -> None:  # noqa: ARG002
        if pulled.messages:
            batch = self._newest = _Batch(self, pulled)
            self.cached_count += batch.count
            self._cached_size += batch.size
            self._cache.put(batch)
            self.check_room()
        elif self._newest is not None:
            # There are no messages between the cached ones and this offset.
            self._newest.next_offset = pulled.next_offset
        else:
            self.position = pulled.next_offset

    def _forget_cached(self) -> None:
        self._cache.drop(self)
        self.cached_count = self._cached_size = 0
        self._newest = None
        self.check_room()

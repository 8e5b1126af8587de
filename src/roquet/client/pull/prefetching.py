"""Messages that wait for `poll`: one long poll for each queue fills a cache that all share.

Pulls are kept as they came. A poll takes whole ones, so it costs nothing for each message.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, final

from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import ClientError, RequestRefused, Unreachable
from roquet.client.group.pulling import Pulled, Puller, PullOrder, PullStatus
from roquet.client.pull.config import PullConsumerConfig
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.net.service import OnFailure, Services
from roquet.protocol.codes import ResponseCode
from roquet.protocol.subscription import Subscription

log = logging.getLogger(__name__)

# A broker that has too much to do says so, and means a moment.
_FLOW_CONTROL_PAUSE_S: Final = 0.02


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
    """Of all queues, in the order it came."""

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
        """Whole pulls until there are so many messages, and whose they were."""
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
        self._settle(was_full=was_full)
        return messages, owners

    def drop(self, prefetcher: "Prefetcher") -> None:
        """What waits of a queue is not wanted any more."""
        was_full = self.is_full
        kept = [batch for batch in self._batches if batch.prefetcher is not prefetcher]
        self._batches = deque(kept)
        self.count = sum(batch.count for batch in kept)
        self._settle(was_full=was_full)

    def enter(self, prefetcher: "Prefetcher") -> None:
        self._prefetchers.add(prefetcher)

    def leave(self, prefetcher: "Prefetcher") -> None:
        self._prefetchers.discard(prefetcher)
        self.drop(prefetcher)

    def _settle(self, *, was_full: bool) -> None:
        if not self._batches:
            self.has_some.clear()
        if was_full and not self.is_full:
            for each in self._prefetchers:
                each.look()


@dataclass(frozen=True, slots=True)
class Prefetching:
    """What all queues of a consumer use."""

    config: PullConsumerConfig
    puller: Puller
    routes: RouteBook
    services: Services
    cache: Cache
    # What is wanted of a topic; None when nothing is any more.
    subscription_of: Callable[[str], Subscription | None]
    # Tells brokers who we are and what we want.
    introduce: Callable[[], None]
    note_error: Callable[[str], None]


@final
class Prefetcher:
    """Reads one queue ahead. `start_offset` is where it begins; it raises ClientError."""

    def __init__(
        self, queue: QueueRef, shared: Prefetching, start_offset: Callable[[], Awaitable[int]]
    ) -> None:
        self.queue = queue
        # Everything before it was polled, or was never wanted; None until it is known.
        self.position: int | None = None
        # The end of the queue, when its broker was last heard.
        self.max_offset: int | None = None
        self.cached_count = 0
        self.is_paused = False
        self._cached_size = 0
        self._newest: _Batch | None = None
        self._shared = shared
        self._start_offset = start_offset
        self._may_pull = asyncio.Event()
        self._next_offset = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def lag(self) -> int | None:
        if self.position is None or self.max_offset is None:
            return None
        return max(0, self.max_offset - self.position)

    def start(self) -> None:
        shared = self._shared
        shared.cache.enter(self)
        self.look()
        if shared.config.prefetch:
            self._task = shared.services.run(
                f"read {self.queue}", self._read, on_failure=OnFailure.RESTART
            )

    def stop(self) -> None:
        """Nothing of the queue is polled any more."""
        if self._task is not None:
            self._task.cancel()
            self._task = None
        self._shared.cache.leave(self)
        self._forget_cached()

    def seek(self, offset: int) -> None:
        """What was read ahead is not polled; the next poll goes on at that offset."""
        self.stop()
        self.position = self._next_offset = offset
        self.start()

    def pause(self, *, is_paused: bool) -> None:
        self.is_paused = is_paused
        self.look()

    def taken(self, batch: _Batch) -> None:
        """A poll has it."""
        self.position = batch.next_offset
        self.cached_count -= batch.count
        self._cached_size -= batch.size
        if self._newest is batch:
            self._newest = None
        self.look()

    def look(self) -> None:
        """Whether there is room for more."""
        config = self._shared.config
        if (
            self.is_paused
            or self.cached_count > config.queue_count_max
            or self._cached_size > config.queue_size_max
            or self._shared.cache.is_full
        ):
            self._may_pull.clear()
        else:
            self._may_pull.set()

    async def _read(self) -> None:
        while self.position is None:
            try:
                self.position = self._next_offset = await self._start_offset()
            except ClientError as error:
                await self._recover(f"where it begins is not known: {error}")
        while True:
            await self._may_pull.wait()
            await self._pull()

    async def _pull(self) -> None:
        shared = self._shared
        subscription = shared.subscription_of(self.queue.topic)
        if subscription is None:
            await self._recover("nothing is wanted of it")
            return
        order = PullOrder(
            self.queue,
            subscription,
            self._next_offset,
            shared.config.pull_count,
            suspend_s=shared.config.suspend_s,
            says_subscription=True,
            is_lite=True,
        )
        try:
            pulled = await shared.puller.pull(order)
        except RequestRefused as error:
            await self._recover_from(error)
        except Unreachable as error:
            shared.routes.renew_soon(self.queue.topic)
            await self._recover(str(error))
        else:
            await self._keep(pulled)

    async def _keep(self, pulled: Pulled) -> None:
        self.max_offset = pulled.max_offset
        if pulled.status is PullStatus.OUT_OF_RANGE:
            await self._jump(pulled.next_offset)
            return
        self._next_offset = pulled.next_offset
        if pulled.messages:
            batch = self._newest = _Batch(self, pulled)
            self.cached_count += batch.count
            self._cached_size += batch.size
            self._shared.cache.put(batch)
            self.look()
        else:
            self._skip_to(pulled.next_offset)

    async def _jump(self, offset: int) -> None:
        """Messages have expired, or an operator moved the group."""
        log.warning("%s has no offset %d; going on at %d", self.queue, self._next_offset, offset)
        old_offset, self._next_offset = self._next_offset, offset
        if offset < old_offset:
            # What waits here comes again.
            self._shared.cache.drop(self)
            self._forget_cached()
            self.look()
        self._skip_to(offset)
        if offset == old_offset:
            await asyncio.sleep(self._shared.config.error_pause_s)

    def _skip_to(self, offset: int) -> None:
        """There is nothing between what is cached and this offset."""
        if self._newest is not None:
            self._newest.next_offset = offset
        else:
            self.position = offset

    def _forget_cached(self) -> None:
        self.cached_count = self._cached_size = 0
        self._newest = None

    async def _recover_from(self, error: RequestRefused) -> None:
        shared = self._shared
        if error.code == ResponseCode.FLOW_CONTROL:
            await asyncio.sleep(_FLOW_CONTROL_PAUSE_S)
            return
        if error.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
            shared.introduce()
        elif error.code in {ResponseCode.TOPIC_NOT_EXIST, ResponseCode.NO_PERMISSION}:
            shared.routes.renew_soon(self.queue.topic)
        await self._recover(str(error))

    async def _recover(self, reason: str) -> None:
        pause_s = self._shared.config.error_pause_s
        self._shared.note_error(f"pull of {self.queue}: {reason}")
        log.info("pull of %s: %s; again in %g s", self.queue, reason, pause_s)
        await asyncio.sleep(pause_s)

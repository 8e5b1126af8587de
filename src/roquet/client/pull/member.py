"""A pull consumer between `open` and `close`: the `QueueOwner` of its share, and its cache."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, final

from roquet.client.callbacks import call_all, call_or
from roquet.client.cluster.routes import RouteBook
from roquet.client.errors import BadArgument, ClientError
from roquet.client.group.broker_requests import ROUTES, running_info
from roquet.client.group.membership import Membership
from roquet.client.group.subscriptions import Subscriptions
from roquet.client.names import unwrapped, wrapped
from roquet.client.pull.config import PullConsumerConfig
from roquet.client.pull.prefetching import Cache, Prefetcher
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock
from roquet.errors import RoquetError
from roquet.net.router import Router
from roquet.net.service import OnFailure, Services
from roquet.protocol.bodies.clients import (
    ConsumerRunningInfo,
    ConsumeType,
    DirectConsumeResult,
    ProcessQueueInfo,
)

DELAY_S: Final = 0.2
_ERROR_DELAY_S: Final = 1.0

# Returns the seconds until its next call; None is the delay of the schedule.
# A function runs in a thread, a coroutine in the event loop.
PullWork = Callable[[QueueRef], Awaitable[float | None] | float | None]

# Gets all queues that the topic has from now on.
OnTopicQueues = Callable[[Sequence[QueueRef]], None]

_NONE: Final[tuple[QueueRef, ...]] = ()


@final
class PullSchedule:
    """Calls a function of the program for each queue the consumer has, one task for each.

    The program decides itself what to pull and when to be called again; Java calls it scheduled
    pull. An error is logged, and the call is repeated a little later.
    """

    def __init__(self, work: PullWork, delay_s: float, services: Services) -> None:
        self._work = work
        self._delay_s = delay_s
        self._services = services
        self._tasks: dict[QueueRef, asyncio.Task[None] | None] = {}

    def follow(self, queues: Sequence[QueueRef]) -> None:
        """Runs for these queues from now on, and no others."""
        for queue in self._tasks.keys() - set(queues):
            task = self._tasks.pop(queue)
            if task is not None:
                task.cancel()
        for queue in queues:
            if queue not in self._tasks:
                self._tasks[queue] = self._services.run(
                    f"work on {queue}", partial(self._run, queue), on_failure=OnFailure.RESTART
                )

    async def _run(self, queue: QueueRef) -> None:
        while True:
            after_error: float | None = _ERROR_DELAY_S
            pause_s = await call_or(after_error, self._work, queue)
            await asyncio.sleep(self._delay_s if pause_s is None else pause_s)


@final
class TopicWatch:
    """Notifies a program that assigns queues itself when the queues of a topic change.

    It has a function for each topic, whether the consumer reads the topic or not.
    """

    def __init__(self, routes: RouteBook, namespace: str | None) -> None:
        self._routes = routes
        self._namespace = namespace
        self._listeners: dict[str, OnTopicQueues] = {}
        self._known: dict[str, tuple[QueueRef, ...]] = {}

    async def add(self, topic: str, listener: OnTopicQueues) -> Sequence[QueueRef]:
        """The queues of the topic now; a topic has one function, the last one.

        Raises TopicNotFound or NoNameServer.
        """
        queues = self._known[topic] = await self._queues(topic)
        self._listeners[topic] = listener
        return queues

    async def refresh(self) -> None:
        """Called after each period."""
        for topic, listener in [*self._listeners.items()]:
            try:
                queues = await self._queues(topic)
            except ClientError as error:
                log.info("the queues of %s are not known now, retrying: %s", topic, error)
                continue
            if queues != self._known[topic]:
                self._known[topic] = queues
                call_all([listener], queues)

    async def _queues(self, topic: str) -> tuple[QueueRef, ...]:
        route = await self._routes.newest(wrapped(self._namespace, topic))
        if route is None:
            return _NONE
        return tuple(queue._replace(topic=topic) for queue in sorted(route.readable))


log = logging.getLogger(__name__)


@dataclass(slots=True)
class Selection:
    """What a program wants to read, also before `open`: shares of topics, or certain queues."""

    subscriptions: Subscriptions
    # None while topics are shared.
    queues: tuple[QueueRef, ...] | None = None
    topics: set[str] = field(default_factory=set)


@final
class PullMember:
    """Made inside a running event loop; no I/O before `open`. Queues have brokers' topics."""

    def __init__(self, config: PullConsumerConfig, selection: Selection, clock: Clock) -> None:
        self.config = config
        self.selection = selection
        self.membership = membership = Membership(
            config, ConsumeType.PULL, selection.subscriptions, clock, Router(self, ROUTES)
        )
        self.instance = membership.instance
        self._keeper = membership.keeper
        self.polled_count = 0
        self.prefetchers: dict[QueueRef, Prefetcher] = {}
        self.schedule: PullSchedule | None = None
        self.topic_watch = TopicWatch(membership.instance.routes, config.namespace)
        self.cache = Cache(config.cached_count_max)
        # Polled, or moved by `seek`, since the last commit.
        self._touched: set[Prefetcher] = set()
        # Changes of the assignment exclude each other.
        self._changing = asyncio.Lock()

    # Opening and closing.

    async def open(self, timeout_s: float | None = None) -> None:
        """Returns when the first queues are known, or after a while.

        Raises RequestRefused when a broker does not support the filter of a subscription, and
        BadStateFile; with a timeout also what keeps it from consuming.
        """
        await self.membership.open()
        self.membership.instance.services.every(
            "watch topics", self.config.topic_check_interval_s, self.topic_watch.refresh
        )
        has_topics = bool(self.selection.topics) or bool(self.selection.queues)
        await self.membership.join(self, timeout_s, has_topics=has_topics)

    async def until_started(self) -> None:
        """Returns at once: messages are read when they are polled."""

    async def close(self) -> None:
        """Stores committed offsets, and leaves the group."""
        self.membership.stop_balancing()
        for prefetcher in self.prefetchers.values():
            prefetcher.stop()
        try:
            await self.membership.leave(self.save)
        finally:
            await self.membership.instance.close()

    # Polling.

    async def poll(self, timeout_s: float) -> list[ReceivedMessage]:
        if self.config.auto_commit:
            self._note_polled()
        has_some = self.cache.has_some
        if not has_some.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    # Another poll may be faster.
                    while not has_some.is_set():
                        await has_some.wait()
            except TimeoutError:
                return []
        messages, owners = self.cache.take(self.config.poll_count)
        self._touched |= owners
        self.polled_count += len(messages)
        return messages

    async def commit(self, offsets: Mapping[QueueRef, int] | None) -> None:
        if offsets is None:
            touched, self._touched = self._touched, set()
            offsets = {each.queue: each.position for each in touched if each.position is not None}
            try:
                await self._keeper.commit(offsets)
            except RoquetError:
                self._touched |= touched
                raise
        else:
            await self._keeper.commit(offsets)

    async def committed(self, queue: QueueRef) -> int | None:
        noted = self._keeper.noted(queue)
        return await self._keeper.kept(queue) if noted is None else noted

    def seek(self, queue: QueueRef, offset: int) -> None:
        prefetcher = self.prefetcher(queue)
        prefetcher.seek(offset)
        self._touched.add(prefetcher)

    def prefetcher(self, queue: QueueRef) -> Prefetcher:
        """Raises BadArgument."""
        found = self.prefetchers.get(queue)
        if found is None:
            reason = f"{queue} is not assigned to this consumer; see `assignment()`"
            raise BadArgument(reason, "queue")
        return found

    # Its queues.

    def topics(self) -> Collection[str]:
        return () if self.selection.queues is not None else self.selection.topics

    async def registered(self) -> None:
        """Takes assigned queues, and drops unsubscribed ones; rebalance does the rest."""
        async with self._changing:
            wanted, topics = self.selection.queues, self.selection.topics
            if wanted is None:
                lost = [queue for queue in self.prefetchers if queue.topic not in topics]
                await self._replace(lost, {})
            else:
                lost = [queue for queue in self.prefetchers if queue not in wanted]
                # Here the start of a new group does not depend on other queues.
                gained = {queue: () for queue in wanted if queue not in self.prefetchers}
                await self._replace(lost, gained)

    async def share(
        self, topic: str, queues: Sequence[QueueRef], share: Sequence[QueueRef]
    ) -> None:
        async with self._changing:
            if topic not in self.selection.topics:
                return
            mine = {queue for queue in self.prefetchers if queue.topic == topic}
            lost = mine.difference(share)
            gained = {queue: queues for queue in share if queue not in mine}
            if lost or gained:
                await self.membership.registration.renew(topic)
            await self._replace(lost, gained)

    async def _replace(
        self, lost: Iterable[QueueRef], gained: Mapping[QueueRef, Sequence[QueueRef]]
    ) -> None:
        """Stops reading some queues, and starts others; each has all queues of its topic."""
        lost = list(lost)
        for queue in lost:
            prefetcher = self.prefetchers.pop(queue)
            prefetcher.stop()
            self._touched.discard(prefetcher)
        await self._keeper.save(lost)
        for queue in lost:
            self.membership.forget(queue)
        for queue, siblings in gained.items():
            prefetcher = self.prefetchers[queue] = Prefetcher(
                queue,
                self.config,
                self.membership.pull_context,
                self.cache,
                self.membership.start_of(queue, siblings),
            )
            prefetcher.start()
        if lost or gained:
            log.info("reading %s", [tuple(each) for each in sorted(self.prefetchers)])
            queues = self.assignment()
            if self.schedule is not None:
                self.schedule.follow(queues)
            if self.config.on_queues is not None:
                call_all([self.config.on_queues], queues)

    def assignment(self) -> list[QueueRef]:
        """Its queues, with the topics of the program."""
        namespace = self.config.namespace
        return [
            queue._replace(topic=unwrapped(namespace, queue.topic))
            for queue in sorted(self.prefetchers)
        ]

    async def save(self) -> None:
        await self._keeper.save(tuple(self.prefetchers))

    def _note_polled(self) -> None:
        """The program polls again, so it has processed what it got."""
        for prefetcher in self._touched:
            if prefetcher.position is not None:
                self._keeper.move(prefetcher.queue, prefetcher.position)
        self._touched.clear()

    # Requests of brokers and operators.

    def move(self, queue: QueueRef, offset: int) -> None:
        if queue in self.prefetchers:
            self.seek(queue, offset)
            self._keeper.move(queue, offset)
            save = partial(self._keeper.save, [queue])
            self.membership.instance.services.once("save offsets", save)

    def positions(self) -> dict[QueueRef, int]:
        return {
            queue: each.position
            for queue, each in self.prefetchers.items()
            if each.position is not None
        }

    def running_info(self, *, has_stacks: bool) -> ConsumerRunningInfo:
        properties = {
            "PROP_CONSUMEORDERLY": "false",
            "PROP_THREADPOOL_CORE_SIZE": "0",
            "pullBatchSize": str(self.config.pull_count),
        }
        queues = {
            queue: ProcessQueueInfo(
                commit_offset=each.position or 0, cached_msg_count=each.cached_count
            )
            for queue, each in self.prefetchers.items()
        }
        return running_info(self.membership, properties, queues, has_stacks=has_stacks)

    async def consume_directly(self, message: ReceivedMessage) -> DirectConsumeResult:
        raise BadArgument(f"a pull consumer has no listener for {message!r}")

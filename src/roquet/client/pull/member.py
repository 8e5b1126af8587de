"""A pull consumer between `open` and `close`: one member of its group, with all its parts."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, final

from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.tls import tls_context
from roquet.client.errors import BadArgument, ClientError
from roquet.client.group.offsets import BrokerOffsets, FileOffsets, OffsetKeeper
from roquet.client.group.pull_loop import Pulling
from roquet.client.group.pulling import Puller
from roquet.client.group.rebalance import Rebalance
from roquet.client.group.start_offset import start_offset
from roquet.client.group.subscriptions import Subscriptions
from roquet.client.names import unwrapped, wrapped
from roquet.client.pull.broker_requests import ROUTES
from roquet.client.pull.config import PullConsumerConfig
from roquet.client.pull.prefetching import Cache, Prefetcher
from roquet.client.pull.schedule import PullSchedule
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.client.user_code import tell
from roquet.clock import Clock
from roquet.errors import RoquetError
from roquet.net.router import Router
from roquet.net.service import OnFailure
from roquet.protocol.bodies.heartbeat import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
)

log = logging.getLogger(__name__)

_WHAT: Final = "pull consumer"
# Broadcasting members have to find their offsets again.
_STABLE_NAME: Final = "DEFAULT"
_OFFSETS_DIRECTORY: Final = ".rocketmq_offsets"
# How long `open` waits for the first queues; they may come later.
_OPEN_TIMEOUT_S: Final = 3.0
_LEAVE_TIMEOUT_S: Final = 5.0
_NEW_TOPIC_QUEUE_COUNT: Final = 4


@dataclass(slots=True)
class Wishes:
    """What a program wants to read, from before `open` on: shares of topics, or certain queues."""

    subscriptions: Subscriptions
    # None while topics are shared.
    queues: tuple[QueueRef, ...] | None = None
    topics: set[str] = field(default_factory=set)


@final
class PullMember:
    """Made inside a running event loop. Nothing happens before `open`. Queues are brokers'."""

    def __init__(self, config: PullConsumerConfig, wishes: Wishes, clock: Clock) -> None:
        self.config = config
        self.clock = clock
        self.group = wrapped(config.namespace, config.group)
        self.wishes = wishes
        self.last_error: str | None = None
        self.polled_count = 0
        self.prefetchers: dict[QueueRef, Prefetcher] = {}
        self.schedule: PullSchedule | None = None
        self.instance = instance = ClientInstance(
            _WHAT,
            config.name_servers,
            clock,
            self._heartbeat,
            credentials=config.credentials,
            new_topic_queue_count=_NEW_TOPIC_QUEUE_COUNT,
            router=Router(self, ROUTES),
            tls=tls_context(config.tls),
            name=config.instance_name or (_STABLE_NAME if config.broadcasting else None),
            is_consumer=True,
        )
        self.brokers = Brokers(instance.requests, instance.routes)
        self.puller = Puller(instance.requests, instance.routes, self.group, config.namespace)
        self.keeper = self._new_keeper()
        self.cache = Cache(config.cached_count_max)
        self._pulling = Pulling(
            self.puller.pull,
            instance.routes.renew_soon,
            instance.services,
            clock,
            config.error_pause_s,
            wishes.subscriptions.by_topic.get,
            instance.beat_soon,
            self._note_error,
        )
        self.rebalance = Rebalance(
            self.brokers,
            instance.routes,
            (self.group, instance.id),
            None if config.broadcasting else config.allocation,
            lambda: () if wishes.queues is not None else wishes.topics,
            self._share,
            on_stranger=instance.beat_soon,
        )
        # Those that were polled, or sought in, since the last commit.
        self._touched: set[Prefetcher] = set()
        # Who changes what is read waits for what others began to change.
        self._changing = asyncio.Lock()
        self._balancing: asyncio.Task[None] | None = None

    # Its life.

    async def open(self) -> None:
        """Returns when the first queues are known, or after a while.

        Raises RequestRefused when a broker does not filter as it is wanted, and BadStateFile.
        """
        config = self.config
        if isinstance(self.keeper, FileOffsets):
            await asyncio.to_thread(self.keeper.load)
        await self.instance.open(config.route_interval_s, config.heartbeat_interval_s)
        await self.brokers.check_subscriptions(
            self.group, self.instance.id, self.wishes.subscriptions.by_topic.values()
        )
        services = self.instance.services
        services.every("save offsets", config.commit_interval_s, self._save)
        self._balancing = services.run("balance", self._balance, on_failure=OnFailure.RESTART)
        with suppress(TimeoutError):
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                await self.rebalance.has_begun.wait()

    async def close(self) -> None:
        """Keeps what is committed, and leaves the group."""
        if self._balancing is not None:
            self._balancing.cancel()
        for prefetcher in self.prefetchers.values():
            prefetcher.stop()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                    await self._save()
        finally:
            await self.instance.close()

    # Polling.

    async def poll(self, timeout_s: float) -> list[ReceivedMessage]:
        if self.config.auto_commit:
            self._note_polled()
        has_some = self.cache.has_some
        if not has_some.is_set():
            try:
                async with asyncio.timeout(timeout_s):
                    # Somebody else may poll, too, and be faster.
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
                await self.keeper.commit(offsets)
            except RoquetError:
                self._touched |= touched
                raise
        else:
            await self.keeper.commit(offsets)

    async def committed(self, queue: QueueRef) -> int | None:
        noted = self.keeper.noted(queue)
        return await self.keeper.kept(queue) if noted is None else noted

    def seek(self, queue: QueueRef, offset: int) -> None:
        prefetcher = self.prefetcher(queue)
        prefetcher.seek(offset)
        self._touched.add(prefetcher)

    def prefetcher(self, queue: QueueRef) -> Prefetcher:
        """Raises BadArgument."""
        found = self.prefetchers.get(queue)
        if found is None:
            raise BadArgument(f"{queue} is not assigned to this consumer; see `assignment()`")
        return found

    # What it reads.

    def wishes_changed(self) -> None:
        """Other topics or queues are wanted."""
        self.instance.services.once("change", self._change)

    async def _change(self) -> None:
        await self._introduce()
        await self._read_wanted()
        self.rebalance.wake()

    async def _balance(self) -> None:
        await self._introduce()
        await self._read_wanted()
        await self.rebalance.keep_balanced(self.config.balance_interval_s)

    async def _introduce(self) -> None:
        """Brokers know this member before it looks for its share."""
        for topic in tuple(self.wishes.subscriptions.by_topic):
            try:
                await self.instance.routes.existing(topic)
            except ClientError as error:
                log.info("the route of %s is not known yet: %s", topic, error)
        await self.instance.heartbeats.beat()

    async def _read_wanted(self) -> None:
        """Assigned queues, and those of a share that is still wanted; rebalance finds the rest."""
        async with self._changing:
            wanted, topics = self.wishes.queues, self.wishes.topics
            if wanted is None:
                lost = [queue for queue in self.prefetchers if queue.topic not in topics]
                await self._replace(lost, {})
            else:
                lost = [queue for queue in self.prefetchers if queue not in wanted]
                # Where a new group begins does not depend on other queues here.
                gained = {queue: () for queue in wanted if queue not in self.prefetchers}
                await self._replace(lost, gained)

    async def _share(
        self, topic: str, queues: Sequence[QueueRef], share: Sequence[QueueRef]
    ) -> None:
        async with self._changing:
            if topic not in self.wishes.topics:
                return
            mine = {queue for queue in self.prefetchers if queue.topic == topic}
            lost = mine.difference(share)
            gained = {queue: queues for queue in share if queue not in mine}
            if lost or gained:
                self.wishes.subscriptions.renew(topic, self.clock.now_ms())
                await self.instance.heartbeats.beat()
            await self._replace(lost, gained)

    async def _replace(
        self, lost: Iterable[QueueRef], gained: Mapping[QueueRef, Sequence[QueueRef]]
    ) -> None:
        """Reads some queues no more, and others from now on; each comes with its siblings."""
        lost = list(lost)
        for queue in lost:
            prefetcher = self.prefetchers.pop(queue)
            prefetcher.stop()
            self._touched.discard(prefetcher)
        await self.keeper.save(lost)
        for queue in lost:
            self.keeper.forget(queue)
            self.puller.forget(queue)
        for queue, siblings in gained.items():
            start = partial(
                start_offset, self.brokers, self.keeper, queue, self.config.start_from, siblings
            )
            prefetcher = self.prefetchers[queue] = Prefetcher(
                queue, self.config, self._pulling, self.cache, start
            )
            prefetcher.start()
        if lost or gained:
            log.info("reading %s", [tuple(each) for each in sorted(self.prefetchers)])
            queues = self.assignment()
            if self.schedule is not None:
                self.schedule.follow(queues)
            if self.config.on_queues is not None:
                tell([self.config.on_queues], queues)

    def assignment(self) -> list[QueueRef]:
        """As the program knows them."""
        namespace = self.config.namespace
        return [
            queue._replace(topic=unwrapped(namespace, queue.topic))
            for queue in sorted(self.prefetchers)
        ]

    # Small things.

    def _note_polled(self) -> None:
        """The program came back, so it is done with what it got."""
        for prefetcher in self._touched:
            if prefetcher.position is not None:
                self.keeper.move(prefetcher.queue, prefetcher.position)
        self._touched.clear()

    async def _save(self) -> None:
        await self.keeper.save(tuple(self.prefetchers))

    def _note_error(self, text: str) -> None:
        self.last_error = text

    def _new_keeper(self) -> OffsetKeeper:
        if not self.config.broadcasting:
            return BrokerOffsets(self.brokers, self.group)
        directory = self.config.offsets_directory or Path.home() / _OFFSETS_DIRECTORY
        return FileOffsets(Path(directory) / self.instance.id / self.group)

    def _heartbeat(self, client_id: str) -> Heartbeat:
        wanted = self.wishes.subscriptions.bodies()
        # Without topics it is nobody's reader, and must not be counted as one.
        if not wanted:
            return Heartbeat(client_id=client_id)
        broadcasting = self.config.broadcasting
        data = ConsumerData(
            group_name=self.group,
            consume_type=ConsumeType.PULL,
            message_model=MessageModel.BROADCASTING if broadcasting else MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.LAST_OFFSET,
            subscription_data_set=wanted,
        )
        return Heartbeat(client_id=client_id, consumer_data_set=[data])

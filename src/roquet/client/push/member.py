"""A push consumer between `open` and `close`: one member of its group, with all its parts."""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, final

from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.tls import tls_context
from roquet.client.errors import (
    BadArgument,
)
from roquet.client.group.introductions import Introductions, heartbeat_of
from roquet.client.group.offsets import BrokerOffsets, FileOffsets, OffsetKeeper
from roquet.client.group.pull_loop import Pulling
from roquet.client.group.pulling import Puller
from roquet.client.group.rebalance import Rebalance
from roquet.client.group.start_offset import start_offset
from roquet.client.group.subscriptions import Subscriptions
from roquet.client.names import RETRY_PREFIX, unwrapped, wrapped
from roquet.client.producer.outbox import new_tracer
from roquet.client.push.assignment import Assignment
from roquet.client.push.broker_requests import ROUTES
from roquet.client.push.concurrent_feed import ConcurrentFeed, Consumption
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Workers
from roquet.client.push.flow_control import QueueLimits, limits_of
from roquet.client.push.iteration import Iterations
from roquet.client.push.listener_calls import ConsumeHooks, keep_in_time
from roquet.client.push.listening_tasks import TaskWorkers
from roquet.client.push.listening_threads import ThreadWorkers
from roquet.client.push.orderly import RENEW_PERIOD_S, OrderlyFeed, QueueLocks
from roquet.client.push.queue_reader import QueueReader, ReadFeed, Reading
from roquet.client.push.retrying import Retries
from roquet.client.push.send_back import SendBack
from roquet.client.push.statistics import SAMPLE_PERIOD_S, ConsumerStatistics, Counting
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.client.user_code import error_of, is_coroutine_function
from roquet.clock import Clock
from roquet.net.router import Router
from roquet.net.service import OnFailure

log = logging.getLogger(__name__)

_WHAT: Final = "push consumer"
# Broadcasting members have to find their offsets again.
_STABLE_NAME: Final = "DEFAULT"
_OFFSETS_DIRECTORY: Final = ".rocketmq_offsets"
# How long `open` waits for the first queues; they may come later.
_OPEN_TIMEOUT_S: Final = 3.0
_LEAVE_TIMEOUT_S: Final = 5.0
_NEW_TOPIC_QUEUE_COUNT: Final = 4
# The name of a group has to fit into another one.
_TRACED_GROUP_SIZE: Final = 100


@final
class GroupMember:
    """Made inside a running event loop. Nothing happens before `open`."""

    def __init__(
        self,
        config: PushConsumerConfig,
        listener: Any,
        subscriptions: Subscriptions,
        clock: Clock,
    ) -> None:
        self.config = config
        self.clock = clock
        self.group = wrapped(config.namespace, config.group)
        self.subscriptions = subscriptions
        self.begin_ms = clock.now_ms()
        self._listener = listener
        self.counting = Counting()
        self.instance = instance = ClientInstance(
            _WHAT,
            config.name_servers,
            clock,
            partial(heartbeat_of, config, self.group, subscriptions),
            credentials=config.credentials,
            new_topic_queue_count=_NEW_TOPIC_QUEUE_COUNT,
            router=Router(self, ROUTES),
            tls=tls_context(config.tls),
            name=config.instance_name or (_STABLE_NAME if config.broadcasting else None),
            is_consumer=True,
        )
        self._brokers = Brokers(instance.requests, instance.routes)
        self._introductions = Introductions(instance, subscriptions, clock)
        self.send_back = SendBack(self._brokers, instance.routes, self.group, config.namespace)
        retries = Retries(
            self.send_back, config.wire_retry_count_max, instance.services, self.counting
        )
        self._tracer = new_tracer(
            config.trace,
            config.name_server,
            f"{config.group[:_TRACED_GROUP_SIZE]}-CONSUME",
            credentials=config.credentials,
            tls=config.tls,
        )
        self.workers = self._new_workers(listener)
        self._consumption = Consumption(config, self.workers, retries, self.counting, clock)
        self.keeper = self._new_keeper()
        self.locks: QueueLocks | None = None
        if config.orderly and not config.broadcasting:
            self.locks = QueueLocks(self._brokers, self.group, instance.id, clock)
        self._may_pull = asyncio.Event()
        self._may_pull.set()
        self._reading = self._new_reading()
        self.rebalance = Rebalance(
            self._brokers,
            instance.routes,
            (self.group, instance.id),
            None if config.broadcasting else config.allocation,
            lambda: self.subscriptions.by_topic,
            self._share,
            on_stranger=instance.beat_soon,
        )
        self.assignment = Assignment(
            self._new_reader,
            self.keeper,
            self.locks,
            instance.services,
            self._introductions.renew,
            self.rebalance.wake,
        )
        self._balancing: asyncio.Task[None] | None = None

    # Its life.

    async def open(self) -> None:
        """Returns when the first queues are being read, or after a while.

        Raises RequestRefused when a broker does not filter as it is wanted.
        """
        config = self.config
        if isinstance(self.keeper, FileOffsets):
            await asyncio.to_thread(self.keeper.load)
        await self.instance.open(config.route_interval_s, config.heartbeat_interval_s)
        await self._brokers.check_subscriptions(
            self.group, self.instance.id, self.subscriptions.by_topic.values()
        )
        if self._tracer is not None:
            await self._tracer.open()
        self.workers.start()
        services = self.instance.services
        services.every("save offsets", config.commit_interval_s, self.assignment.save)
        services.every("sample", SAMPLE_PERIOD_S, self._sample)
        if not config.orderly:
            limit = partial(keep_in_time, self.workers, config.consume_timeout_s, self.clock)
            services.run("limit listeners", limit, on_failure=OnFailure.RESTART)
        if self.locks is not None:
            services.run("renew locks", self._keep_locked, on_failure=OnFailure.RESTART)
        self._balancing = services.run("balance", self._balance, on_failure=OnFailure.RESTART)
        with suppress(TimeoutError):
            async with asyncio.timeout(_OPEN_TIMEOUT_S):
                await self._until_reading()

    async def close(self) -> None:
        """Waits for running listeners, keeps offsets, gives queues back and leaves the group."""
        if self._balancing is not None:
            self._balancing.cancel()
        for reader in self.assignment.readers.values():
            reader.loop.stop()
        try:
            await self.workers.stop(self.config.close_timeout_s)
            await self._consumption.retries.until_idle(self.config.close_timeout_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVE_TIMEOUT_S):
                    busy = {each.delivery.feed.queue for each in self.workers.running}
                    await self.assignment.leave_all(busy)
        finally:
            if self._tracer is not None:
                await self._tracer.close()
            await self.instance.close()

    def pause(self) -> None:
        self._may_pull.clear()
        self.workers.pause()

    def resume(self) -> None:
        self._may_pull.set()
        self.workers.resume()

    @property
    def is_paused(self) -> bool:
        return not self._may_pull.is_set()

    async def listen_to(self, message: ReceivedMessage) -> BaseException | None:
        """What the listener raised for one message that came out of turn.

        Raises BadArgument when there is no listener.
        """
        if self._listener is None:
            raise BadArgument("this consumer has no listener")
        argument = message if self.config.batch_size is None else [message]
        return await error_of(self._listener, argument)

    # What it wants.

    def wants_changed(self) -> None:
        """Topics were subscribed to, or not any more."""
        for queue in [*self.assignment.readers]:
            if queue.topic not in self.subscriptions.by_topic:
                self.assignment.drop(queue)
        self.instance.services.once("subscribe", self._introduce_and_balance)

    async def _introduce_and_balance(self) -> None:
        await self._introductions.introduce()
        self.rebalance.wake()

    # Its share.

    async def _balance(self) -> None:
        await self._introductions.introduce()
        await self.rebalance.keep_balanced(self.config.balance_interval_s)

    async def _share(
        self, topic: str, queues: Sequence[QueueRef], share: Sequence[QueueRef]
    ) -> bool:
        has_all = await self.assignment.share(topic, queues, share)
        mine = self.assignment.of_topic(topic)
        if topic not in self.subscriptions.by_topic:
            # Not wanted any more since it was looked for.
            for queue in mine:
                self.assignment.drop(queue)
            return True
        limits = limits_of(self.config, len(mine))
        for queue in mine:
            self.assignment.readers[queue].limit(limits)
        return has_all

    async def _until_reading(self) -> None:
        await self.rebalance.has_begun.wait()
        for reader in [*self.assignment.readers.values()]:
            await reader.loop.has_begun.wait()

    async def _keep_locked(self) -> None:
        assert self.locks is not None
        pause_s = RENEW_PERIOD_S
        while True:
            await asyncio.sleep(pause_s)
            readers, leaving = self.assignment.readers, self.assignment.leaving
            asked = [*readers, *leaving]
            renewal = await self.locks.renew(asked)
            pause_s = RENEW_PERIOD_S if renewal.have_all_answered else self.config.error_pause_s
            for queue in renewal.taken:
                if queue in readers:
                    log.warning("the lock of %s is lost", queue)
                    self.assignment.drop(queue)
            # What was left meanwhile may have been locked anew after it was unlocked.
            left = [each for each in asked if each not in readers and each not in leaving]
            await self.locks.unlock(left)
            for reader in readers.values():
                if isinstance(reader.feed, OrderlyFeed):
                    reader.feed.go_on()

    def _new_reader(self, queue: QueueRef, siblings: Sequence[QueueRef]) -> QueueReader:
        start = partial(
            start_offset, self._brokers, self.keeper, queue, self.config.start_from, siblings
        )
        return QueueReader(queue, self._reading, partial(self._new_feed, queue), start)

    def _new_feed(self, queue: QueueRef, start: int, limits: QueueLimits) -> ReadFeed:
        if not self.config.orderly:
            return ConcurrentFeed(queue, start, self._consumption, limits)
        locks = self.locks
        is_locked = (lambda: True) if locks is None else partial(locks.is_held, queue)
        return OrderlyFeed(queue, start, self._consumption, limits, is_locked)

    # Its parts.

    def _new_workers(self, listener: Any) -> Workers:
        config, clock = self.config, self.clock
        watching = config.hooks if self._tracer is None else (*config.hooks, self._tracer)
        hooks = ConsumeHooks(watching, config.group, clock)
        is_batch = config.batch_size is not None
        if listener is None:
            return Iterations(hooks, clock)
        if is_coroutine_function(listener):
            services = self.instance.services
            return TaskWorkers(
                listener, config.concurrency, hooks, clock, services, is_batch=is_batch
            )
        return ThreadWorkers(listener, config.concurrency, hooks, clock, is_batch=is_batch)

    def _new_keeper(self) -> OffsetKeeper:
        if not self.config.broadcasting:
            return BrokerOffsets(self._brokers, self.group)
        directory = self.config.offsets_directory or Path.home() / _OFFSETS_DIRECTORY
        return FileOffsets(Path(directory) / self.instance.id / self.group)

    def _new_reading(self) -> Reading:
        instance, config = self.instance, self.config
        pulling = Pulling(
            Puller(instance.requests, instance.routes, self.group, config.namespace).pull,
            instance.routes.renew_soon,
            instance.services,
            self.clock,
            config.error_pause_s,
            self._introductions.subscription_of,
            instance.beat_soon,
            self.counting.note_error,
        )
        return Reading(config, pulling, self.keeper, self.counting, self._may_pull)

    def _sample(self) -> None:
        self.counting.sample(self.clock.monotonic_s())

    def statistics(self) -> ConsumerStatistics:
        seen = partial(unwrapped, self.config.namespace)
        rates = self.counting.rates(self.clock.monotonic_s())
        return ConsumerStatistics(
            {seen(topic): counts for topic, counts in self.counting.counts().items()},
            {seen(topic): each for topic, each in rates.items()},
            {
                queue._replace(topic=seen(queue.topic)): progress
                for queue, reader in self.assignment.readers.items()
                if (progress := reader.progress()) is not None
            },
            len(self.workers.running),
            self.counting.last_error,
        )


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group

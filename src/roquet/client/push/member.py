"""A push consumer between `open` and `close`: its parts, and how they are put together."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Final, final

from roquet.client.callbacks import is_coroutine_function
from roquet.client.cluster.popping import Popper
from roquet.client.errors import BadArgument
from roquet.client.group.broker_requests import ROUTES, running_info
from roquet.client.group.membership import Membership
from roquet.client.group.subscriptions import Subscriptions
from roquet.client.names import unwrapped
from roquet.client.producer.accumulator import new_tracer
from roquet.client.push.assignment import Assignment
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Workers
from roquet.client.push.feeds import FeedContext
from roquet.client.push.iteration import Iterations
from roquet.client.push.listeners import ConsumeHooks, called_directly, keep_in_time
from roquet.client.push.popping import POP_TIMEOUT_S, PopAnswers, PopAssignment, PopContext
from roquet.client.push.queue_locks import QueueLocks
from roquet.client.push.queue_reader import ReaderContext
from roquet.client.push.retries import Retries, SendBack
from roquet.client.push.statistics import (
    SAMPLE_PERIOD_S,
    ConsumerCounters,
    ConsumerStatistics,
    PushProgress,
    held_messages,
    own_properties,
    queue_infos,
    topic_statuses,
)
from roquet.client.push.workers import TaskWorkers, ThreadWorkers
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock
from roquet.net.router import Router
from roquet.net.service import OnFailure
from roquet.protocol.bodies.clients import (
    ConsumerRunningInfo,
    ConsumeType,
    DirectConsumeResult,
)
from roquet.protocol.names import RETRY_PREFIX

log = logging.getLogger(__name__)

# Part of another group's name, whose size is limited.
_TRACED_GROUP_SIZE: Final = 100


@final
class PushMember:
    """Made inside a running event loop; no I/O before `open`. Answers requests of brokers."""

    def __init__(
        self,
        config: PushConsumerConfig,
        listener: Any,
        subscriptions: Subscriptions,
        clock: Clock,
        on_exit: Callable[[SystemExit], None],
    ) -> None:
        """`on_exit` gets a SystemExit of a listener."""
        self.config = config
        self.membership = membership = Membership(
            config, ConsumeType.PUSH, subscriptions, clock, Router(self, ROUTES)
        )
        self.instance = membership.instance
        self._clock = clock
        self._listener = listener
        self._counters = ConsumerCounters()
        services, brokers = membership.instance.services, membership.brokers
        self.send_back = SendBack(
            brokers, membership.instance.routes, membership.group, config.namespace
        )
        retries = Retries(
            self.send_back, config.wire_retry_count_max, services, membership.note_error, on_exit
        )
        self._tracer = new_tracer(
            config.trace,
            config.name_server,
            f"{config.group[:_TRACED_GROUP_SIZE]}-CONSUME",
            credentials=config.credentials,
            tls=config.tls,
        )
        self.workers = self._new_workers(listener)
        self._feed_context = FeedContext(config, self.workers, retries, self._counters, clock)
        self._locks: QueueLocks | None = None
        if config.orderly and not config.broadcasting:
            self._locks = QueueLocks(brokers, membership.group, membership.instance.id, clock)
        self._may_pull = asyncio.Event()
        self._may_pull.set()
        reader_context = ReaderContext(
            config, membership.pull_context, membership.keeper, self._counters, self._may_pull
        )
        self.assignment: Assignment | PopAssignment
        if config.mode == "pop":
            self.assignment = self._new_pop_assignment()
        else:
            self.assignment = Assignment(
                membership, reader_context, self._feed_context, self._locks
            )

    async def open(self, timeout_s: float | None = None) -> None:
        """Returns when the first queues are read, or after a while.

        Raises RequestRefused when a broker does not support the filter of a subscription, and
        BadStateFile; with a timeout also what keeps it from consuming.
        """
        config = self.config
        await self.membership.open()
        if self._tracer is not None:
            await self._tracer.open()
        self.workers.start()
        services = self.membership.instance.services
        services.every("sample", SAMPLE_PERIOD_S, self._sample)
        if not config.orderly:
            limit = partial(keep_in_time, self.workers, config.consume_timeout_s, self._clock)
            services.run("limit listeners", limit, on_failure=OnFailure.RESTART)
        if self._locks is not None and isinstance(self.assignment, Assignment):
            renew = partial(self.assignment.keep_locked, self._locks)
            services.run("renew locks", renew, on_failure=OnFailure.RESTART)
        has_topics = any(not each.startswith(RETRY_PREFIX) for each in self.assignment.topics())
        await self.membership.join(self.assignment, timeout_s, has_topics=has_topics)

    async def close(self) -> None:
        """Waits for running listeners, stores offsets, releases queues and leaves the group."""
        self.membership.stop_balancing()
        for reader in self.assignment.readers.values():
            reader.loop.stop()
        try:
            await self.workers.stop(self.config.close_timeout_s)
            await self._feed_context.retries.until_idle(self.config.close_timeout_s)
            busy = {each.delivery.feed.queue for each in self.workers.running}
            await self.membership.leave(partial(self.assignment.leave_all, busy))
        finally:
            if self._tracer is not None:
                await self._tracer.close()
            await self.membership.instance.close()

    def pause(self) -> None:
        self._may_pull.clear()
        self.workers.pause()

    def resume(self) -> None:
        self._may_pull.set()
        self.workers.resume()

    def subscriptions_changed(self) -> None:
        self.assignment.drop_unsubscribed()
        self.membership.change()

    # Requests of brokers and operators.

    def move(self, queue: QueueRef, offset: int) -> None:
        reader = self.assignment.readers.get(queue)
        if reader is not None:
            reader.move(offset)

    def positions(self) -> dict[QueueRef, int]:
        return {queue: progress.offset for queue, progress in self._progress().items()}

    def running_info(self, *, has_stacks: bool) -> ConsumerRunningInfo:
        info = running_info(
            self.membership,
            own_properties(self.config, is_paused=not self._may_pull.is_set()),
            queue_infos(self.membership, self._locks, self._progress()),
            has_stacks=has_stacks,
        )
        info.status_table = topic_statuses(self._counters, self._clock.monotonic_s())
        info.held_messages = held_messages(self.workers.running, self._clock)
        return info

    async def consume_directly(self, message: ReceivedMessage) -> DirectConsumeResult:
        if self._listener is None:
            raise BadArgument("this consumer has no listener")
        argument = message if self.config.batch_size is None else [message]
        return await called_directly(
            self._listener, argument, self._clock, orderly=self.config.orderly
        )

    # Small things.

    def _new_workers(self, listener: Any) -> Workers:
        config, clock = self.config, self._clock
        watching = config.hooks if self._tracer is None else (*config.hooks, self._tracer)
        hooks = ConsumeHooks(watching, config.group, clock)
        is_batch = config.batch_size is not None
        if listener is None:
            return Iterations(hooks, clock, self.membership.note_error)
        if is_coroutine_function(listener):
            services = self.membership.instance.services
            return TaskWorkers(
                listener, config.concurrency, hooks, clock, services, is_batch=is_batch
            )
        return ThreadWorkers(listener, config.concurrency, hooks, clock, is_batch=is_batch)

    def _new_pop_assignment(self) -> PopAssignment:
        membership = self.membership
        instance = membership.instance
        popper = Popper(
            instance.requests,
            instance.routes,
            membership.group,
            self.config.namespace,
            POP_TIMEOUT_S,
        )
        context = PopContext(
            self.config,
            membership,
            popper,
            PopAnswers(popper, instance.services),
            self._feed_context,
            self._may_pull,
        )
        return PopAssignment(context)

    def _sample(self) -> None:
        self._counters.sample(self._clock.monotonic_s())

    def _progress(self) -> dict[QueueRef, PushProgress]:
        """Of the queues that it has started to read."""
        return {
            queue: progress
            for queue, reader in self.assignment.readers.items()
            if (progress := reader.progress()) is not None
        }

    def statistics(self) -> ConsumerStatistics:
        seen = partial(unwrapped, self.config.namespace)
        rates = self._counters.rates(self._clock.monotonic_s())
        return ConsumerStatistics(
            {seen(topic): counts for topic, counts in self._counters.counts().items()},
            {seen(topic): each for topic, each in rates.items()},
            {
                queue._replace(topic=seen(queue.topic)): progress
                for queue, progress in self._progress().items()
            },
            len(self.workers.running),
            self.membership.last_error,
        )


def retry_topic(group: str) -> str:
    return RETRY_PREFIX + group

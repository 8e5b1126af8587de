"""The pull consumer: a program polls messages when it wants some.

    consumer = AsyncPullConsumer("127.0.0.1:9876", "billing", auto_commit=False)
    consumer.subscribe("orders", tags="new || paid")
    async with consumer:
        while True:
            for message in await consumer.poll():
                ...
            await consumer.commit()

Queues are shared with the other members of the group, or the program assigns them itself. Messages
are prefetched in the background. There are no retries: a program that fails must seek, or close
without a commit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Unpack, final

from roquet.client.arguments import (
    check_count,
    check_function,
    check_number,
    check_offsets,
    check_queue,
    checked_queues,
    timestamp_ms,
)
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.pulling import Pulled, PullOrder, PullTerms
from roquet.client.errors import BadArgument, TopicNotFound
from roquet.client.group.config import NEVER
from roquet.client.group.subscriptions import Subscriptions, subscription_of
from roquet.client.lifecycle import AsyncResource, Lifecycle
from roquet.client.names import unwrapped, wrapped
from roquet.client.pull.config import PullConsumerConfig, PullConsumerOptions
from roquet.client.pull.member import (
    DELAY_S,
    OnTopicQueues,
    PullMember,
    PullSchedule,
    PullWork,
    Selection,
)
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock

POLL_TIMEOUT_S: Final = 5.0
PULL_COUNT: Final = 32

_WHAT: Final = "pull consumer"


@dataclass(frozen=True, slots=True)
class PullProgress:
    """`position` is the offset of the next poll; None is not known yet."""

    position: int | None
    lag: int | None
    cached_count: int
    is_paused: bool


@dataclass(frozen=True, slots=True)
class PullStatistics:
    """Counts of polled and prefetched messages, and the progress in each queue."""

    polled_count: int = 0
    cached_count: int = 0
    queues: Mapping[QueueRef, PullProgress] = field(default_factory=dict)
    last_error: str | None = None


@final
class AsyncPullConsumer(AsyncResource):
    """Returns messages when it is polled.

    Belongs to the event loop and the process that opened it.

    `options` are the members of `PullConsumerConfig`. Raises BadArgument, and BadAddress for a name
    server that is not "host:port"; several are joined by semicolons.

    For example:

        consumer = AsyncPullConsumer("127.0.0.1:9876", "archive", start_from=StartFrom.FIRST)
        consumer.subscribe("orders")
        async with consumer:
            messages = await consumer.poll(timeout_s=30)
            await consumer.commit()
    """

    def __init__(
        self, name_server: str | None, group: str, **options: Unpack[PullConsumerOptions]
    ) -> None:
        self._config = PullConsumerConfig(name_server=name_server, group=group, **options)
        self._clock = SystemClock()
        self._selection = Selection(Subscriptions(self._config.namespace))
        self._lifecycle = Lifecycle(
            _WHAT, lambda: PullMember(self._config, self._selection, self._clock)
        )

    async def open(self, timeout_s: float | None = None) -> None:
        """Joins the group, and returns when its first queues are known, or after three seconds.

        Raises NotOpen after `close`, RequestRefused when a broker does not support the filter of a
        subscription, and BadStateFile when the offsets of broadcasting cannot be read. Anything
        else that keeps it from consuming is logged and retried for ever; with `timeout_s` it is
        raised when the time is up: NoNameServer, TopicNotFound, Unreachable, RequestRefused or
        NothingToRead.
        """
        await self._lifecycle.open(timeout_s)

    async def close(self) -> None:
        """Leaves the group; a second time does nothing.

        The messages of the last poll are not committed: they may not have been processed.
        """
        await self._lifecycle.close()

    @property
    def last_error(self) -> str | None:
        """The last error, if there was one."""
        member = self._lifecycle.session
        return None if member is None else member.membership.last_error

    # Subscribing and assigning.

    def subscribe(
        self, topic: str, *, tags: str | Iterable[str] | None = None, sql: str | None = None
    ) -> None:
        """Reads a share of a topic: messages with tags such as "a || b", those that match an SQL92
        expression, or all. All members of a group must have the same subscriptions.

        Raises BadArgument, also when queues are assigned: a consumer does one or the other.
        """
        if self._selection.queues is not None:
            raise BadArgument("queues are assigned to this consumer; it cannot also subscribe")
        self._selection.subscriptions.add(topic, tags, sql, self._clock.now_ms())
        self._selection.topics.add(self._wire_topic(topic))
        self._update_member()

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription of a topic; one that does not exist is no error."""
        self._selection.subscriptions.remove(topic)
        self._selection.topics.discard(self._wire_topic(topic))
        self._update_member()

    def assign(
        self,
        queues: Iterable[QueueRef],
        *,
        tags: str | Iterable[str] | None = None,
        sql: str | None = None,
    ) -> None:
        """Reads exactly these queues in place of earlier ones. Use a group of its own: members that
        subscribe would leave a share to this one, whatever it reads.

        Raises BadArgument, also when topics are subscribed to.
        """
        if self._selection.topics:
            raise BadArgument("this consumer has subscriptions; it cannot also assign queues")
        queues = checked_queues("queues", queues)
        subscriptions = self._selection.subscriptions
        for topic in tuple(subscriptions.by_topic):
            subscriptions.remove(topic)
        for queue in queues:
            subscriptions.add(queue.topic, tags, sql, self._clock.now_ms())
        self._selection.queues = tuple(map(self._wire_queue, queues))
        self._update_member()

    def assignment(self) -> list[QueueRef]:
        """The queues that this member reads now. Raises NotOpen."""
        return self._lifecycle.usable().assignment()

    async def queues(self, topic: str) -> list[QueueRef]:
        """All queues that a topic can be read from. Raises TopicNotFound or NoNameServer."""
        route = await self._lifecycle.usable().membership.instance.routes.newest(
            self._wire_topic(topic)
        )
        if route is None:
            raise TopicNotFound(topic, "no broker has it")
        return [queue._replace(topic=topic) for queue in sorted(route.readable)]

    async def watch_queues(self, topic: str, on_queues: OnTopicQueues) -> list[QueueRef]:
        """All queues that a topic can be read from now, none if it does not exist; the function is
        called in the event loop when they change, with all of them.

        A topic has one such function, the last one. Raises TopicNotFound or NoNameServer.
        """
        check_function("on_queues", on_queues)
        return [*await self._lifecycle.usable().topic_watch.add(topic, on_queues)]

    def pause(self, queues: Iterable[QueueRef]) -> None:
        """Stops reading these queues until `resume`; prefetched messages are still polled.

        Raises BadArgument for queues that are not assigned.
        """
        self._pause(queues, is_paused=True)

    def resume(self, queues: Iterable[QueueRef]) -> None:
        """Continues where `pause` stopped. Raises BadArgument for queues that are not assigned."""
        self._pause(queues, is_paused=False)

    # Polling.

    async def poll(self, *, timeout_s: float = POLL_TIMEOUT_S) -> list[ReceivedMessage]:
        """The next messages, those of each queue in order; empty when the time is up.

        With `auto_commit` it acknowledges the messages of earlier polls.
        """
        check_number("timeout_s", timeout_s, 0, NEVER)
        return await self._lifecycle.usable().poll(timeout_s)

    async def seek(self, queue: QueueRef, offset: int) -> None:
        """Continues at another offset of an assigned queue.

        Raises BadArgument beyond its ends, Unreachable or RequestRefused.
        """
        check_count("offset", offset, 0)
        member = self._lifecycle.usable()
        wire_queue = self._wire_queue(queue)
        member.prefetcher(wire_queue)
        first = await self._brokers().min_offset(wire_queue)
        end = await self._brokers().max_offset(wire_queue)
        if not first <= offset <= end:
            raise BadArgument(f"{queue} has offsets from {first} to {end}, not {offset}", "offset")
        member.seek(wire_queue, offset)

    async def seek_to_begin(self, queue: QueueRef) -> None:
        """To the oldest message of the queue."""
        member = self._lifecycle.usable()
        wire_queue = self._wire_queue(queue)
        member.prefetcher(wire_queue)
        member.seek(wire_queue, await self._brokers().min_offset(wire_queue))

    async def seek_to_end(self, queue: QueueRef) -> None:
        """To the end of the queue: the next message that is sent to it."""
        member = self._lifecycle.usable()
        wire_queue = self._wire_queue(queue)
        member.prefetcher(wire_queue)
        member.seek(wire_queue, await self._brokers().max_offset(wire_queue))

    def position(self, queue: QueueRef) -> int | None:
        """The offset of the next poll in an assigned queue; None before it is known.

        Raises BadArgument.
        """
        return self._lifecycle.usable().prefetcher(self._wire_queue(queue)).position

    # Offsets.

    async def commit(self, offsets: Mapping[QueueRef, int] | None = None) -> None:
        """Stores where the group resumes: after the messages polled so far, or at these offsets.

        Raises Unreachable, RequestRefused or StateNotSaved; it can be called again.
        """
        if offsets is not None:
            check_offsets("offsets", offsets)
            offsets = {self._wire_queue(queue): offset for queue, offset in offsets.items()}
        await self._lifecycle.usable().commit(offsets)

    async def committed(self, queue: QueueRef) -> int | None:
        """The offset where the group resumes in a queue; None if it never committed there."""
        await self._find_broker(queue)
        return await self._lifecycle.usable().committed(self._wire_queue(queue))

    async def offset_for_time(self, queue: QueueRef, moment: datetime) -> int:
        """The offset of the first message that is not older.

        Raises BadArgument without a time zone.
        """
        await self._find_broker(queue)
        moment_ms = timestamp_ms(moment)
        return await self._brokers().offset_at(self._wire_queue(queue), moment_ms)

    async def begin_offset(self, queue: QueueRef) -> int:
        """The offset of the oldest message of the queue."""
        await self._find_broker(queue)
        return await self._brokers().min_offset(self._wire_queue(queue))

    async def end_offset(self, queue: QueueRef) -> int:
        """The offset that the next message will get."""
        await self._find_broker(queue)
        return await self._brokers().max_offset(self._wire_queue(queue))

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        *,
        count_max: int = PULL_COUNT,
        tags: str | Iterable[str] | None = None,
        sql: str | None = None,
        wait_s: float = 0.0,
    ) -> Pulled:
        """Pulls once from any queue; it does not affect `poll`, and commits nothing.

        With `wait_s` the broker waits that long for a message. The reply has the next offset.
        Raises BadArgument, TopicNotFound, NoNameServer, Unreachable or RequestRefused.
        """
        check_count("offset", offset, 0)
        check_count("count_max", count_max)
        check_number("wait_s", wait_s, 0, NEVER)
        await self._find_broker(queue)
        wire_queue = self._wire_queue(queue)
        subscription = subscription_of(wire_queue.topic, tags, sql)
        terms = PullTerms(subscription, count_max, wait_s, sends_subscription=True)
        order = PullOrder(wire_queue, terms, offset)
        return await self._lifecycle.usable().membership.puller.pull(order)

    def schedule(self, work: PullWork, *, delay_s: float = DELAY_S) -> None:
        """Calls `work` with each queue that is assigned now or later, again and again until the
        queue is lost or the consumer closed. `work` returns the seconds to wait; None is `delay_s`.

        Raises NotOpen, and BadArgument unless the consumer was made with `prefetch=False`.
        """
        check_function("work", work)
        member = self._lifecycle.usable()
        if self._config.prefetch:
            raise BadArgument("a schedule needs a consumer with `prefetch=False`", "prefetch")
        if member.schedule is not None:
            raise BadArgument("this consumer has a schedule already, and there is only one")
        member.schedule = PullSchedule(work, delay_s, member.membership.instance.services)
        member.schedule.follow(member.assignment())

    def statistics(self) -> PullStatistics:
        """Counts, and the progress in each queue."""
        member = self._lifecycle.session
        if member is None:
            return PullStatistics()
        namespace = self._config.namespace
        queues = {
            queue._replace(topic=unwrapped(namespace, queue.topic)): PullProgress(
                each.position, each.lag, each.cached_count, each.is_paused
            )
            for queue, each in member.prefetchers.items()
        }
        return PullStatistics(
            member.polled_count, member.cache.count, queues, member.membership.last_error
        )

    # How it is done.

    def _pause(self, queues: Iterable[QueueRef], *, is_paused: bool) -> None:
        member = self._lifecycle.usable()
        # All of them are found before the first one is changed.
        chosen = checked_queues("queues", queues)
        for prefetcher in [member.prefetcher(self._wire_queue(each)) for each in chosen]:
            prefetcher.pause(is_paused=is_paused)

    def _brokers(self) -> Brokers:
        return self._lifecycle.usable().membership.brokers

    async def _find_broker(self, queue: QueueRef) -> None:
        """Finds the broker of a queue. Raises TopicNotFound or NoNameServer."""
        check_queue("queue", queue)
        routes = self._lifecycle.usable().membership.instance.routes
        if await routes.existing(self._wire_topic(queue.topic)) is None:
            raise TopicNotFound(queue.topic, "no broker has it")

    def _update_member(self) -> None:
        if self._lifecycle.session is not None:
            self._lifecycle.usable().membership.change()

    def _wire_topic(self, topic: str) -> str:
        return wrapped(self._config.namespace, topic)

    def _wire_queue(self, queue: QueueRef) -> QueueRef:
        check_queue("queue", queue)
        return queue._replace(topic=self._wire_topic(queue.topic))

"""The pull consumer: a program asks for messages when it wants some.

    consumer = AsyncPullConsumer("127.0.0.1:9876", "billing", auto_commit=False)
    consumer.subscribe("orders", tags="new || paid")
    async with consumer:
        while True:
            for message in await consumer.poll():
                ...
            await consumer.commit()

Queues are shared with the other members of the group, or the program assigns them itself. What
comes next is read ahead in the background. Nothing is tried again: a program that fails has to
seek, or to leave without a commit.
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
)
from roquet.client.cluster.brokers import Brokers
from roquet.client.errors import BadArgument, TopicNotFound
from roquet.client.group.config import NEVER
from roquet.client.group.lifetime import Lifetime
from roquet.client.group.pulling import Pulled, PullOrder, PullTerms
from roquet.client.group.subscriptions import Subscriptions, subscription_of
from roquet.client.lifecycle import AsyncResource
from roquet.client.moments import timestamp_ms
from roquet.client.names import unwrapped, wrapped
from roquet.client.pull.config import PullConsumerConfig, PullConsumerOptions
from roquet.client.pull.member import PullMember, Wishes
from roquet.client.pull.schedule import DELAY_S, PullSchedule, PullWork
from roquet.client.pull.topic_watch import OnTopicQueues
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock

POLL_TIMEOUT_S: Final = 5.0
PULL_COUNT: Final = 32

_WHAT: Final = "pull consumer"


@dataclass(frozen=True, slots=True)
class PullProgress:
    """`position` is what comes next for the program; what is not known yet is None."""

    position: int | None
    lag: int | None
    cached_count: int
    is_paused: bool


@dataclass(frozen=True, slots=True)
class PullStatistics:
    """What a pull consumer has handed out and holds ready, and how far it is in each queue."""

    polled_count: int = 0
    cached_count: int = 0
    queues: Mapping[QueueRef, PullProgress] = field(default_factory=dict)
    last_error: str | None = None


@final
class AsyncPullConsumer(AsyncResource):
    """Gives messages when it is asked.

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
        self._wishes = Wishes(Subscriptions(self._config.namespace))
        self._life = Lifetime(_WHAT, lambda: PullMember(self._config, self._wishes, self._clock))

    async def open(self, timeout_s: float | None = None) -> None:
        """Joins the group, and returns when the first queues are known; they may also come later.

        Raises NotOpen after `close`, RequestRefused when a broker cannot filter as it should, and
        BadStateFile when the offsets of broadcasting cannot be read. What is in its way is logged
        once and tried again for ever; with `timeout_s` it is raised instead when the time is up:
        NoNameServer, TopicNotFound, Unreachable, RequestRefused or NothingToRead.
        """
        await self._life.open(timeout_s)

    async def close(self) -> None:
        """Leaves the group; a second time does nothing.

        What the last poll gave is not committed, for nobody knows whether it was done.
        """
        await self._life.close()

    @property
    def last_error(self) -> str | None:
        """The last thing that went wrong, if anything did."""
        member = self._life.member
        return None if member is None else member.membership.last_error

    # What is read.

    def subscribe(self, topic: str, *, tags: str | None = None, sql: str | None = None) -> None:
        """Reads a share of a topic: messages with tags such as "a || b", those that an SQL92
        expression picks, or all. All members of a group have to want the same.

        Raises BadArgument, also when queues are assigned: a consumer does one or the other.
        """
        if self._wishes.queues is not None:
            raise BadArgument("queues are assigned to this consumer; it cannot also share topics")
        self._wishes.subscriptions.add(topic, tags, sql, self._clock.now_ms())
        self._wishes.topics.add(self._wire_topic(topic))
        self._tell_member()

    def unsubscribe(self, topic: str) -> None:
        """Reads no more of a topic; one that is not read is no error."""
        self._wishes.subscriptions.remove(topic)
        self._wishes.topics.discard(self._wire_topic(topic))
        self._tell_member()

    def assign(
        self, queues: Iterable[QueueRef], *, tags: str | None = None, sql: str | None = None
    ) -> None:
        """Reads exactly these queues in place of earlier ones. The group should be its own: members
        that share topics would leave a share to this one, whatever it reads.

        Raises BadArgument, also when topics are subscribed to.
        """
        if self._wishes.topics:
            raise BadArgument("this consumer shares topics; queues cannot also be assigned to it")
        queues = checked_queues("queues", queues)
        subscriptions = self._wishes.subscriptions
        for topic in tuple(subscriptions.by_topic):
            subscriptions.remove(topic)
        for queue in queues:
            subscriptions.add(queue.topic, tags, sql, self._clock.now_ms())
        self._wishes.queues = tuple(map(self._wire_queue, queues))
        self._tell_member()

    def assignment(self) -> list[QueueRef]:
        """The queues that this member reads now. Raises NotOpen."""
        return self._life.usable().assignment()

    async def queues(self, topic: str) -> list[QueueRef]:
        """All queues that a topic can be read from. Raises TopicNotFound or NoNameServer."""
        route = await self._life.usable().membership.instance.routes.newest(self._wire_topic(topic))
        if route is None:
            raise TopicNotFound(topic, "no broker has it")
        return [queue._replace(topic=topic) for queue in sorted(route.readable)]

    async def watch_queues(self, topic: str, on_queues: OnTopicQueues) -> list[QueueRef]:
        """All queues that any topic can be read from now, none if there is no such topic; the
        function is called in the event loop when it has others, and gets all of them.

        A topic has one such function, the last one. Raises TopicNotFound or NoNameServer.
        """
        check_function("on_queues", on_queues)
        return [*await self._life.usable().topic_watch.add(topic, on_queues)]

    def pause(self, queues: Iterable[QueueRef]) -> None:
        """Reads no more of these until `resume`; what is here already is still polled.

        Raises BadArgument for queues that are not assigned.
        """
        self._pause(queues, is_paused=True)

    def resume(self, queues: Iterable[QueueRef]) -> None:
        """Reads on where `pause` stopped. Raises BadArgument for queues that are not assigned."""
        self._pause(queues, is_paused=False)

    # Reading.

    async def poll(self, *, timeout_s: float = POLL_TIMEOUT_S) -> list[ReceivedMessage]:
        """The next messages, those of each queue in their order; empty when the time is up.

        With `auto_commit` it says that the program is done with what earlier polls gave.
        """
        check_number("timeout_s", timeout_s, 0, NEVER)
        return await self._life.usable().poll(timeout_s)

    async def seek(self, queue: QueueRef, offset: int) -> None:
        """Goes on elsewhere in an assigned queue.

        Raises BadArgument beyond its ends, Unreachable or RequestRefused.
        """
        check_count("offset", offset, 0)
        member = self._life.usable()
        wire_queue = self._wire_queue(queue)
        member.prefetcher(wire_queue)
        first = await self._brokers().min_offset(wire_queue)
        end = await self._brokers().max_offset(wire_queue)
        if not first <= offset <= end:
            raise BadArgument(f"{queue} goes from {first} to {end}; {offset} is not there")
        member.seek(wire_queue, offset)

    async def seek_to_begin(self, queue: QueueRef) -> None:
        """To the oldest message that is still there."""
        member = self._life.usable()
        wire_queue = self._wire_queue(queue)
        member.prefetcher(wire_queue)
        member.seek(wire_queue, await self._brokers().min_offset(wire_queue))

    async def seek_to_end(self, queue: QueueRef) -> None:
        """To the message that comes next."""
        member = self._life.usable()
        wire_queue = self._wire_queue(queue)
        member.prefetcher(wire_queue)
        member.seek(wire_queue, await self._brokers().max_offset(wire_queue))

    def position(self, queue: QueueRef) -> int | None:
        """The offset that comes next in an assigned queue; None before it is known.

        Raises BadArgument.
        """
        return self._life.usable().prefetcher(self._wire_queue(queue)).position

    # Offsets.

    async def commit(self, offsets: Mapping[QueueRef, int] | None = None) -> None:
        """The group goes on there when it starts again: behind everything that was polled, or at
        these offsets. Raises Unreachable, RequestRefused or StateNotSaved; it can be tried again.
        """
        if offsets is not None:
            check_offsets("offsets", offsets)
            offsets = {self._wire_queue(queue): offset for queue, offset in offsets.items()}
        await self._life.usable().commit(offsets)

    async def committed(self, queue: QueueRef) -> int | None:
        """Where the group goes on in a queue; None if it never was there."""
        await self._know(queue)
        return await self._life.usable().committed(self._wire_queue(queue))

    async def offset_for_time(self, queue: QueueRef, moment: datetime) -> int:
        """Of the first message that is not older. Raises BadArgument without a time zone."""
        await self._know(queue)
        moment_ms = timestamp_ms(moment)
        return await self._brokers().offset_at(self._wire_queue(queue), moment_ms)

    async def begin_offset(self, queue: QueueRef) -> int:
        """Of the oldest message that is still there."""
        await self._know(queue)
        return await self._brokers().min_offset(self._wire_queue(queue))

    async def end_offset(self, queue: QueueRef) -> int:
        """Of the message that comes next."""
        await self._know(queue)
        return await self._brokers().max_offset(self._wire_queue(queue))

    async def pull(
        self,
        queue: QueueRef,
        offset: int,
        *,
        count_max: int = PULL_COUNT,
        tags: str | None = None,
        sql: str | None = None,
        wait_s: float = 0.0,
    ) -> Pulled:
        """Asks a broker once, for any queue; `poll` knows nothing of it, and nothing is committed.

        With `wait_s` the broker waits that long for a message. The answer says where to go on.
        Raises BadArgument, TopicNotFound, NoNameServer, Unreachable or RequestRefused.
        """
        check_count("offset", offset, 0)
        check_count("count_max", count_max)
        check_number("wait_s", wait_s, 0, NEVER)
        await self._know(queue)
        wire_queue = self._wire_queue(queue)
        subscription = subscription_of(wire_queue.topic, tags, sql)
        terms = PullTerms(subscription, count_max, wait_s, says_subscription=True)
        order = PullOrder(wire_queue, terms, offset)
        return await self._life.usable().membership.puller.pull(order)

    def schedule(self, work: PullWork, *, delay_s: float = DELAY_S) -> None:
        """Calls `work` with each queue that is assigned now or later, again and again until it is
        lost or the consumer closed. It returns the seconds to wait; None is `delay_s`.

        Raises NotOpen, and BadArgument unless the consumer was made with `prefetch=False`.
        """
        check_function("work", work)
        member = self._life.usable()
        if self._config.prefetch or member.schedule is not None:
            raise BadArgument("one schedule needs one consumer, made with `prefetch=False`")
        member.schedule = PullSchedule(work, delay_s, member.membership.instance.services)
        member.schedule.follow(member.assignment())

    def statistics(self) -> PullStatistics:
        """What was done so far, and how far it is."""
        member = self._life.member
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
        member = self._life.usable()
        # All of them are found before the first one is touched.
        chosen = checked_queues("queues", queues)
        for prefetcher in [member.prefetcher(self._wire_queue(each)) for each in chosen]:
            prefetcher.pause(is_paused=is_paused)

    def _brokers(self) -> Brokers:
        return self._life.usable().membership.brokers

    async def _know(self, queue: QueueRef) -> None:
        """Where the broker of a queue is. Raises TopicNotFound or NoNameServer."""
        check_queue("queue", queue)
        routes = self._life.usable().membership.instance.routes
        if await routes.existing(self._wire_topic(queue.topic)) is None:
            raise TopicNotFound(queue.topic, "no broker has it")

    def _tell_member(self) -> None:
        if self._life.member is not None:
            self._life.usable().membership.change()

    def _wire_topic(self, topic: str) -> str:
        return wrapped(self._config.namespace, topic)

    def _wire_queue(self, queue: QueueRef) -> QueueRef:
        check_queue("queue", queue)
        return queue._replace(topic=self._wire_topic(queue.topic))

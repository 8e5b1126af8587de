"""The topic reader: what topics have, read without being a member of anything.

    async with AsyncTopicReader("127.0.0.1:9876") as reader:
        queues = await reader.queues("orders")
        for queue, (start, end) in (await reader.bounds(queues)).items():
            async for chunk in reader.records(queue, start, end):
                decode_records(chunk.data)

It joins no group, so nobody's queues move because of it, and keeps no offsets but those that it is
told to commit. Any number of them may read the same, in as many processes.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple, TypeVar, Unpack, final

from roquet.client.admin.servers import AdminConfig, AdminServers
from roquet.client.admin.topics import list_topics
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.routes import MASTER_ID
from roquet.client.cluster.visit import Visit
from roquet.client.errors import BadArgument, TopicNotFound
from roquet.client.group.pulling import Puller
from roquet.client.lifecycle import AsyncResource
from roquet.client.moments import moment_of, timestamp_ms
from roquet.client.names import wrapped
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.chunk import RecordChunk
from roquet.client.reader.config import TopicReaderConfig, TopicReaderOptions
from roquet.client.reader.group_making import GroupMaker
from roquet.client.reader.reading import RangeReading, ReadAheadLimits, ReadOrder
from roquet.client.reader.retrying_puller import RetryingPuller
from roquet.client.reader.time_search import TimeSearch
from roquet.protocol.subscription import Subscription

_WHAT: Final = "topic reader"

ALL: Final = Subscription("")

T = TypeVar("T")


class Bounds(NamedTuple):
    """Messages have offsets from the first one on, but before the second."""

    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class _Tools:
    """What it reads with."""

    instance: ClientInstance
    servers: AdminServers
    brokers: Brokers
    puller: RetryingPuller
    times: TimeSearch
    groups: GroupMaker


@final
class AsyncTopicReader(AsyncResource):
    """Reads topics without a group, and moves nobody's offsets.

    Belongs to the event loop and the process that opened it.

    `options` are the members of `TopicReaderConfig`. Whatever asks servers raises NoNameServer,
    TopicNotFound, Unreachable or RequestRefused; what else may happen, each method says.

    For example:

        async with AsyncTopicReader("127.0.0.1:9876") as reader:
            bounds = await reader.bounds(await reader.queues("orders"))
            print(sum(end - begin for begin, end in bounds.values()))
    """

    def __init__(
        self, name_server: str | None = None, **options: Unpack[TopicReaderOptions]
    ) -> None:
        self._config = TopicReaderConfig(name_server=name_server, **options)
        self._visit = Visit(_WHAT, self._config, self._new_tools)

    async def open(self) -> None:
        """Nobody is asked yet. Raises NotOpen after `close`."""
        await self._visit.open()

    async def close(self) -> None:
        """Ends what is being read, too; a second time does nothing."""
        await self._visit.close()

    # What there is.

    async def topics(self, pattern: str | None = None) -> list[str]:
        """Those of programs, whose whole name matches a regular expression, if there is one.

        Raises BadArgument.
        """
        try:
            is_wanted = re.compile(pattern or ".*").fullmatch
        except re.error as error:
            raise BadArgument(f"`pattern` {pattern!r}: {error}") from None
        topics = await list_topics(self._visit.usable().servers, None, with_internal=False)
        return [topic for topic in topics if is_wanted(topic)]

    async def queues(self, topic: str) -> list[QueueRef]:
        """Those that can be read now."""
        tools = self._visit.usable()
        wire_topic = self._wire_name(topic)
        route = await tools.instance.routes.newest(wire_topic, self._config.timeout_s)
        if route is None:
            raise TopicNotFound(topic, "no broker has it")
        return [queue._replace(topic=topic) for queue in route.readable]

    async def bounds(self, queues: Iterable[QueueRef]) -> dict[QueueRef, Bounds]:
        """What they have now, all asked at the same time."""
        brokers = self._visit.usable().brokers

        async def ask(queue: QueueRef) -> Bounds:
            return Bounds(
                *await asyncio.gather(brokers.min_offset(queue), brokers.max_offset(queue))
            )

        return await self._each(queues, ask)

    async def offsets_at(self, queues: Iterable[QueueRef], moment: datetime) -> dict[QueueRef, int]:
        """Of the first message that was stored at that moment or later; behind the last one if
        there is none. Raises BadArgument for a moment without a time zone.
        """
        times = self._visit.usable().times
        wanted_ms = timestamp_ms(moment)
        return await self._each(queues, lambda queue: times.first_at(queue, wanted_ms))

    async def earliest_store_times(
        self, queues: Iterable[QueueRef]
    ) -> dict[QueueRef, datetime | None]:
        """When the oldest message that is still there was stored; None for an empty queue.

        It is another one in a topic that was deleted and made anew.
        """
        found = await self._each(queues, self._visit.usable().brokers.earliest_ms)
        return {queue: moment_of(time_ms) for queue, time_ms in found.items()}

    # Offsets of groups.

    async def committed(self, group: str, queues: Iterable[QueueRef]) -> dict[QueueRef, int | None]:
        """Where a group goes on; None in a queue where it never was."""
        brokers = self._visit.usable().brokers
        wire_group = self._wire_name(group)
        return await self._each(queues, lambda queue: brokers.committed(wire_group, queue))

    async def commit(self, group: str, offsets: Mapping[QueueRef, int]) -> None:
        """Moves a group, for brokers' tools to show how far it is. Nobody should be in it.

        A group that no broker knows is made: a heartbeat does that, and is taken back at once.
        """
        tools = self._visit.usable()
        wire_group = self._wire_name(group)
        wire_offsets = {self._wire_queue(queue): offset for queue, offset in offsets.items()}
        await self._know_brokers(wire_offsets)
        await tools.groups.make(wire_group, {queue.broker_name for queue in wire_offsets})
        await asyncio.gather(
            *(tools.brokers.commit(wire_group, *each) for each in wire_offsets.items())
        )

    # Records.

    async def records(
        self,
        queue: QueueRef,
        start: int,
        end: int,
        *,
        subscription: Subscription = ALL,
        skip_gone: bool = False,
    ) -> AsyncGenerator[RecordChunk, None]:
        """What lies from offset `start` on, but before `end`, in chunks of whole records.

        `subscription_of` makes a subscription; its topic does not matter. Filters work at the
        broker and are applied again behind it. Several pulls are on their way at the same time; a
        broker may be away for as long as `patience_s`, and without its master a slave is read.

        Raises OffsetsGone for messages that are not there, or not any more, after what comes
        before them, unless `skip_gone`: then they are passed over. BadArgument for a subscription
        that cannot be compiled.
        """
        tools = self._visit.usable()
        if start < 0:
            raise BadArgument(f"`start` has to be 0 or more, not {start}")
        wire_queue = self._wire_queue(queue)
        config = self._config
        reading = RangeReading(
            tools.puller,
            tools.instance.services,
            ReadOrder(wire_queue, start, end, subscription, skip_gone),
            ReadAheadLimits(config.in_flight, config.ahead_size),
            queue,
        )
        if start >= end:
            return
        await self._know_brokers([wire_queue])
        try:
            while (chunk := await reading.next_chunk()) is not None:
                yield chunk
        finally:
            reading.close()

    # How it is done.

    def _new_tools(self, instance: ClientInstance) -> _Tools:
        config = self._config
        routes = instance.routes
        brokers = Brokers(instance.requests, routes, config.timeout_s, asks_slaves=True)
        puller = RetryingPuller(
            Puller(instance.requests, routes, wrapped(config.namespace, config.group)),
            routes,
            config.patience_s,
        )
        servers = AdminServers(
            instance,
            AdminConfig(
                name_server=config.name_server,
                namespace=config.namespace,
                timeout_s=config.timeout_s,
            ),
        )
        return _Tools(
            instance,
            servers,
            brokers,
            puller,
            TimeSearch(brokers, puller),
            GroupMaker(brokers, routes, instance.id),
        )

    def _wire_name(self, name: str) -> str:
        return wrapped(self._config.namespace, name)

    def _wire_queue(self, queue: QueueRef) -> QueueRef:
        return queue._replace(topic=self._wire_name(queue.topic))

    async def _know_brokers(self, wire_queues: Iterable[QueueRef]) -> None:
        """Finds the brokers of queues that somebody else may have asked for."""
        routes = self._visit.usable().instance.routes
        unknown = {
            queue.topic
            for queue in wire_queues
            if MASTER_ID not in routes.broker(queue.broker_name)
        }
        for topic in unknown:
            if await routes.newest(topic, self._config.timeout_s) is None:
                raise TopicNotFound(topic, "no broker has it")

    async def _each(
        self, queues: Iterable[QueueRef], ask: Callable[[QueueRef], Awaitable[T]]
    ) -> dict[QueueRef, T]:
        """The answers, by the names that the caller gave; `ask` gets those of brokers."""
        names = list(queues)
        wire_queues = [self._wire_queue(queue) for queue in names]
        await self._know_brokers(wire_queues)
        answers = await asyncio.gather(*map(ask, wire_queues))
        return dict(zip(names, answers, strict=True))

"""The topic reader: reads topics without joining a group.

    async with AsyncTopicReader("127.0.0.1:9876") as reader:
        async for message in reader.messages("orders"):
            print(message.keys, message.body)

It joins no group, so no queues are rebalanced because of it, and stores only offsets that are
passed to `commit`. Any number of readers may read the same topic, in any number of processes.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict, TypeVar, Unpack, final

from roquet.client.admin.servers import AdminConfig, AdminServers
from roquet.client.admin.topics import list_topics
from roquet.client.arguments import bad, check_moment, moment_of, timestamp_ms
from roquet.client.cluster.brokers import Brokers
from roquet.client.cluster.instance import ClientInstance, ToolSession
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.cluster.pulling import Puller
from roquet.client.cluster.routes import MASTER_ID, RouteBook
from roquet.client.config import Credentials, TlsConfig
from roquet.client.errors import BadArgument, TopicNotFound
from roquet.client.lifecycle import AsyncResource, Lifecycle
from roquet.client.names import check_group, wrapped
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.chunk import RecordChunk
from roquet.client.reader.frames import check_columns, decode_chunk, polars_frame, table_of
from roquet.client.reader.range_reader import RangeReader, ReadAheadLimits, ReadOrder
from roquet.client.reader.retrying_puller import RetryingPuller
from roquet.client.reader.time_search import TimeSearch
from roquet.client.received import ReceivedMessage, received_messages
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.clients import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
)
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import AddressedHeader
from roquet.protocol.headers.groups import UnregisterClientHeader
from roquet.protocol.names import RETRY_PREFIX
from roquet.protocol.subscription import Subscription

if TYPE_CHECKING:
    import pyarrow as pa

# Every broker has this group, for tools that read messages and keep no offsets.
TOOLS_GROUP: Final = "TOOLS_CONSUMER"


class TopicReaderOptions(TypedDict, total=False):
    """Options of a topic reader besides its name server; `TopicReaderConfig` explains them."""

    group: str
    namespace: str | None
    credentials: Credentials | None
    tls: TlsConfig | bool
    timeout_s: float
    patience_s: float
    in_flight: int
    ahead_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicReaderConfig:
    """Settings of a topic reader; its members are its options.

    For example:

        TopicReader("127.0.0.1:9876", timeout_s=10.0, patience_s=120.0)
    """

    # "host:port", several of them joined by semicolons, or "http://host:port/path" of a server that
    # lists them; None takes NAMESRV_ADDR of the environment.
    name_server: str | None
    # For access control and statistics. The reader does not join it, nor move its offsets.
    group: str = TOOLS_GROUP
    # Names of topics and groups are relative to it.
    namespace: str | None = None
    credentials: Credentials | None = None
    # True encrypts with the defaults of `TlsConfig`.
    tls: TlsConfig | bool = False
    # How long a server may take to answer a request.
    timeout_s: float = 5.0
    # How long a broker may be down or overloaded while records are read.
    patience_s: float = 60.0
    # Concurrent pulls of one `records` call.
    in_flight: int = 32
    # Bytes that one `records` call may have buffered or in flight.
    ahead_size: int = 8 * 1024 * 1024

    def __post_init__(self) -> None:
        """Raises BadArgument, and BadAddress for the name server."""
        name_server_source(self.name_server)
        check_group(self.group)
        for name in _POSITIVE:
            if (value := getattr(self, name)) <= 0:
                raise bad(name, "more than 0", value)


_POSITIVE: Final = ("timeout_s", "patience_s", "in_flight", "ahead_size")


_WHAT: Final = "topic reader"

ALL: Final = Subscription("")

T = TypeVar("T")


class Bounds(NamedTuple):
    """The messages of a queue have offsets from `min_offset` to before `max_offset`."""

    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class _Tools:
    """What it works with while it is open."""

    instance: ClientInstance
    servers: AdminServers
    brokers: Brokers
    puller: RetryingPuller
    times: TimeSearch
    groups: "GroupCreator"


@final
class AsyncTopicReader(AsyncResource):
    """Reads topics without a group, and moves no offsets.

    Belongs to the event loop and the process that opened it.

    `options` are the members of `TopicReaderConfig`. Methods that ask servers raise NoNameServer,
    TopicNotFound, Unreachable or RequestRefused; other errors are listed at each method.

    For example:

        async with AsyncTopicReader("127.0.0.1:9876") as reader:
            bounds = await reader.bounds(await reader.queues("orders"))
            print(sum(end - start for start, end in bounds.values()))
    """

    def __init__(
        self, name_server: str | None = None, **options: Unpack[TopicReaderOptions]
    ) -> None:
        self._config = TopicReaderConfig(name_server=name_server, **options)
        self._lifecycle = Lifecycle(
            _WHAT, lambda: ToolSession(_WHAT, self._config, self._new_tools)
        )

    async def open(self) -> None:
        """Asks no server yet. Raises NotOpen after `close`."""
        await self._lifecycle.open()

    async def close(self) -> None:
        """Ends running reads, too; a second time does nothing."""
        await self._lifecycle.close()

    # Topics, queues and their bounds.

    async def topics(self, pattern: str | None = None) -> list[str]:
        """Topics of programs; with a regular expression those whose whole name matches it.

        Raises BadArgument.
        """
        try:
            is_wanted = re.compile(pattern or ".*").fullmatch
        except re.error as error:
            raise BadArgument(f"`pattern` {pattern!r}: {error}", "pattern") from None
        topics = await list_topics(self._tools().servers, None, with_internal=False)
        return [topic for topic in topics if is_wanted(topic)]

    async def queues(self, topic: str) -> list[QueueRef]:
        """The queues of a topic that can be read now."""
        tools = self._tools()
        wire_topic = self._wire_name(topic)
        route = await tools.instance.routes.newest(wire_topic, self._config.timeout_s)
        if route is None:
            raise TopicNotFound(topic, "no broker has it")
        return [queue._replace(topic=topic) for queue in route.readable]

    async def bounds(self, queues: Iterable[QueueRef]) -> dict[QueueRef, Bounds]:
        """Their bounds now, asked concurrently."""
        brokers = self._tools().brokers

        async def ask(queue: QueueRef) -> Bounds:
            return Bounds(
                *await asyncio.gather(brokers.min_offset(queue), brokers.max_offset(queue))
            )

        return await self._each(queues, ask)

    async def offsets_at(self, queues: Iterable[QueueRef], moment: datetime) -> dict[QueueRef, int]:
        """The offset of the first message that was stored at that moment or later; the end of the
        queue if there is none. Raises BadArgument for a moment without a time zone.
        """
        times = self._tools().times
        wanted_ms = timestamp_ms(moment)
        return await self._each(queues, lambda queue: times.first_at(queue, wanted_ms))

    async def earliest_store_times(
        self, queues: Iterable[QueueRef]
    ) -> dict[QueueRef, datetime | None]:
        """When the oldest message of each queue was stored; None for an empty queue.

        It differs in a topic that was deleted and created again.
        """
        found = await self._each(queues, self._tools().brokers.earliest_ms)
        return {queue: moment_of(time_ms) for queue, time_ms in found.items()}

    # Offsets of groups.

    async def committed(self, group: str, queues: Iterable[QueueRef]) -> dict[QueueRef, int | None]:
        """The offsets where a group resumes; None in a queue where it never committed."""
        brokers = self._tools().brokers
        wire_group = self._wire_name(group)
        return await self._each(queues, lambda queue: brokers.committed(wire_group, queue))

    async def commit(self, group: str, offsets: Mapping[QueueRef, int]) -> None:
        """Sets the offsets of a group, for brokers' tools to show its progress. It should have no
        members.

        A group that no broker knows is created: by a heartbeat, which is unregistered at once.
        """
        tools = self._tools()
        wire_group = self._wire_name(group)
        wire_offsets = {self._wire_queue(queue): offset for queue, offset in offsets.items()}
        await self._find_brokers(wire_offsets)
        await tools.groups.create(wire_group, {queue.broker_name for queue in wire_offsets})
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
        """The records from offset `start` to before `end`, in chunks of whole records.

        `subscription_of` makes a subscription; its topic is ignored. Filters work at the broker
        and are applied again here. Several pulls are in flight at the same time; a broker may be
        down for up to `patience_s`, and while a master is down its slave is read.

        Raises OffsetsGone for messages that are not stored, after the records before them, unless
        `skip_gone`: then they are skipped. BadArgument for a subscription that cannot be compiled.
        """
        tools = self._tools()
        if start < 0:
            raise bad("start", "0 or more", start)
        wire_queue = self._wire_queue(queue)
        config = self._config
        reading = RangeReader(
            tools.puller,
            tools.instance.services,
            ReadOrder(wire_queue, start, end, subscription, skip_gone),
            ReadAheadLimits(config.in_flight, config.ahead_size),
            queue,
        )
        if start >= end:
            return
        await self._find_brokers([wire_queue])
        try:
            while (chunk := await reading.next_chunk()) is not None:
                yield chunk
        finally:
            reading.close()

    async def messages(
        self,
        topic: str,
        *,
        since: datetime | None = None,
        subscription: Subscription = ALL,
        skip_gone: bool = False,
    ) -> AsyncGenerator[ReceivedMessage, None]:
        """The messages that a topic has now: queue by queue, in the order of each queue; with
        `since` those that were stored at that moment or later.

        `subscription` and `skip_gone` are as in `records`. Raises as `queues`, `offsets_at` and
        `records` do.
        """
        batches = self._batches(topic, since, subscription, skip_gone=skip_gone)
        async with aclosing(batches):
            async for batch in batches:
                for message in batch:
                    yield message

    # Tables.

    async def to_arrow(
        self,
        topic: str,
        columns: Sequence[str] | None = None,
        *,
        since: datetime | None = None,
        subscription: Subscription = ALL,
        skip_gone: bool = False,
    ) -> "pa.Table":
        """The messages that a topic has now as an Arrow table, all of them in memory.

        `columns` are those of Spark's format `rocketmq`: fewer are quicker. The rest is as in
        `messages`. Raises ImportError without numpy and pyarrow (`pip install roquet[sql]`),
        BadArgument for an unknown column, and as `messages` does.
        """
        wanted = check_columns(columns)
        chunks = self._chunks(topic, since, subscription, skip_gone=skip_gone)
        async with aclosing(chunks):
            batches = [decode_chunk(chunk, wanted) async for chunk in chunks if chunk.count]
        return table_of(batches, wanted, topic)

    async def to_pandas(
        self, topic: str, columns: Sequence[str] | None = None, *, since: datetime | None = None
    ) -> Any:
        """As `to_arrow`, as a DataFrame of pandas."""
        return (await self.to_arrow(topic, columns, since=since)).to_pandas()

    async def to_polars(
        self, topic: str, columns: Sequence[str] | None = None, *, since: datetime | None = None
    ) -> Any:
        """As `to_arrow`, as a DataFrame of polars, in which properties are lists of pairs."""
        return polars_frame(await self.to_arrow(topic, columns, since=since))

    # How it is done.

    async def _batches(
        self, topic: str, since: datetime | None, subscription: Subscription, *, skip_gone: bool
    ) -> AsyncGenerator[list[ReceivedMessage], None]:
        chunks = self._chunks(topic, since, subscription, skip_gone=skip_gone)
        async with aclosing(chunks):
            async for chunk in chunks:
                yield received_messages(chunk.data, chunk.queue, self._config.namespace)

    async def _chunks(
        self, topic: str, since: datetime | None, subscription: Subscription, *, skip_gone: bool
    ) -> AsyncGenerator[RecordChunk, None]:
        bounds = await self.bounds(await self.queues(topic))
        starts = {queue: start for queue, (start, _) in bounds.items()}
        if since is not None:
            check_moment("since", since)
            starts = await self.offsets_at(bounds, since)
        for queue, (_, end) in bounds.items():
            chunks = self.records(
                queue, starts[queue], end, subscription=subscription, skip_gone=skip_gone
            )
            async with aclosing(chunks):
                async for chunk in chunks:
                    yield chunk

    def _tools(self) -> _Tools:
        """Raises NotOpen, UsedAfterFork or WrongLoop."""
        return self._lifecycle.usable().tools

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
            GroupCreator(brokers, routes, instance.id),
        )

    def _wire_name(self, name: str) -> str:
        return wrapped(self._config.namespace, name)

    def _wire_queue(self, queue: QueueRef) -> QueueRef:
        return queue._replace(topic=self._wire_name(queue.topic))

    async def _find_brokers(self, wire_queues: Iterable[QueueRef]) -> None:
        """Finds the brokers of queues whose routes are not cached."""
        routes = self._tools().instance.routes
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
        """Results by the caller's queues; `ask` gets queues with brokers' topics."""
        names = list(queues)
        wire_queues = [self._wire_queue(queue) for queue in names]
        await self._find_brokers(wire_queues)
        answers = await asyncio.gather(*map(ask, wire_queues))
        return dict(zip(names, answers, strict=True))


@final
class GroupCreator:
    def __init__(self, brokers: Brokers, routes: RouteBook, client_id: str) -> None:
        self._brokers = brokers
        self._routes = routes
        self._client_id = client_id
        self._known: set[tuple[str, str]] = set()

    async def create(self, group: str, broker_names: Iterable[str]) -> None:
        """Creates a group at those brokers that do not have it, by a heartbeat.

        5.x refuses offsets of a group that it does not know, and Apache's tools find the brokers of
        a group by its retry topic; a heartbeat creates both. A broker that has the group gets none:
        its members would be rebalanced. Raises Unreachable or RequestRefused.
        """
        unknown = [name for name in broker_names if (group, name) not in self._known]
        if not unknown:
            return
        route = await self._routes.newest(f"{RETRY_PREFIX}{group}")
        having = () if route is None else route.brokers
        await asyncio.gather(*(self._create(group, name) for name in unknown if name not in having))
        self._known.update((group, name) for name in unknown)

    async def _create(self, group: str, broker_name: str) -> None:
        data = ConsumerData(
            group_name=group,
            consume_type=ConsumeType.PULL,
            message_model=MessageModel.CLUSTERING,
            consume_from_where=ConsumeFromWhere.LAST_OFFSET,
        )
        heartbeat = Heartbeat(client_id=self._client_id, consumer_data_set=[data])
        await self._brokers.ask_master(
            broker_name, RequestCode.HEART_BEAT, AddressedHeader(), write_body(heartbeat)
        )
        leaving = UnregisterClientHeader(client_id=self._client_id, consumer_group=group)
        await self._brokers.ask_master(broker_name, RequestCode.UNREGISTER_CLIENT, leaving)

"""The clients of one Kombu connection, in a thread with an event loop.

Kombu calls the methods of `Link` in its own threads; each waits for its result.
"""

import asyncio
import json
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, final

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.resets import ResetPlan
from roquet.client.admin.topics import TopicSettings
from roquet.client.arguments import check_count, check_text, check_timeout
from roquet.client.blocking.loop_thread import LoopThread
from roquet.client.config import Credentials, TlsConfig
from roquet.client.errors import (
    NotOpen,
    RequestRefused,
    SendImpossible,
    SendRefused,
    TopicNotFound,
    UsedAfterFork,
)
from roquet.client.group.start_offset import StartFrom
from roquet.client.producer.producer import AsyncProducer
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.outcome import DeadLetter
from roquet.client.reader.reader import AsyncTopicReader
from roquet.kombu.consuming import (
    DeliveryPipe,
    FeedContext,
    Held,
    Payload,
    Positions,
    Prefetch,
    QueueFeed,
    TransientFeed,
)
from roquet.kombu.mapping import Binding, delay_until, due_of, exchange_topic, level_within, tag_of
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.message import Message

log = logging.getLogger(__name__)

_WHAT: Final = "Kombu connection"
_PRODUCER_GROUP: Final = "kombu"
# How long a new topic may take until name servers know it.
_TOPIC_TIMEOUT_S: Final = 10.0
_TOPIC_PAUSE_S: Final = 0.05
# How long a single get waits for a message.
_GET_TIMEOUT_S: Final = 1.0
# What a member reads ahead of its prefetch limit, of each queue.
_AHEAD_COUNT: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSettings:
    """Of a connection: its URL and its `transport_options`."""

    name_server: str
    credentials: Credentials | None = None
    namespace: str | None = None
    tls: TlsConfig | bool = False
    # In front of the names of all topics.
    prefix: str = ""
    # Queues of a new topic at each broker. No more members of a group can share the topic.
    queue_count: int = 16
    # A message that is not finished after that time is delivered again.
    visibility_timeout_s: float = 3600.0

    def __post_init__(self) -> None:
        """Raises BadArgument."""
        check_count("queue_count", self.queue_count)
        check_timeout("visibility_timeout", self.visibility_timeout_s)
        check_text("queue_prefix", self.prefix)


# What feeds are kept by: a queue, consumed by a channel.
FeedKey = tuple[int, str]


@final
class Link:
    """Raises ClientErrors, as the clients do."""

    def __init__(self, settings: LinkSettings) -> None:
        self.settings = settings
        self.pipe = DeliveryPipe()
        self._thread = LoopThread(_WHAT)
        shared: dict[str, Any] = {
            "namespace": settings.namespace,
            "credentials": settings.credentials,
            "tls": settings.tls,
        }
        self._shared = shared
        self._producer = AsyncProducer(settings.name_server, _PRODUCER_GROUP, **shared)
        self._admin = AsyncAdmin(settings.name_server, **shared)
        self._reader = AsyncTopicReader(settings.name_server, **shared)
        # Topics that exist.
        self._topics: set[str] = set()
        # Bindings of queues whose groups have their offsets.
        self._bound: set[tuple[str, Binding]] = set()
        self._transient: dict[str, dict[Binding, Positions]] = {}
        self._feeds: dict[FeedKey, QueueFeed | TransientFeed] = {}
        self._prefetches: dict[int, Prefetch] = {}
        self._held: dict[str, Held] = {}
        self._context = FeedContext(self.pipe, self._held, self._delayed)
        # Whether brokers have timers; True until one has not.
        self._has_timers = True

    # The connection.

    def open(self) -> None:
        """Raises NoNameServer."""
        self._thread.start()
        try:
            self._thread.run(self._open())
        except BaseException:
            # Celery tries again for ever: nothing may be left of an attempt.
            self.close()
            raise

    def close(self) -> None:
        """In the process that opened it; a fork leaves it alone."""
        with suppress(NotOpen, UsedAfterFork):
            self._thread.run(self._close())
            self._thread.stop()
            self.pipe.close()

    async def _open(self) -> None:
        for client in (self._producer, self._admin, self._reader):
            await client.open()
        await self._has_topic(exchange_topic("", self.settings.prefix))

    async def _close(self) -> None:
        for feed in self._feeds.values():
            await feed.close()
        for client in (self._reader, self._admin, self._producer):
            await client.close()

    # Topics.

    def create_topic(self, topic: str, queue_count: int) -> None:
        """Unless it exists."""
        self._thread.run(self._create_topic(topic, queue_count))

    def has_topic(self, topic: str) -> bool:
        return self._thread.run(self._has_topic(topic))

    def delete_queue(self, topic: str) -> None:
        self._topics.discard(topic)
        self._thread.run(self._admin.delete_topic(topic))

    def waiting_count(self, topic: str) -> int:
        """Messages of a queue that are not finished."""
        return self._thread.run(self._waiting_count(topic, purges=False))

    def purge(self, topic: str) -> int:
        """Skips them, and returns how many there were."""
        return self._thread.run(self._waiting_count(topic, purges=True))

    async def _create_topic(self, topic: str, queue_count: int) -> None:
        if await self._has_topic(topic):
            return
        settings = TopicSettings(read_queue_count=queue_count, write_queue_count=queue_count)
        await self._admin.create_topic(topic, settings)
        async with asyncio.timeout(_TOPIC_TIMEOUT_S):
            while not await self._has_topic(topic):  # noqa: ASYNC110  Name servers only answer.
                await asyncio.sleep(_TOPIC_PAUSE_S)

    async def _has_topic(self, topic: str) -> bool:
        if topic not in self._topics:
            try:
                await self._reader.queues(topic)
            except TopicNotFound:
                return False
            self._topics.add(topic)
        return True

    async def _waiting_count(self, topic: str, *, purges: bool) -> int:
        if not await self._has_topic(topic):
            return 0
        plan = await self._admin.plan_reset(topic, topic, StartFrom.LAST)
        if purges:
            await self._apply_reset(plan)
        starts = [move.min_offset if move.current is None else move.current for move in plan.moves]
        return sum(move.target - start for move, start in zip(plan.moves, starts, strict=True))

    async def _apply_reset(self, plan: ResetPlan) -> None:
        try:
            await self._admin.apply_reset(plan)
        except RequestRefused as refused:
            # Brokers of 5.x store no offsets for a group before its first member.
            if refused.code != ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
                raise
            await self._admin.create_group(plan.group)
            await self._admin.apply_reset(plan)

    # Sending.

    def send(self, topic: str, payload: Payload, tag: str | None = None) -> None:
        self._thread.run(self._send(topic, payload, tag))

    def send_to_queue(self, topic: str, queue: str, payload: Payload) -> None:
        """To the topic of a queue; if there is none, to a transient queue of another process."""
        self._thread.run(self._send_to_queue(topic, queue, payload))

    async def _send_to_queue(self, topic: str, queue: str, payload: Payload) -> None:
        if queue not in self._transient and await self._has_topic(topic):
            await self._send(topic, payload, None)
        else:
            shared = exchange_topic("", self.settings.prefix)
            await self._create_topic(shared, 1)
            await self._send(shared, payload, tag_of(queue))

    async def _send(self, topic: str, payload: Payload, tag: str | None) -> None:
        key = payload["properties"].get("correlation_id")
        keys = (key,) if isinstance(key, str) and key and " " not in key else ()
        message = Message(topic, json.dumps(payload).encode(), tags=tag, keys=keys)
        delay = delay_until(due_of(payload), datetime.now(UTC))
        if delay is None:
            await self._producer.send(message)
        else:
            await self._send_delayed(message, delay)

    async def _send_delayed(self, message: Message, delay: timedelta) -> None:
        if self._has_timers:
            try:
                await self._producer.send(message, delay=delay)
            except (SendImpossible, SendRefused):
                # Brokers of 4.9 have none, and those of 5.x may have them switched off.
                self._has_timers = False
            else:
                return
        await self._producer.send(message, delay_level=level_within(delay))

    async def _delayed(self, payload: Payload, topic: str) -> bool:
        """Sends a message on that is not due: delays of several steps, and clocks that differ."""
        if delay_until(due_of(payload), datetime.now(UTC)) is None:
            return False
        await self._send(topic, payload, None)
        return True

    # Consuming.

    def declare_transient(self, queue: str) -> None:
        """Messages that are sent to the queue from now on are its own."""
        topic = exchange_topic("", self.settings.prefix)
        if queue not in self._transient:
            self._transient[queue] = {}
            self.bind_transient(queue, Binding(topic, tag_of(queue)))

    def is_transient(self, queue: str) -> bool:
        return queue in self._transient

    def delete_transient(self, queue: str) -> None:
        self._transient.pop(queue, None)

    def bind_transient(self, queue: str, binding: Binding) -> None:
        if binding not in self._transient[queue]:
            self._thread.run(self._bind_transient(queue, binding))

    def bind(self, topic: str, binding: Binding) -> None:
        """A queue that is new to an exchange gets what is sent from now on."""
        if (topic, binding) not in self._bound:
            self._thread.run(self._bind(topic, binding))

    def consume(
        self, key: FeedKey, topic: str, bindings: Iterable[Binding], *, no_ack: bool
    ) -> None:
        self._thread.run(self._consume(key, topic, bindings, no_ack=no_ack))

    def get(self, key: FeedKey, topic: str, bindings: Iterable[Binding], *, no_ack: bool) -> bool:
        """Hands over one message, if there is one."""
        return self._thread.run(self._get(key, topic, bindings, no_ack=no_ack))

    def cancel(self, key: FeedKey) -> None:
        self._thread.run(self._cancel(key))

    def limit(self, channel_id: int, count_max: int) -> None:
        """Sets the prefetch count of a channel; 0 is no limit."""
        self._thread.call(lambda: self._prefetch(channel_id).limit(count_max))

    def finish(self, tag: str) -> None:
        """Acknowledges a message; one that is not held is no error."""
        self._thread.run(self._finish(tag, None))

    def send_to_dlq(self, tag: str) -> None:
        self._thread.run(self._finish(tag, DeadLetter("rejected by the program")))

    async def _bind_transient(self, queue: str, binding: Binding) -> None:
        await self._create_topic(binding.topic, 1)
        bounds = await self._reader.bounds(await self._reader.queues(binding.topic))
        positions = {each: bound.max_offset for each, bound in bounds.items()}
        self._transient[queue][binding] = positions
        for (_channel, name), feed in self._feeds.items():
            if name == queue and isinstance(feed, TransientFeed):
                feed.bind(binding, positions)

    async def _bind(self, topic: str, binding: Binding) -> None:
        await self._create_topic(binding.topic, 1)
        plan = await self._admin.plan_reset(topic, binding.topic, StartFrom.LAST)
        fresh = [move.queue for move in plan.moves if move.current is None]
        if fresh and not plan.members:
            await self._apply_reset(
                await self._admin.plan_reset(topic, binding.topic, StartFrom.LAST, queues=fresh)
            )
        self._bound.add((topic, binding))
        for feed in self._feeds.values():
            if isinstance(feed, QueueFeed) and feed.topic == topic:
                feed.bind(binding)

    async def _consume(
        self, key: FeedKey, topic: str, bindings: Iterable[Binding], *, no_ack: bool
    ) -> None:
        channel_id, queue = key
        prefetch = self._prefetch(channel_id)
        if (bound := self._transient.get(queue)) is not None:
            feed = TransientFeed(queue, self._admin, prefetch, self._context, no_ack=no_ack)
            self._feeds[key] = feed
            for binding, positions in bound.items():
                feed.bind(binding, positions)
            return
        (await self._queue_feed(key, topic, bindings)).start(prefetch, no_ack=no_ack)

    async def _get(
        self, key: FeedKey, topic: str, bindings: Iterable[Binding], *, no_ack: bool
    ) -> bool:
        feed = await self._queue_feed(key, topic, bindings)
        return await feed.take(_GET_TIMEOUT_S, self._prefetch(key[0]), no_ack=no_ack)

    async def _queue_feed(self, key: FeedKey, topic: str, bindings: Iterable[Binding]) -> QueueFeed:
        feed = self._feeds.get(key)
        if isinstance(feed, QueueFeed):
            return feed
        settings = self.settings
        config = PushConsumerConfig(
            name_server=settings.name_server,
            group=topic,
            start_from=StartFrom.FIRST,
            consume_timeout_s=settings.visibility_timeout_s,
            close_timeout_s=0.0,
            queue_count_max=_AHEAD_COUNT,
            **self._shared,
        )
        feed = QueueFeed(key[1], config, [Binding(topic), *bindings], self._context)
        await feed.open()
        self._feeds[key] = feed
        return feed

    async def _cancel(self, key: FeedKey) -> None:
        feed = self._feeds.pop(key, None)
        if isinstance(feed, QueueFeed):
            await feed.cancel()
        elif feed is not None:
            await feed.close()

    async def _finish(self, tag: str, error: Exception | None) -> None:
        held = self._held.pop(tag, None)
        if held is None:
            return
        held.prefetch.leave()
        if isinstance(held.feed, QueueFeed):
            await held.feed.finish(held, error)

    def _prefetch(self, channel_id: int) -> Prefetch:
        return self._prefetches.setdefault(channel_id, Prefetch())

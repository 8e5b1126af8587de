"""Queues that a connection consumes: from brokers, through prefetch limits, to Kombu's thread.

Everything but `DeliveryPipe.take` runs in the event loop of the link.
"""

import asyncio
import json
import logging
import os
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import aclosing, suppress
from itertools import count
from math import ceil
from typing import Any, Final, NamedTuple, final

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.errors import ClientError
from roquet.client.group.subscriptions import Subscriptions
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Delivery
from roquet.client.push.iteration import Iterations
from roquet.client.push.member import PushMember, retry_topic
from roquet.client.push.outcome import DeadLetter
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock
from roquet.kombu.mapping import Binding, tags_of
from roquet.protocol.errors import BadMessage

log = logging.getLogger(__name__)

Payload = dict[str, Any]
# Where a reader without a group continues in each queue of a topic.
Positions = dict[QueueRef, int]

# Messages of one channel that are handed over and not finished, if it sets no limit of its own.
HELD_COUNT_MAX: Final = 10_000
# In the delivery info of a message: the queue it was delivered from.
QUEUE_FIELD: Final = "queue"
_ERROR_PAUSE_S: Final = 1.0


class KombuDelivery(NamedTuple):
    """A message on its way to Kombu; `tag` is its delivery tag."""

    tag: str
    queue: str
    payload: Payload


@final
class DeliveryPipe:
    """Passes messages to Kombu's thread. Its descriptor is readable while there are some."""

    def __init__(self) -> None:
        self._waiting: deque[KombuDelivery] = deque()
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        # `select` takes no descriptors above 1023, and a program may have that many files open.
        self._poll = select.poll()
        self._poll.register(self._reading, select.POLLIN)

    def fileno(self) -> int:
        return self._reading

    def put(self, delivery: KombuDelivery) -> None:
        self._waiting.append(delivery)
        # One byte for each; a pipe has room for more than `HELD_COUNT_MAX` of a few channels. When
        # it is full the descriptor is readable anyway.
        with suppress(BlockingIOError):
            os.write(self._writing, b"\0")

    def take(self, timeout_s: float | None) -> KombuDelivery | None:
        """In Kombu's thread: the next one, after waiting that long; None waits for ever."""
        end_s = None if timeout_s is None else time.monotonic() + timeout_s
        has_byte = False
        while not self._waiting:
            left_ms = None if end_s is None else max(0, ceil((end_s - time.monotonic()) * 1000))
            if not self._poll.poll(left_ms):
                return None
            # Its own byte, or that of an earlier one, which was taken before it was written.
            self._read_byte()
            has_byte = True
        if not has_byte:
            self._read_byte()
        return self._waiting.popleft()

    def _read_byte(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._reading, 1)

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


@final
class Prefetch:
    """How many messages of a channel may be handed over and not finished."""

    def __init__(self) -> None:
        self._limit = HELD_COUNT_MAX
        self._held_count = 0
        self._has_room = asyncio.Event()
        self._has_room.set()

    @property
    def has_room(self) -> bool:
        return self._held_count < self._limit

    async def until_room(self) -> None:
        while not self.has_room:
            self._has_room.clear()
            await self._has_room.wait()

    def limit(self, count_max: int) -> None:
        self._limit = count_max or HELD_COUNT_MAX
        self._has_room.set()

    def enter(self) -> None:
        self._held_count += 1

    def leave(self) -> None:
        self._held_count -= 1
        self._has_room.set()


class FeedContext(NamedTuple):
    """What all feeds of a connection need. `delayed` sends a message to a topic if it is not due
    yet, and returns whether it did."""

    pipe: DeliveryPipe
    held: dict[str, "Held"]
    delayed: Callable[[Payload, str], Awaitable[bool]]


class Held(NamedTuple):
    """A message that Kombu has and has not finished. Of a transient queue there is no delivery."""

    feed: "QueueFeed | TransientFeed"
    prefetch: Prefetch
    delivery: Delivery | None


_tags = count(1)


def _hand_over(
    context: FeedContext, held: Held, payload: Payload, message: ReceivedMessage, *, no_ack: bool
) -> None:
    tag = str(next(_tags))
    properties = payload["properties"]
    properties["delivery_tag"] = tag
    properties["delivery_info"][QUEUE_FIELD] = held.feed.queue
    # AMQP's flag: an earlier delivery may have been processed.
    payload["redelivered"] = payload.get("redelivered", False) or message.retry_count > 0
    if not no_ack:
        context.held[tag] = held
        held.prefetch.enter()
    context.pipe.put(KombuDelivery(tag, held.feed.queue, payload))


@final
class QueueFeed:
    """A queue that is a topic: a member of its consumer group."""

    def __init__(
        self,
        queue: str,
        config: PushConsumerConfig,
        bindings: Iterable[Binding],
        context: FeedContext,
    ) -> None:
        self.queue = queue
        self.topic = config.group
        self._context = context
        self._clock = SystemClock()
        self._subscriptions = Subscriptions(config.namespace)
        self._bindings: dict[str, set[Binding]] = {}
        self._subscriptions.add(retry_topic(config.group), None, None, self._clock.now_ms())
        for binding in bindings:
            self._subscribe(binding)
        self._member = PushMember(
            config, None, self._subscriptions, self._clock, lambda _error: None
        )
        assert isinstance(self._member.workers, Iterations)
        self._deliveries = self._member.workers
        self._task: asyncio.Task[None] | None = None
        self._held_count = 0

    async def open(self) -> None:
        await self._member.open()

    def start(self, prefetch: Prefetch, *, no_ack: bool) -> None:
        self._task = asyncio.create_task(self._run(prefetch, no_ack=no_ack))

    def bind(self, binding: Binding) -> None:
        self._subscribe(binding)
        self._member.subscriptions_changed()

    async def cancel(self) -> None:
        """Hands over no more; leaves the group when Kombu has finished the last message."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        if not self._held_count:
            await self._member.close()

    async def close(self) -> None:
        """Leaves the group; what is not finished is delivered again."""
        if self._task is not None:
            self._task.cancel()
        await self._member.close()

    async def take(self, timeout_s: float, prefetch: Prefetch, *, no_ack: bool) -> bool:
        """Hands over one message, and returns whether there was one."""
        try:
            async with asyncio.timeout(timeout_s):
                while (delivery := await self._deliveries.take()) is not None:
                    if await self._pass_on(delivery, prefetch, no_ack=no_ack):
                        return True
        except TimeoutError:
            pass
        return False

    async def finish(self, held: Held, error: Exception | None = None) -> None:
        """Acknowledges a message; with an error it is delivered again later, or dead."""
        assert held.delivery is not None
        self._deliveries.end(held.delivery, error)
        self._held_count -= 1
        if self._task is None and not self._held_count:
            await self._member.close()

    async def _run(self, prefetch: Prefetch, *, no_ack: bool) -> None:
        while True:
            await prefetch.until_room()
            delivery = await self._deliveries.take()
            if delivery is None:
                return
            if prefetch.has_room:
                await self._pass_on(delivery, prefetch, no_ack=no_ack)
            else:
                # Another queue of the channel was quicker.
                self._deliveries.put_back(delivery)

    async def _pass_on(self, delivery: Delivery, prefetch: Prefetch, *, no_ack: bool) -> bool:
        """Whether Kombu gets it: it may be for another queue, not due, or no message of Kombu."""
        message = delivery.messages[0]
        try:
            payload = payload_of(message)
        except BadMessage as error:
            self._deliveries.end(delivery, DeadLetter(str(error)))
            return False
        bindings = self._bindings.get(message.topic, ())
        if not any(each.takes(message.tags, routing_key_of(payload)) for each in bindings):
            self._deliveries.end(delivery)
            return False
        if await self._context.delayed(payload, self.topic):
            self._deliveries.end(delivery)
            return False
        _hand_over(self._context, Held(self, prefetch, delivery), payload, message, no_ack=no_ack)
        if no_ack:
            self._deliveries.end(delivery)
        else:
            self._held_count += 1
        return True

    def _subscribe(self, binding: Binding) -> None:
        bound = self._bindings.setdefault(binding.topic, set())
        bound.add(binding)
        self._subscriptions.add(binding.topic, tags_of(bound), None, self._clock.now_ms())


@final
class TransientFeed:
    """A queue that exists in this process only: it reads topics without a group."""

    def __init__(
        self,
        queue: str,
        admin: AsyncAdmin,
        prefetch: Prefetch,
        context: FeedContext,
        *,
        no_ack: bool,
    ) -> None:
        self.queue = queue
        self._admin = admin
        self._prefetch = prefetch
        self._context = context
        self._no_ack = no_ack
        self._tasks: list[asyncio.Task[None]] = []

    def bind(self, binding: Binding, positions: Positions) -> None:
        """`positions` move with what is read."""
        self._tasks.append(asyncio.create_task(self._follow(binding, positions)))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _follow(self, binding: Binding, positions: Positions) -> None:
        """For ever."""
        while True:
            try:
                following = self._admin.follow(binding.topic, positions, tags=binding.tag)
                async with aclosing(following) as messages:
                    async for message in messages:
                        await self._pass_on(binding, message)
                        positions[message.queue] = message.queue_offset + 1
            except ClientError as error:
                log.warning("queue %s cannot read its exchange, retrying: %s", self.queue, error)
                await asyncio.sleep(_ERROR_PAUSE_S)

    async def _pass_on(self, binding: Binding, message: ReceivedMessage) -> None:
        try:
            payload = payload_of(message)
        except BadMessage as error:
            log.warning("skipped %r: %s", message, error)
            return
        if not binding.takes(message.tags, routing_key_of(payload)):
            return
        await self._prefetch.until_room()
        _hand_over(
            self._context,
            Held(self, self._prefetch, None),
            payload,
            message,
            no_ack=self._no_ack,
        )


def payload_of(message: ReceivedMessage) -> Payload:
    """Kombu's envelope. Raises BadMessage for anything else."""
    try:
        payload = json.loads(message.body)
        properties, info = payload["properties"], payload["properties"]["delivery_info"]
    except (ValueError, TypeError, LookupError):
        raise BadMessage("it was not sent by Kombu") from None
    if not isinstance(properties, dict) or not isinstance(info, dict):
        raise BadMessage("it was not sent by Kombu")
    return dict(payload)


def routing_key_of(payload: Payload) -> str:
    return str(payload["properties"]["delivery_info"].get("routing_key") or "")

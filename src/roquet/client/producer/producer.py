"""The producer, for asyncio.

    async with AsyncProducer(name_server="127.0.0.1:9876", group="shop") as producer:
        receipt = await producer.send(Message("orders", b"one coffee", tags="new"))

Every send ends in one of three ways: a receipt, `SendFailed` or `SendUnknown`.
"""

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from copy import copy
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar, Unpack, final
from uuid import UUID

from roquet.client.arguments import bad, check_count, check_queue, check_timeout
from roquet.client.cluster.routes import NewTopic
from roquet.client.config import TIMEOUT_S, ProducerConfig, ProducerOptions
from roquet.client.errors import (
    BadArgument,
    ClientError,
    NoNameServer,
    NoReply,
    NotYetSafe,
    SendFailed,
    SendUnknown,
    SomeFailed,
)
from roquet.client.hooks import MessageKind
from roquet.client.lifecycle import AsyncResource
from roquet.client.middleware import SendChain
from roquet.client.names import check_topic, wrapped
from roquet.client.producer.accumulator import Accumulator
from roquet.client.producer.batching import (
    SendResult,
    can_be_batched,
    cut_to_size,
    outgoing_encoded,
    results_of,
)
from roquet.client.producer.outgoing import Delay, Ready, delay_properties, taken
from roquet.client.producer.queue_choice import ANYWHERE, OrderKey, Target
from roquet.client.producer.receipt import BatchReceipt, ProducerStatistics, SendReceipt
from roquet.client.producer.request_reply import ROUTES, PendingReplies, ReplyMessage
from roquet.client.producer.sent_messages import is_stored_at, looked_for, recalled
from roquet.client.producer.streaming import stream_receipts
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock
from roquet.net.router import Router
from roquet.protocol.messages.message import Message

R = TypeVar("R")

_WHAT: Final = "producer"
_NO_EXTRA: Final[Mapping[str, str]] = MappingProxyType({})
REQUEST_TIMEOUT_S: Final = 10.0


@final
class AsyncProducer(AsyncResource):
    """Sends messages. Belongs to the event loop and the process that opened it.

    `options` are the members of `ProducerConfig`. Raises BadArgument, and BadAddress for a name
    server that is not "host:port"; several are joined by semicolons.

    For example:

        async with AsyncProducer("127.0.0.1:9876", group="shop") as producer:
            receipt = await producer.send(Message("orders", b"one coffee", tags="new"))
            await producer.send_many(Message("orders", b"%d" % number) for number in range(100))
    """

    def __init__(
        self, name_server: str | None, group: str, **options: Unpack[ProducerOptions]
    ) -> None:
        config = ProducerConfig(name_server=name_server, group=group, **options)
        self._config = config
        self._clock = SystemClock()
        self._replies = PendingReplies(self._clock)
        self._accumulator = Accumulator(
            _WHAT, config, Router(self._replies, ROUTES), self._replies.is_asked
        )
        self._middleware = SendChain(config.middleware) or None

    async def open(self) -> None:
        """Connects nowhere: the first send does. Raises NotOpen after `close`."""
        await self._accumulator.open()

    async def close(self) -> None:
        """Waits a little for messages in flight; a second time does nothing."""
        await self._accumulator.close()

    async def send(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        delay: Delay | None = None,
        delay_level: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> SendReceipt:
        """Returns when a broker has stored the message; retries at others if one fails.

        A retry after an answer that did not come may store it twice, with the same `message_id`,
        by which consumers know it again; `retry_unknown=False` raises SendUnknown instead.

        With `queue` or `order_key` it goes to one queue, without retries. `delay` is a timedelta or
        a datetime, and needs a broker with timers, which 4.9 lacks; `delay_level` is one of the
        broker's levels: 1 is a second, 18 two hours. Raises SendFailed, SendUnknown or
        BadArgument.
        """
        if timeout_s is not TIMEOUT_S:  # A call for nothing is not cheap.
            check_timeout("timeout_s", timeout_s)
        is_usual = queue is None and order_key is None and delay is None and delay_level is None
        if not is_usual or self._middleware is not None or type(message) is not Message:
            extra = delay_properties(delay, delay_level, self._clock.now_ms())
            return await self._send_unusual(message, queue, order_key, extra, timeout_s)
        accumulator = self._accumulator
        fast = accumulator.fast_batching
        if fast is not None and (future := fast.add(message, timeout_s)) is not None:
            size = len(message.body)
            try:
                return await future
            finally:
                fast.leave(size)
        # Of a burst nearly all wait here, all of them started in one turn of the loop, so there is
        # no other coroutine, and nothing is made of the message yet.
        if (may_enter := accumulator.room_for(message, timeout_s)) is not None:
            try:
                await may_enter
            except BaseException as error:
                accumulator.give_up(may_enter, message, timeout_s, error)
                raise
            return await accumulator.send_entered(message, timeout_s)
        ready = accumulator.ready(message, _NO_EXTRA)
        return await accumulator.send(ready, ANYWHERE, timeout_s)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Returns when the message is on its way; whether it arrives is not known.

        Raises SendFailed when it could not be sent, or BadArgument.
        """
        check_timeout("timeout_s", timeout_s)

        def send_one(message: Message) -> Coroutine[None, None, None]:
            target = _target(message, queue, order_key)
            ready = self._accumulator.ready(message, _NO_EXTRA)
            return self._accumulator.send_oneway(ready, target, timeout_s)

        await self._through(message, send_one)

    async def send_batch(
        self,
        messages: Iterable[Message],
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> list[SendReceipt]:
        """Sends messages of one topic in as few requests as fit, one after the other.

        Those of one request go to one queue, in their order. Raises as `send` does when there is
        one request, else SomeFailed: messages after a failure are not sent. With middleware,
        which sees one message at a time, it raises BadArgument.
        """
        self._refuse_middleware("send_batch", "`send_many`, with `linger_ms` for shared requests")
        check_timeout("timeout_s", timeout_s)
        if isinstance(messages, Iterator):
            messages = list(messages)
        target = _target(_first_of_batch(messages), queue, order_key)
        ready = [self._accumulator.ready(message, {}) for message in messages]
        parts = list(cut_to_size(ready, self._config.message_size_max))
        async with self._accumulator.room(ready, timeout_s) as session:
            deadline_s = session.loop.time() + timeout_s
            if len(parts) == 1:
                return [*await self._accumulator.send_together(parts[0], target, deadline_s)]
            return await self._send_parts(parts, target, deadline_s)

    async def send_encoded(
        self,
        topic: str,
        body: bytes,
        count: int,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> BatchReceipt:
        """Sends a body that is a batch of `count` messages already, in one request.

        They are not parsed: each needs its id, and its namespace, among its properties. None may
        have a delay or be part of a transaction. Hooks see the body as one message.
        Raises as `send` does, and BadArgument with middleware.
        """
        self._refuse_middleware("send_encoded", "`send_many`")
        check_timeout("timeout_s", timeout_s)
        message = Message(topic, body)
        target = _target(message, queue, order_key)
        ready = self._accumulator.ready(message, {})
        outgoing = outgoing_encoded(ready, count, self._config)
        async with self._accumulator.room([ready], timeout_s) as session:
            deadline_s = session.loop.time() + timeout_s
            (receipt,) = await session.sender.send(outgoing, target, deadline_s)
        return BatchReceipt(receipt.queue, receipt.queue_offset, count)

    async def send_many(
        self,
        messages: Iterable[Message],
        *,
        in_flight: int = 64,
        timeout_s: float = TIMEOUT_S,
    ) -> list[SendReceipt]:
        """Sends all messages with up to `in_flight` requests at the same time, in any order.

        Each has a request of its own or, with `linger_ms`, shares one with its neighbours. Raises
        SomeFailed, with the outcome of each, when all have been tried.
        """
        check_count("in_flight", in_flight)
        check_timeout("timeout_s", timeout_s)
        if isinstance(messages, Message | str | bytes) or not isinstance(messages, Iterable):
            raise bad("messages", "a list of Messages", messages)
        self._accumulator.usable()
        if self._middleware is not None:
            return await self._send_each(messages, in_flight, timeout_s)
        results: dict[int, Sequence[SendResult]] = {}
        size_max = 0 if self._config.linger_ms is None else self._config.message_size_max
        # All workers take from the same iterator; none waits between taking and sending.
        numbered = enumerate(self._accumulator.parts(messages, size_max))

        async def work() -> None:
            for index, part in numbered:
                if isinstance(part, ClientError):
                    results[index] = [part]
                else:
                    results[index] = await self._part_results(part, timeout_s)

        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(work())
        return _receipts([each for index in range(len(results)) for each in results[index]])

    def send_stream(
        self,
        messages: AsyncIterable[Message] | Iterable[Message],
        *,
        in_flight: int = 64,
        timeout_s: float = TIMEOUT_S,
    ) -> AsyncGenerator[SendReceipt, None]:
        """Sends messages as they come, and yields their receipts in the order of the messages.

        A message is taken when fewer than `in_flight` have no receipt that was taken, so neither
        an endless stream nor a caller that is slow fills the memory. Messages may overtake each
        other. Raises as `send` does for the first message that fails, and what `messages` raises;
        what is in flight then, or when the caller stops, is not waited for, and may be stored.
        """
        check_count("in_flight", in_flight)
        check_timeout("timeout_s", timeout_s)
        if isinstance(messages, Message | str | bytes) or not isinstance(
            messages, AsyncIterable | Iterable
        ):
            raise bad("messages", "an iterable or asynchronous iterable of Messages", messages)
        self._accumulator.usable()
        return stream_receipts(messages, partial(self.send, timeout_s=timeout_s), in_flight)

    async def request(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> ReceivedMessage:
        """Sends a message and returns the reply of its consumer, made with `reply_to`.

        Raises NoReply when none comes in time, or as `send` does.
        """
        check_timeout("timeout_s", timeout_s)
        instance = self._accumulator.usable().instance
        deadline_s = asyncio.get_running_loop().time() + timeout_s
        with self._replies.expected(instance.id, timeout_s) as (properties, reply):

            def send_one(message: Message) -> Coroutine[None, None, SendReceipt]:
                target = _target(message, queue, order_key)
                ready = self._accumulator.ready(message, properties, is_request=True)
                return self._accumulator.send(ready, target, timeout_s)

            try:
                receipt = await self._through(message, send_one)
            except NotYetSafe as error:
                receipt = error.receipts[0]  # It can be consumed, which is enough here.
            try:
                async with asyncio.timeout_at(deadline_s):
                    return await reply
            except TimeoutError:
                raise NoReply(message.topic, timeout_s, receipt) from None

    async def queues(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> list[QueueRef]:
        """The queues that accept messages of a topic now. Raises TopicNotFound or NoNameServer."""
        routes = self._accumulator.usable().instance.routes
        new_topic = NewTopic(self._config.template_topic, self._config.new_topic_queue_count)
        wire_topic = wrapped(self._config.namespace, topic)
        try:
            async with asyncio.timeout(timeout_s):
                route = await routes.find(wire_topic, new_topic)
        except TimeoutError:
            raise NoNameServer([f"still asking after {timeout_s:g} s"]) from None
        return [queue._replace(topic=topic) for queue in route.queues]

    async def is_stored(
        self,
        queue: QueueRef | SendUnknown | NoReply,
        message_id: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
    ) -> bool:
        """Whether the broker of a queue has a message of its topic with this id, in any queue; or,
        of the error of a send, whether any broker that it was sent to has its message.

        Brokers of Apache find a message only a few milliseconds after storing it. Delayed messages
        and open transactions are not found. Raises Unreachable, RequestRefused, NoNameServer or
        BadArgument.
        """
        instance = self._accumulator.usable().instance
        queues, message_id = looked_for(queue, message_id)
        for each in queues:
            if await is_stored_at(instance, self._config.namespace, each, message_id, timeout_s):
                return True
        return False

    async def recall(self, handle: str, *, timeout_s: float = TIMEOUT_S) -> str:
        """Keeps a message from being delivered that was sent with a time or a `delay`; its id.

        `handle` is the `recall_handle` of the receipt, which brokers of 5.x give. The broker
        refuses it when the message is due already. Raises BadArgument, Unreachable,
        RequestRefused or NoNameServer.
        """
        return await recalled(self._accumulator.usable().instance, handle, timeout_s)

    def statistics(self) -> ProducerStatistics:
        """A copy of the counts up to now."""
        return self._accumulator.statistics()

    # How it is done.

    def _send_unusual(
        self,
        message: Message,
        queue: QueueRef | None,
        order_key: OrderKey | None,
        extra: Mapping[str, str],
        timeout_s: float,
    ) -> Coroutine[None, None, SendReceipt]:
        """To one queue, later, through middleware, or of another type."""
        kind = MessageKind.DELAYED if extra else MessageKind.NORMAL

        def send_one(message: Message) -> Coroutine[None, None, SendReceipt]:
            target = _target(message, queue, order_key)
            ready = self._accumulator.ready(message, extra, kind)
            return self._accumulator.send(ready, target, timeout_s)

        return self._through(message, send_one)

    def _through(
        self, message: Message, send: Callable[[Message], Coroutine[None, None, R]]
    ) -> Coroutine[None, None, R]:
        """Sends a message, inside of the middleware if there is any."""
        return send(message) if self._middleware is None else self._middleware(taken(message), send)

    def _refuse_middleware(self, method: str, instead: str) -> None:
        if self._middleware is not None:
            raise BadArgument(
                f"`{method}` goes past the middleware of this producer: use {instead}"
            )

    async def _send_each(
        self, messages: Iterable[Message], in_flight: int, timeout_s: float
    ) -> list[SendReceipt]:
        results: dict[int, SendResult] = {}
        numbered = enumerate(messages)

        async def work() -> None:
            for index, message in numbered:
                try:
                    results[index] = await self.send(message, timeout_s=timeout_s)
                except ClientError as error:
                    results[index] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(work())
        return _receipts([results[index] for index in range(len(results))])

    async def _part_results(self, part: Sequence[Ready], timeout_s: float) -> Sequence[SendResult]:
        if len(part) == 1:
            target = _target(part[0].message, None, None)
            try:
                return [await self._accumulator.send(part[0], target, timeout_s)]
            except ClientError as error:
                return [error]
        try:
            async with self._accumulator.room(part, timeout_s) as session:
                deadline_s = session.loop.time() + timeout_s
                sending = self._accumulator.send_together(part, ANYWHERE, deadline_s)
                return await results_of(sending, part)
        except SendFailed as error:  # There was no room.
            return [copy(error) for _ in part]

    async def _send_parts(
        self, parts: Sequence[Sequence[Ready]], target: Target, deadline_s: float
    ) -> list[SendReceipt]:
        results: list[SendResult] = []
        for part in parts:
            if results and isinstance(results[-1], ClientError):
                # A later message must not be there while an earlier one is not.
                topic = part[0].message.topic
                results += [SendFailed(topic, "not tried after a failure") for _ in part]
            else:
                sending = self._accumulator.send_together(part, target, deadline_s)
                results += await results_of(sending, part)
        return _receipts(results)


def _target(message: Message, queue: QueueRef | None, order_key: OrderKey | None) -> Target:
    if not isinstance(message, Message):
        raise bad("message", "a Message", message)
    if queue is None and order_key is None:
        return Target(message.queue) if isinstance(message, ReplyMessage) else ANYWHERE
    if queue is not None and order_key is not None:
        raise BadArgument("give `queue` or `order_key`, not both", "order_key")
    if queue is not None:
        check_queue("queue", queue)
    elif isinstance(order_key, bool) or not isinstance(order_key, str | int | UUID):
        raise bad("order_key", "a text, a whole number or a UUID", order_key)
    if queue is not None and queue.topic != message.topic:
        raise BadArgument(f"{queue} is not a queue of topic {message.topic!r}", "queue")
    return Target(queue, order_key)


def _first_of_batch(messages: Any) -> Message:
    if isinstance(messages, str | bytes) or not isinstance(messages, Sequence):
        raise bad("messages", "a list of Messages", messages)
    if not messages:
        raise BadArgument("an empty batch cannot be sent", "messages")
    for message in messages:
        if not isinstance(message, Message):
            raise bad("each of messages", "a Message", message)
        check_topic(message.topic)
    topics = {message.topic for message in messages}
    if len(topics) > 1:
        raise BadArgument(
            f"a batch has one topic, not {sorted(topics)}; send one for each", "messages"
        )
    if not can_be_batched(messages[0]):
        raise BadArgument(f"topic {messages[0].topic!r} takes no batches; send one by one", "topic")
    first: Message = messages[0]
    return first


def _receipts(results: Sequence[SendResult]) -> list[SendReceipt]:
    receipts = [result for result in results if isinstance(result, SendReceipt)]
    if len(receipts) < len(results):
        raise SomeFailed(results)
    return receipts


def accumulator_of(producer: AsyncProducer) -> Accumulator | None:
    """For its blocking twin. None if there is more between a caller and the accumulator."""
    return None if producer._middleware is not None else producer._accumulator  # noqa: SLF001

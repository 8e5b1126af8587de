"""The producer: everything a program does to send messages, for the event loop.

    async with AsyncProducer(name_server="127.0.0.1:9876", group="shop") as producer:
        receipt = await producer.send(Message("orders", b"one coffee", tags="new"))

Every send ends in one of three ways: a receipt, `SendFailed` or `SendUnknown`.
"""

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Self, Unpack, final

from roquet.client.batching import Gatherer, Outcome, cut_to_size, outcomes_of
from roquet.client.config import TIMEOUT_S, ProducerConfig, ProducerOptions
from roquet.client.delay import Delay, delay_properties
from roquet.client.errors import BadArgument, ClientError, NotOpen, SendFailed, SomeFailed
from roquet.client.instance import ClientInstance
from roquet.client.names import wrapped
from roquet.client.outgoing import (
    Outgoing,
    Ready,
    can_be_batched,
    check_message,
    is_compressed,
    outgoing_batch,
    outgoing_of,
    property_text,
)
from roquet.client.queue_choice import OrderKey
from roquet.client.receipt import QueueRef, SendReceipt
from roquet.client.sending import ANYWHERE, Place, Sender
from roquet.client.statistics import ProducerStatistics
from roquet.client.tls import tls_context
from roquet.client.window import Window
from roquet.clock import SystemClock
from roquet.protocol.bodies.heartbeat import Heartbeat, ProducerData
from roquet.protocol.message import Message, Property

_WHAT: Final = "producer"
_CLOSING_TIMEOUT_S: Final = 3.0
# Larger bodies are compressed in a thread: the loop has other things to do meanwhile.
_COMPRESSED_INLINE_SIZE_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Open:
    """What exists between `open` and `close`."""

    instance: ClientInstance
    sender: Sender
    window: Window
    gatherer: Gatherer | None
    loop: asyncio.AbstractEventLoop


@final
class AsyncProducer:
    """Sends messages. Belongs to the event loop and the process that opened it.

    `options` are the members of `ProducerConfig`. Raises BadArgument, and BadAddress for a name
    server that is not "host:port"; several are joined by semicolons.
    """

    def __init__(self, name_server: str, group: str, **options: Unpack[ProducerOptions]) -> None:
        self._config = ProducerConfig(name_server=name_server, group=group, **options)
        self._clock = SystemClock()
        self._statistics = ProducerStatistics()
        self._open: _Open | None = None
        self._is_closed = False

    async def open(self) -> None:
        """Begins to live; the cluster is asked by the first send. Raises NotOpen after `close`."""
        if self._is_closed:
            raise NotOpen(_WHAT, was_open=True)
        if self._open is not None:
            return
        config = self._config
        instance = ClientInstance(
            _WHAT,
            config.name_servers,
            self._clock,
            self._heartbeat,
            credentials=config.credentials,
            new_topic_queue_count=config.new_topic_queue_count,
            tls=tls_context(config.tls),
        )
        gatherer = None
        if config.linger_ms is not None:
            gatherer = Gatherer(
                self._send_together,
                instance.services,
                config.linger_ms / 1000,
                config.message_size_max,
            )
        self._open = _Open(
            instance,
            Sender(config, instance, self._clock, self._statistics),
            Window(config.in_flight_max, config.in_flight_size_max),
            gatherer,
            asyncio.get_running_loop(),
        )
        await instance.open(config.route_interval_s, config.heartbeat_interval_s)

    async def close(self) -> None:
        """Waits a little for what is on its way, and leaves; a second time does nothing."""
        was_closed, self._is_closed = self._is_closed, True
        if was_closed or self._open is None:
            return
        if self._open.gatherer is not None:
            self._open.gatherer.flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_TIMEOUT_S):
                await self._open.window.until_empty()
        await self._open.instance.close()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def send(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        delay: Delay | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> SendReceipt:
        """Returns when a broker has the message; tries others if one fails.

        With `queue` or `order_key` it goes to one queue, and is tried once. Raises SendFailed,
        SendUnknown or BadArgument.
        """
        opened = self._usable()
        deadline_s = opened.loop.time() + timeout_s
        place = _place(message, queue, order_key)
        ready = self._ready(opened, message, delay)
        size = len(message.body)
        await self._enter(opened, [message], size, timeout_s)
        try:
            if opened.gatherer is not None and delay is None and self._is_gathered(message):
                place = await opened.sender.settled(message.topic, place, deadline_s)
                return await opened.gatherer.add(ready, place, deadline_s)
            outgoing = await self._outgoing(ready)
            return (await opened.sender.send(outgoing, place, deadline_s))[0]
        finally:
            opened.window.leave(size)

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """Returns when the message is on its way; nobody will know whether it arrives.

        Raises SendFailed when it could not even be sent, or BadArgument.
        """
        opened = self._usable()
        deadline_s = opened.loop.time() + timeout_s
        place = _place(message, queue, order_key)
        outgoing = await self._outgoing(self._ready(opened, message, None))
        await opened.sender.send_oneway(outgoing, place, deadline_s)

    async def send_batch(
        self,
        messages: Sequence[Message],
        *,
        queue: QueueRef | None = None,
        order_key: OrderKey | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> list[SendReceipt]:
        """Sends messages of one topic in as few requests as fit, one after the other.

        Those of one request go to one queue, in their order. Raises as `send` does when there is
        one request, else SomeFailed: what follows a failure is not tried.
        """
        opened = self._usable()
        deadline_s = opened.loop.time() + timeout_s
        place = _place(_first_of_batch(messages), queue, order_key)
        ready = [self._ready(opened, message, None) for message in messages]
        parts = list(cut_to_size(ready, self._config.message_size_max))
        size = sum(len(message.body) for message in messages)
        await self._enter(opened, messages, size, timeout_s)
        try:
            if len(parts) == 1:
                return await self._send_together(parts[0], place, deadline_s)
            return await self._send_parts(parts, place, deadline_s)
        finally:
            opened.window.leave(size)

    async def send_many(
        self,
        messages: Iterable[Message],
        *,
        in_flight: int = 64,
        timeout_s: float = TIMEOUT_S,
    ) -> list[SendReceipt]:
        """Sends each message for itself, up to `in_flight` at the same time, in any order.

        Raises SomeFailed when all have been tried, which says what became of each.
        """
        if in_flight < 1:
            raise BadArgument(f"`in_flight` has to be 1 or more, not {in_flight}")
        self._usable()
        outcomes: dict[int, Outcome] = {}
        # All workers take from the same iterator; none waits between taking and sending.
        numbered = enumerate(messages)

        async def work() -> None:
            for index, message in numbered:
                try:
                    outcomes[index] = await self.send(message, timeout_s=timeout_s)
                except ClientError as error:
                    outcomes[index] = error

        async with asyncio.TaskGroup() as group:
            for _ in range(in_flight):
                group.create_task(work())
        return _receipts([outcomes[index] for index in range(len(outcomes))])

    async def queues(self, topic: str, *, timeout_s: float = TIMEOUT_S) -> list[QueueRef]:
        """The queues that take messages of a topic now. Raises TopicNotFound or NoNameServer."""
        opened = self._usable()
        route = await opened.instance.routes.find(wrapped(self._config.namespace, topic), timeout_s)
        return [queue._replace(topic=topic) for queue in route.queues]

    def statistics(self) -> ProducerStatistics:
        """A copy of the counts up to now."""
        window = None if self._open is None else self._open.window
        return replace(
            self._statistics,
            in_flight_count=0 if window is None else window.count,
            waiting_count=0 if window is None else window.waiting_count,
        )

    # How it is done.

    def _usable(self) -> _Open:
        if self._open is None or self._is_closed:
            raise NotOpen(_WHAT, was_open=self._is_closed)
        self._open.instance.check_usable()
        return self._open

    def _ready(self, opened: _Open, message: Message, delay: Delay | None) -> Ready:
        check_message(message, self._config)
        now_ms = self._clock.now_ms()
        extra = {} if delay is None else delay_properties(delay, now_ms)
        message_id = opened.instance.unique_ids.make(now_ms)
        text = property_text(message, message_id, extra, self._config.namespace)
        return Ready(message, message_id, text, Property.TIMER_DELIVER_MS in extra)

    async def _enter(
        self, opened: _Open, messages: Sequence[Message], size: int, timeout_s: float
    ) -> None:
        try:
            await opened.window.enter(size, timeout_s)
        except TimeoutError:
            reason = f"no room within {timeout_s:g} s: {opened.window} are on their way"
            error = SendFailed(messages[0].topic, reason)
            self._statistics.note_error(error, len(messages))
            raise error from None

    async def _outgoing(self, ready: Ready) -> Outgoing:
        message = ready.message
        if len(message.body) > _COMPRESSED_INLINE_SIZE_MAX and is_compressed(message, self._config):
            return await asyncio.to_thread(outgoing_of, ready, self._config)
        return outgoing_of(ready, self._config)

    async def _send_together(
        self, batch: Sequence[Ready], place: Place, deadline_s: float
    ) -> list[SendReceipt]:
        assert self._open is not None
        if len(batch) == 1:
            outgoing = await self._outgoing(batch[0])
        else:
            outgoing = outgoing_batch(batch, self._config)
        return await self._open.sender.send(outgoing, place, deadline_s)

    async def _send_parts(
        self, parts: Sequence[Sequence[Ready]], place: Place, deadline_s: float
    ) -> list[SendReceipt]:
        outcomes: list[Outcome] = []
        for part in parts:
            if outcomes and isinstance(outcomes[-1], ClientError):
                # A later message must not be there while an earlier one is not.
                topic = part[0].message.topic
                outcomes += [SendFailed(topic, "not tried after a failure") for _ in part]
            else:
                sending = self._send_together(part, place, deadline_s)
                outcomes += await outcomes_of(sending, len(part))
        return _receipts(outcomes)

    def _is_gathered(self, message: Message) -> bool:
        return can_be_batched(message.topic) and not is_compressed(message, self._config)

    def _heartbeat(self, client_id: str) -> Heartbeat:
        group = wrapped(self._config.namespace, self._config.group)
        return Heartbeat(client_id=client_id, producer_data_set=[ProducerData(group_name=group)])


def _place(message: Message, queue: QueueRef | None, order_key: OrderKey | None) -> Place:
    if queue is None and order_key is None:
        return ANYWHERE
    if queue is not None and order_key is not None:
        raise BadArgument("give `queue` or `order_key`, not both")
    if queue is not None and queue.topic != message.topic:
        raise BadArgument(f"{queue} is no queue of topic {message.topic!r}")
    return Place(queue, order_key)


def _first_of_batch(messages: Sequence[Message]) -> Message:
    if not messages:
        raise BadArgument("an empty batch cannot be sent")
    topics = {message.topic for message in messages}
    if len(topics) > 1:
        raise BadArgument(f"a batch has one topic, not {sorted(topics)}; send one for each")
    if not can_be_batched(messages[0].topic):
        raise BadArgument(f"retry topic {messages[0].topic!r} takes no batches; send one by one")
    return messages[0]


def _receipts(outcomes: Sequence[Outcome]) -> list[SendReceipt]:
    receipts = [outcome for outcome in outcomes if isinstance(outcome, SendReceipt)]
    if len(receipts) < len(outcomes):
        raise SomeFailed(outcomes)
    return receipts

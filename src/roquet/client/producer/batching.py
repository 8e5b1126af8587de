"""Messages that share a request: which may, cut to size, written as one body, gathered."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from typing import Final, final

from roquet.client.config import ProducerConfig
from roquet.client.errors import BadArgument, ClientError, NotYetSafe, SendUnknown
from roquet.client.names import wrapped
from roquet.client.producer.fast_batches import OpenBatch, batch_body
from roquet.client.producer.outgoing import (
    BATCH,
    GATHERED_COUNT_MAX,
    ITEM_SIZE,
    Outgoing,
    Ready,
)
from roquet.client.producer.queue_choice import ANYWHERE, Target
from roquet.client.producer.receipt import SendReceipt
from roquet.client.producer.request_reply import ReplyMessage
from roquet.net.service import Services
from roquet.protocol.errors import ProtocolError
from roquet.protocol.messages.batch import decode_batch
from roquet.protocol.messages.message import Message, Property
from roquet.protocol.messages.properties import properties_text, property_of_bytes
from roquet.protocol.names import RETRY_PREFIX

# A broker takes no more in one request.
BATCH_COUNT_MAX: Final = 65_000
# Beyond this a larger request of gathered messages saves nothing more.
GATHERED_SIZE_MAX: Final = 256 * 1024
_BATCH_PROPERTIES: Final = properties_text({Property.WAIT: "true"})
# A broker handles these only in messages that are sent alone.
_NOT_IN_BATCHES: Final = tuple(
    name.encode()
    for name in (
        Property.DELAY,
        Property.TIMER_DELAY_S,
        Property.TIMER_DELAY_MS,
        Property.TIMER_DELIVER_MS,
        Property.TRANSACTION_PREPARED,
    )
)

SendResult = SendReceipt | ClientError

# Messages, target and deadline of one request, to a receipt for each; raises ClientError.
SendTogether = Callable[[Sequence[Ready], Target, float], Awaitable[Sequence[SendReceipt]]]


class _Destination:
    """Messages of one topic and target, which may share a request."""

    __slots__ = ("batch", "timer", "topic", "turn")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.batch = OpenBatch()
        self.timer: asyncio.TimerHandle | None = None
        self.turn = asyncio.Lock()


@final
class Batcher:
    """Collects messages for up to `linger_s`, then sends them together. Belongs to the loop."""

    def __init__(
        self, send: SendTogether, services: Services, linger_s: float, size_max: int
    ) -> None:
        self._send = send
        self._services = services
        self._linger_s = linger_s
        self.size_max = min(size_max, GATHERED_SIZE_MAX)
        # What waits for more, by topic: of messages for any queue.
        self.open_batches: dict[str, OpenBatch] = {}
        self._loop = asyncio.get_running_loop()
        self._destinations: dict[tuple[str, Target], _Destination] = {}

    def add(self, message: Ready, target: Target, timeout_s: float) -> asyncio.Future[SendReceipt]:
        """The receipt to come, or a SendError."""
        topic = message.message.topic
        key = (topic, target)
        size = size_of(message)
        to = self._destinations.get(key)
        if to is None:
            to = self._destinations[key] = _Destination(topic)
        if to.batch.size + size > self.size_max:
            self._flush(to, target)
        waiting: asyncio.Future[SendReceipt] = self._loop.create_future()
        batch = to.batch
        batch.add(message, waiting, size, timeout_s)
        if len(batch.messages) >= GATHERED_COUNT_MAX:
            self._flush(to, target)
        elif to.timer is None:
            to.timer = self._loop.call_later(self._linger_s, self._flush, to, target)
            if target is ANYWHERE:
                self.open_batches[topic] = batch
        return waiting

    def flush(self) -> None:
        """Sends everything that waits."""
        for (_, target), to in self._destinations.items():
            self._flush(to, target)

    def _flush(self, to: _Destination, target: Target) -> None:
        if to.timer is not None:
            to.timer.cancel()
            to.timer = None
        if to.batch.messages:
            batch, to.batch = to.batch, OpenBatch()
            if target is ANYWHERE:
                self.open_batches.pop(to.topic, None)
            self._services.once("send batch", lambda: self._send_batch(to, target, batch))

    async def _send_batch(self, to: _Destination, target: Target, batch: OpenBatch) -> None:
        messages = batch.messages
        # From now on: while it waited for others, it was not for a broker to answer.
        deadline_s = self._loop.time() + batch.timeout_s
        try:
            # In a fixed queue one request must not overtake the other.
            async with to.turn if target.is_fixed else nullcontext():
                sending = self._send(messages, target, deadline_s)
                results = await results_of(sending, messages)
            batch.hand_out(results)
        except BaseException:
            # Cancelled, or a bug: no sender may be left waiting for ever.
            reason = "the producer was closed meanwhile"
            batch.hand_out([SendUnknown(to.topic, reason, each.message_id) for each in messages])
            raise


async def results_of(
    receipts: Awaitable[Sequence[SendReceipt]], messages: Sequence[Ready]
) -> list[SendResult]:
    """What became of each of the messages that share a request."""
    try:
        return [*await receipts]
    except NotYetSafe as error:
        return [NotYetSafe(error.topic, error.reason, (each,)) for each in error.receipts]
    except ClientError as error:
        # Each message gets an error of its own, because raising one changes it.
        return [_error_of(error, ready) for ready in messages]


def _error_of(error: ClientError, ready: Ready) -> ClientError:
    own = copy(error)
    if isinstance(own, SendUnknown):
        own.message_id = ready.message_id
    return own


def cut_to_size(messages: Sequence[Ready], size_max: int) -> Iterator[list[Ready]]:
    """The messages in order, in as few parts as fit; one that is too large alone stays alone."""
    part: list[Ready] = []
    part_size = 0
    for message in messages:
        size = size_of(message)
        if part and (part_size + size > size_max or len(part) >= BATCH_COUNT_MAX):
            yield part
            part, part_size = [], 0
        part.append(message)
        part_size += size
    if part:
        yield part


def size_of(ready: Ready) -> int:
    """How much of a batch it takes."""
    text = ready.properties
    properties_size = len(text) if text.isascii() else len(text.encode())
    return ITEM_SIZE + len(ready.message.body) + properties_size


def outgoing_batch(batch: Sequence[Ready], config: ProducerConfig) -> Outgoing:
    """Many messages of one topic for one request; batches are never compressed."""
    topic = batch[0].message.topic
    return Outgoing(
        batch,
        topic,
        wrapped(config.namespace, topic),
        batch_body(batch),
        _BATCH_PROPERTIES,
        BATCH,
    )


def outgoing_encoded(ready: Ready, count: int, config: ProducerConfig) -> Outgoing:
    """A body that is a batch already, as if it were one message. Raises BadArgument."""
    message = ready.message
    if not 0 < count <= BATCH_COUNT_MAX:
        raise BadArgument(f"a batch has 1 to {BATCH_COUNT_MAX} messages, not {count}", "count")
    if not can_be_batched(message):
        raise BadArgument(f"topic {message.topic!r} takes no batches; send one by one", "topic")
    _check_kinds(message.body)
    return Outgoing(
        (ready,),
        message.topic,
        wrapped(config.namespace, message.topic),
        message.body,
        _BATCH_PROPERTIES,
        BATCH,
        encoded_count=count,
    )


def _check_kinds(body: bytes) -> None:
    """Raises BadArgument for messages that a broker would treat against their properties."""
    suspects = [name for name in _NOT_IN_BATCHES if name + b"\x01" in body]
    if not suspects:
        return
    # Maybe only the body of a message.
    try:
        items = decode_batch(body)
    except ProtocolError as error:
        raise BadArgument(f"the body is no batch: {error}", "body") from None
    for item in items:
        for name in suspects:
            if property_of_bytes(item.properties, name) is not None:
                raise BadArgument(
                    f"a message with the property {name.decode()} cannot be in a batch: what waits "
                    "for a time or a transaction is sent alone",
                    "body",
                )


def can_share(message: Message, config: ProducerConfig) -> bool:
    """Whether others may be sent in the same request as this one, if it is a normal message."""
    compress_over = config.compress_over
    return (compress_over is None or len(message.body) < compress_over) and can_be_batched(message)


def can_be_batched(message: Message) -> bool:
    """A retry topic takes messages one by one, because each may have to go elsewhere.

    So do brokers with replies, which they pass on.
    """
    return not (message.topic.startswith(RETRY_PREFIX) or isinstance(message, ReplyMessage))

"""Messages that share a request: cut to size, or gathered while they wait for each other."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from typing import Final, final

from roquet.client.errors import ClientError, NotYetSafe, SendUnknown
from roquet.client.producer.gathered import Gathered
from roquet.client.producer.outgoing import BATCH_COUNT_MAX, Ready
from roquet.client.producer.receipt import SendReceipt
from roquet.client.producer.sending import ANYWHERE, Target
from roquet.net.service import Services

# Beyond this a larger request saves nothing more.
GATHERED_COUNT_MAX: Final = 1000
GATHERED_SIZE_MAX: Final = 256 * 1024

# Sizes of a message in a batch, besides its body and its properties.
ITEM_SIZE: Final = 22

SendResult = SendReceipt | ClientError

# Messages, target and deadline of one request, to a receipt for each; raises ClientError.
SendTogether = Callable[[Sequence[Ready], Target, float], Awaitable[Sequence[SendReceipt]]]


async def results_of(receipts: Awaitable[Sequence[SendReceipt]], count: int) -> list[SendResult]:
    """What became of each of `count` messages that share a request."""
    try:
        return [*await receipts]
    except NotYetSafe as error:
        return [NotYetSafe(error.topic, error.reason, (each,)) for each in error.receipts]
    except ClientError as error:
        # Each message gets an error of its own, because raising one changes it.
        return [copy(error) for _ in range(count)]


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


class _Lane:
    """Messages that may share a request."""

    __slots__ = ("gathered", "timer", "topic", "turn")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.gathered = Gathered()
        self.timer: asyncio.TimerHandle | None = None
        self.turn = asyncio.Lock()


@final
class Gatherer:
    """Collects messages for up to `linger_s`, then sends them together. Belongs to the loop."""

    def __init__(
        self, send: SendTogether, services: Services, linger_s: float, size_max: int
    ) -> None:
        self._send = send
        self._services = services
        self._linger_s = linger_s
        self.size_max = min(size_max, GATHERED_SIZE_MAX)
        # What waits for more, by topic: of messages for any queue.
        self.begun: dict[str, Gathered] = {}
        self._loop = asyncio.get_running_loop()
        self._lanes: dict[tuple[str, Target], _Lane] = {}

    def add(self, message: Ready, target: Target, deadline_s: float) -> asyncio.Future[SendReceipt]:
        """What becomes of it: a receipt or a SendError."""
        topic = message.message.topic
        key = (topic, target)
        size = size_of(message)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = _Lane(topic)
        if lane.gathered.size + size > self.size_max:
            self._flush(lane, target)
        waiting: asyncio.Future[SendReceipt] = self._loop.create_future()
        gathered = lane.gathered
        gathered.add(message, waiting, size, deadline_s)
        if len(gathered.messages) >= GATHERED_COUNT_MAX:
            self._flush(lane, target)
        elif lane.timer is None:
            lane.timer = self._loop.call_later(self._linger_s, self._flush, lane, target)
            if target is ANYWHERE:
                self.begun[topic] = gathered
        return waiting

    def flush(self) -> None:
        """Sends everything that waits."""
        for (_, target), lane in self._lanes.items():
            self._flush(lane, target)

    def _flush(self, lane: _Lane, target: Target) -> None:
        if lane.timer is not None:
            lane.timer.cancel()
            lane.timer = None
        if lane.gathered.messages:
            gathered, lane.gathered = lane.gathered, Gathered()
            if target is ANYWHERE:
                self.begun.pop(lane.topic, None)
            self._services.once("send gathered", lambda: self._send_off(lane, target, gathered))

    async def _send_off(self, lane: _Lane, target: Target, gathered: Gathered) -> None:
        messages = gathered.messages
        try:
            # In a fixed queue one request must not overtake the other.
            async with lane.turn if target.is_fixed else nullcontext():
                sending = self._send(messages, target, gathered.deadline_s)
                results = await results_of(sending, len(messages))
            gathered.hand_out(results)
        except BaseException:
            # Cancelled, or a mistake of ours: nobody may be left waiting for ever.
            reason = "the producer was closed meanwhile"
            gathered.hand_out([SendUnknown(lane.topic, reason) for _ in messages])
            raise

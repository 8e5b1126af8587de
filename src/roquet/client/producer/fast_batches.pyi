from asyncio import AbstractEventLoop, Future
from collections.abc import Iterator, Sequence
from typing import Any, Final

from roquet.client.cluster.instance import ClientInstance
from roquet.client.config import ProducerConfig
from roquet.client.errors import ClientError
from roquet.client.producer.batching import Batcher
from roquet.client.producer.outgoing import Ready
from roquet.client.producer.receipt import SendReceipt
from roquet.client.producer.window import Window
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.protocol.headers.messages import SendMessageReplyHeader
from roquet.protocol.messages.message import Message
from roquet.protocol.messages.message_id import UniqueIdMaker

END: Final[object]

class FastBatching:
    def __init__(
        self,
        messages: FastMessages,
        batcher: Batcher,
        window: Window,
        instance: ClientInstance,
        loop: AbstractEventLoop,
    ) -> None: ...
    def add(self, message: Message, timeout_s: float) -> Future[SendReceipt] | None: ...
    def leave(self, size: int) -> None: ...

class OpenBatch:
    messages: list[Ready]
    waiting: list[Future[SendReceipt]]
    size: int
    timeout_s: float
    def __init__(self) -> None: ...
    def add(
        self, message: Ready, waiting: Future[SendReceipt], size: int, timeout_s: float
    ) -> None: ...
    def hand_out(self, results: list[SendReceipt | ClientError]) -> None: ...

class Occupancy:
    count: int
    size: int
    is_watched: bool
    def __init__(self, count_max: int, size_max: int) -> None: ...
    def has_room(self, size: int) -> bool: ...
    def try_enter(self, size: int) -> bool: ...
    def leave(self, size: int) -> None: ...

class FastMessages:
    def __init__(self, config: ProducerConfig, unique_ids: UniqueIdMaker, clock: Clock) -> None: ...
    def ready(self, message: Message, topic: str) -> Ready | None: ...
    def fill(
        self, part: list[Ready], source: Iterator[Any], size_max: int, count_max: int
    ) -> tuple[Any, int]: ...

def batch_body(messages: Sequence[Ready]) -> bytes: ...
def stored_receipts(
    messages: Sequence[Ready],
    queue: QueueRef,
    offset_ids: Sequence[str],
    header: SendMessageReplyHeader,
) -> list[SendReceipt]: ...

from asyncio import AbstractEventLoop, Future

from roquet.client.cluster.instance import ClientInstance
from roquet.client.producer.batching import Gatherer
from roquet.client.producer.plain_messages import PlainMessages
from roquet.client.producer.receipt import SendReceipt
from roquet.client.producer.window import Window
from roquet.protocol.messages.message import Message

class PlainGathering:
    def __init__(
        self,
        messages: PlainMessages,
        gatherer: Gatherer,
        window: Window,
        instance: ClientInstance,
        loop: AbstractEventLoop,
    ) -> None: ...
    def add(self, message: Message, timeout_s: float) -> Future[SendReceipt] | None: ...
    def leave(self, size: int) -> None: ...

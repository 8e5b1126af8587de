from collections.abc import Iterator
from typing import Any, Final

from roquet.client.config import ProducerConfig
from roquet.client.producer.outgoing import Ready
from roquet.clock import Clock
from roquet.protocol.messages.message import Message
from roquet.protocol.messages.message_id import UniqueIdMaker

END: Final[object]

class PlainMessages:
    def __init__(self, config: ProducerConfig, unique_ids: UniqueIdMaker, clock: Clock) -> None: ...
    def ready(self, message: Message, topic: str) -> Ready | None: ...
    def fill(
        self, part: list[Ready], source: Iterator[Any], size_max: int, count_max: int
    ) -> tuple[Any, int]: ...

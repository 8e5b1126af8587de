from typing import final

from roquet.store.config import StoreConfig
from roquet.store.consume_queue import ConsumeQueue
from roquet.store.reading.gathering import Gathering
from roquet.store.reading.queue_reading import QueueReadLimits
from roquet.store.write_cursors import LogCursor

@final
class FastReads:
    def __init__(
        self, log: LogCursor, queues: dict[tuple[bytes, int], ConsumeQueue], *, is_sync: bool
    ) -> None: ...
    def obey(self, config: StoreConfig) -> None: ...
    def read(
        self, topic: bytes, queue_id: int, offset: int, limits: QueueReadLimits
    ) -> tuple[Gathering, int, int] | None: ...

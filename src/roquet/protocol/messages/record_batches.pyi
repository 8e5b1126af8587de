from collections.abc import Sequence
from typing import Final, TypeAlias, final

from roquet.protocol.messages.drafts import RecordDraft, WriteBuffer

@final
class SentBatch:
    topic: Final[bytes]
    queue_id: Final[int]
    body_size: Final[int]
    size: Final[int]
    sizes: Final[list[int]]
    tags_codes: Final[list[int]]

    def __init__(self, common: RecordDraft, body: bytes) -> None: ...
    def write(
        self,
        buffer: WriteBuffer,
        position: int,
        queue_offset: int,
        physical_offset: int,
        store_timestamp: int,
    ) -> None: ...

@final
class DraftBatch:
    topic: Final[bytes]
    queue_id: Final[int]
    body_size: Final[int]
    size: Final[int]
    sizes: Final[list[int]]
    tags_codes: Final[list[int]]

    def __init__(self, drafts: Sequence[RecordDraft]) -> None: ...
    def write(
        self,
        buffer: WriteBuffer,
        position: int,
        queue_offset: int,
        physical_offset: int,
        store_timestamp: int,
    ) -> None: ...

RecordBatch: TypeAlias = SentBatch | DraftBatch

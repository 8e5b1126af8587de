from mmap import mmap
from typing import Final, TypeAlias, final

WriteBuffer: TypeAlias = bytearray | memoryview | mmap

@final
class RecordDraft:
    queue_id: Final[int]
    flag: Final[int]
    sys_flag: Final[int]
    born_timestamp: Final[int]
    born_host: Final[bytes]
    store_host: Final[bytes]
    body: Final[bytes | memoryview]
    topic: Final[bytes]
    properties: Final[bytes]
    reconsume_times: Final[int]
    prepared_transaction_offset: Final[int]
    magic: Final[int]
    has_checksum: Final[bool]
    body_crc: Final[int]
    size: Final[int]

    def __init__(
        self,
        *,
        queue_id: int,
        flag: int,
        sys_flag: int,
        born_timestamp: int,
        born_host: bytes,
        store_host: bytes,
        body: bytes | memoryview,
        topic: bytes,
        properties: bytes,
        reconsume_times: int = 0,
        prepared_transaction_offset: int = 0,
        magic: int = ...,
        has_checksum: bool = False,
    ) -> None: ...
    def write(
        self,
        buffer: WriteBuffer,
        position: int,
        queue_offset: int,
        physical_offset: int,
        store_timestamp: int,
    ) -> None: ...
    def pack(self, queue_offset: int, physical_offset: int, store_timestamp: int) -> bytes: ...

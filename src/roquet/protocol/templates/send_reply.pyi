from typing import final

@final
class SendReplyTemplate:
    def __init__(self, store_host: bytes, region_id: str, *, is_traced: bool) -> None: ...
    def fill(
        self, opaque: int, physical_offsets: list[int], queue_id: int, queue_offset: int
    ) -> bytes: ...

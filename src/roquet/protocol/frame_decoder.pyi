from typing import final

from roquet.protocol.frame import Frame

@final
class FrameDecoder:
    @property
    def pending_size(self) -> int: ...
    def __init__(self, frame_size_max: int = ..., header_size_max: int = ...) -> None: ...
    def cut(self, data: bytes) -> list[Frame]: ...

from typing import Any, Final, TypeVar

from roquet.protocol.messages.message import StoredMessage

class LazyRecord:
    size: Final[int]
    queue_offset: Final[int]
    queue: Any
    _namespace: Final[str | None]

    def __init__(
        self,
        buffer: bytes,
        position: int,
        size: int,
        queue: Any,
        queue_offset: int,
        namespace: str | None = None,
    ) -> None: ...
    @property
    def record(self) -> StoredMessage: ...
    @property
    def body(self) -> bytes: ...

_R = TypeVar("_R", bound=LazyRecord)

def split_lazily(
    kind: type[_R], buffer: bytes, queue: Any, namespace: str | None = None
) -> list[_R]: ...

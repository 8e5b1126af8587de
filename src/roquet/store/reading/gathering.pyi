from collections.abc import Callable
from mmap import mmap
from typing import Final, Protocol, final

class _ReadLimits(Protocol):
    @property
    def count_max(self) -> int: ...
    @property
    def size_max(self) -> int: ...
    @property
    def matches_code(self) -> Callable[[int], bool] | None: ...
    @property
    def matches_record(self) -> Callable[[bytes], bool] | None: ...

class _Queue(Protocol):
    @property
    def queue_id(self) -> int: ...
    @property
    def topic(self) -> bytes: ...

@final
class Gathering:
    count: Final[int]
    size: Final[int]
    offset: Final[int]

    def __init__(self, limits: _ReadLimits, entries: bytes, offset: int, queue: _Queue) -> None: ...
    def limit(self, count_max: int, size_max: int) -> None: ...
    def next_entry(self) -> tuple[int, int] | None: ...
    def take_common(
        self,
        mapping: mmap,
        file_start: int,
        end: int,
        is_verified: bool,
        checksums_from: int,
        fresh_from: int,
    ) -> bool: ...
    def take(self, record: bytes) -> None: ...
    def body(self) -> bytes: ...

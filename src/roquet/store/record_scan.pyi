from mmap import mmap
from typing import TypeAlias

# The members of a `LogRecord`.
Head: TypeAlias = tuple[int, int, bytes, int, int, int, int, bytes]
# The members of a `QueueRun`.
Run: TypeAlias = tuple[bytes, int, int, bytes]

def scan_heads(
    buffer: bytes | memoryview | mmap,
    base: int,
    position: int,
    end: int,
    size_max: int,
    must_have_checksum: bool = False,
) -> tuple[list[Head], int, str | None]: ...
def scan_runs(
    buffer: bytes | memoryview | mmap,
    base: int,
    position: int,
    end: int,
    size_max: int,
    must_have_checksum: bool = False,
) -> tuple[int, int, int, list[Run], list[Head], int, str | None]: ...
def scan_places(
    buffer: bytes | memoryview | mmap,
    base: int,
    position: int,
    end: int,
    size_max: int,
    count_max: int,
    with_checksums: bool,
    must_have_checksum: bool = False,
) -> tuple[list[int], int, str | None]: ...
def scan_whole(
    buffer: bytes | memoryview | mmap,
    base: int,
    position: int,
    stop: int,
    end: int,
    size_max: int,
    with_checksums: bool,
    must_have_checksum: bool = False,
) -> tuple[int, int, str | None]: ...

"""What was written to a file that is longer than that."""

from typing import Final

from roquet.store.files.mapped_file import MappedFile
from roquet.store.files.zeros import is_zero

# This much is stripped of zeros byte by byte.
_STRIPPED_SIZE: Final = 64


def written_bytes(file: MappedFile) -> bytes:
    """All up to the last byte that is not zero."""
    parts: list[bytes] = []
    end = 0
    for start, data_end in file.data_ranges():
        parts += bytes(start - end), file.peek(start, data_end - start)
        end = data_end
    found = b"".join(parts)
    # Most of it is space that was taken ahead, and to strip it byte by byte takes its time.
    size = len(found)
    while size > _STRIPPED_SIZE and is_zero(found, size // 2, size):
        size //= 2
    return found[:size].rstrip(b"\0")

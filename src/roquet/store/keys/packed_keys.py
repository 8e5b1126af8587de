"""Keys on their way from the log into the index, packed as compiled code reads and writes them.

key, in the byte order of the machine
  0  int64  physical offset of the message
  8  int64  its store timestamp
 16  int32  hash of the key, not negative
 20  4      unused
"""

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple, final

_KEY: Final = Struct("=qqi4x")
KEY_SIZE: Final = 24
assert _KEY.size == KEY_SIZE


class Key(NamedTuple):
    physical_offset: int
    timestamp: int
    key_hash: int


@final
class KeyBatch:
    """Keys in the order of the log."""

    __slots__ = ("packed",)

    def __init__(self, packed: bytes) -> None:
        self.packed = packed

    def __len__(self) -> int:
        return len(self.packed) // KEY_SIZE

    def __iter__(self) -> Iterator[Key]:
        return map(Key._make, _KEY.iter_unpack(self.packed))

    @property
    def first(self) -> Key:
        return Key._make(_KEY.unpack(self.packed[:KEY_SIZE]))

    @property
    def last(self) -> Key:
        return Key._make(_KEY.unpack(self.packed[-KEY_SIZE:]))

    def part(self, start: int, end: int | None = None) -> "KeyBatch":
        end = len(self) if end is None else end
        return KeyBatch(self.packed[start * KEY_SIZE : end * KEY_SIZE])


def pack_keys(keys: Iterable[Key]) -> KeyBatch:
    pack = _KEY.pack
    return KeyBatch(b"".join([pack(*each) for each in keys]))


def join_batches(batches: Iterable[KeyBatch]) -> KeyBatch:
    return KeyBatch(b"".join([each.packed for each in batches]))

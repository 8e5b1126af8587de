"""An entry of a queue: where a message lies in the commit log.

    entry i, at byte 20 * i of the queue
      0  int64  physical offset of the record
      8  int32  size of the record
     12  int64  hash of the tag; the time of delivery in the queues of delayed messages

A blank, offset 0 and the largest size, stands where there is no message: before the first of
a queue that begins in the middle of a file, and for one that is lost forever.
"""

from struct import Struct
from typing import Final, NamedTuple

BLANK_SIZE: Final = 2**31 - 1

_ENTRY: Final = Struct(">qiq")
ENTRY_SIZE: Final = _ENTRY.size
pack_entry: Final = _ENTRY.pack
pack_entry_into: Final = _ENTRY.pack_into
unpack_entries: Final = _ENTRY.iter_unpack
BLANK: Final = pack_entry(0, BLANK_SIZE, 0)


class QueueEntry(NamedTuple):
    physical_offset: int
    size: int
    tags_code: int

    @property
    def physical_end(self) -> int:
        return self.physical_offset + self.size

    @property
    def is_blank(self) -> bool:
        return self.physical_offset == 0 and self.size == BLANK_SIZE

    @staticmethod
    def unpack(entry: bytes) -> "QueueEntry":
        return QueueEntry(*_ENTRY.unpack(entry))

"""One file of the key index: a hash table from keys to physical offsets.

      0  int64  store timestamp of the first message
      8  int64  ... of the last
     16  int64  physical offset of the first message
     24  int64  ... of the last
     32  int32  slots in use
     36  int32  number of the next entry; entry 0 is never used
     40  int32  x slot count: number of the newest entry of each slot, 0 for none
    ...  20     x entry count

    entry
      0  int32  hash of the key, not negative
      4  int64  physical offset
     12  int32  seconds since the first message of the file
     16  int32  number of the next older entry of the same slot, 0 for none

`message_keys.py` defines which texts are keys. The size of a file does not determine its shape: one
entry takes as much space as five slots. But only one division makes the first and the last entry
those of the header, and the last one the newest of its slot (`shape_of`).
"""

from collections.abc import Iterator
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple, final

from roquet.disk import Disk
from roquet.store.files.mapped_file import MappedFile, create_file
from roquet.store.keys.index_entries import find_entries, put_entries
from roquet.store.keys.message_keys import KeyBatch

_HEADER: Final = Struct(">qqqqii")
_SLOT_SIZE: Final = 4
_ENTRY: Final = Struct(">iqii")
assert _HEADER.size == 40
assert _ENTRY.size == 20
_unpack_entry = _ENTRY.unpack_from
_unpack_slot = Struct(">i").unpack_from

SECONDS_MAX: Final = 2**31 - 1
_RESERVE_STEP: Final = 1 << 20
# Entries per slot by default.
_DEFAULT_RATIO: Final = 4
# Trying all shapes of a larger file would take long.
_TRIED_SIZE_MAX: Final = 1 << 25


class IndexHeader(NamedTuple):
    begin_timestamp: int = 0
    end_timestamp: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    used_slots: int = 0
    next_number: int = 1


def index_file_size(slot_count: int, entry_count: int) -> int:
    return _HEADER.size + slot_count * _SLOT_SIZE + entry_count * _ENTRY.size


@final
class IndexFile:
    """Written by one owner; `sync` and `give_back_memory` may run in another thread."""

    def __init__(self, file: MappedFile, slot_count: int, entry_count: int) -> None:
        self.file = file
        self._slot_count = slot_count
        self._entry_count = entry_count
        self._entries_start = _HEADER.size + slot_count * _SLOT_SIZE
        self.header = IndexHeader(*_HEADER.unpack_from(file.mapping, 0))
        if self.header.next_number <= 0:
            self.header = self.header._replace(next_number=1)
        self._synced_header: IndexHeader | None = None

    @property
    def is_full(self) -> bool:
        return self.header.next_number >= self._entry_count

    @property
    def is_sound(self) -> bool:
        """Whether the header is possible; the rest is checked when it is read."""
        return (
            self.header.next_number <= self._entry_count
            and 0 <= self.header.used_slots <= self._slot_count
        )

    @property
    def has_its_shape(self) -> bool:
        """Whether slots and entries start where this shape expects them; False for an empty file.

        Then the first and the last entry are those that the header names, the last one is the
        newest of its slot, and nothing lies after it.
        """
        last = self.header.next_number - 1
        if last < 1 or not self.is_sound:
            return False
        mapping = self.file.mapping
        _, begin, _, _ = _unpack_entry(mapping, self._entries_start + _ENTRY.size)
        key_hash, end, _, _ = _unpack_entry(mapping, self._entries_start + last * _ENTRY.size)
        slot = key_hash % self._slot_count
        (newest,) = _unpack_slot(mapping, _HEADER.size + slot * _SLOT_SIZE)
        after = self._entries_start + (last + 1) * _ENTRY.size
        header = self.header
        return (
            (begin, end) == (header.begin_physical_offset, header.end_physical_offset)
            and newest == last
            and not any(mapping[after : after + _ENTRY.size])
        )

    def put(self, batch: KeyBatch) -> int:
        """Add as many keys as the file has room for; their count. Raises OSError."""
        count = min(len(batch), self._entry_count - self.header.next_number)
        if count == 0:
            return 0
        batch = batch.part(0, count)
        first = self.header.next_number
        end = self._entries_start + (first + count) * _ENTRY.size
        self.file.reserve(end, _RESERVE_STEP)
        new_slots = put_entries(
            self.file.mapping,
            self._slot_count,
            first,
            self.header.begin_timestamp,
            batch.packed,
        )
        self._set_header(batch, count, new_slots)
        return count

    def find(self, key_hash: int, begin: int, end: int, count_max: int) -> list[int]:
        """Physical offsets of messages of that time, newest first. Hashes may collide."""
        since = self.header.begin_timestamp
        return find_entries(
            self.file.mapping,
            self._slot_count,
            self.header.next_number,
            key_hash,
            begin - since,
            end - since,
            count_max,
        )

    @property
    def filed_count(self) -> int:
        return self.header.next_number - 1

    def entries(self) -> bytes:
        """A copy of all entries, from number 1 on, one after another."""
        start = self._entries_start + _ENTRY.size
        return self.file.mapping[start : start + self.filed_count * _ENTRY.size]

    def hashes(self) -> Iterator[tuple[int, list[int]]]:
        """The physical offset of each record in this file, with the hashes of its keys."""
        entries = _ENTRY.iter_unpack(self.entries())
        for physical_offset, of_record in groupby(entries, itemgetter(1)):
            yield physical_offset, [key_hash for key_hash, *_ in of_record]

    def slots(self) -> bytes:
        """A copy of all slots."""
        return self.file.mapping[_HEADER.size : self._entries_start]

    def overlaps(self, begin: int, end: int) -> bool:
        return self.header.begin_timestamp <= end and self.header.end_timestamp >= begin

    def inherit(self, header: IndexHeader) -> None:
        """Start where the file before ended, as Apache does."""
        self.header = self.header._replace(
            begin_timestamp=header.end_timestamp,
            end_timestamp=header.end_timestamp,
            begin_physical_offset=header.end_physical_offset,
            end_physical_offset=header.end_physical_offset,
        )
        self._write_header()

    def sync(self) -> None:
        header = self.header
        if header != self._synced_header:
            self.file.sync()
            self._synced_header = header

    def give_back_memory(self) -> None:
        """Keep the slots while the file is not full: any of them may be next.

        Entries are written in order, and seldom read.
        """
        if self.file.is_touched:
            end = self._entries_start + self.header.next_number * _ENTRY.size
            self.file.give_back_memory(end, start=0 if self.is_full else self._entries_start)

    def _set_header(self, batch: KeyBatch, count: int, new_slots: int) -> None:
        header = self.header
        if header.next_number == 1:
            header = header._replace(
                begin_timestamp=batch.first.timestamp,
                begin_physical_offset=batch.first.physical_offset,
            )
        self.header = header._replace(
            end_timestamp=batch.last.timestamp,
            end_physical_offset=batch.last.physical_offset,
            used_slots=header.used_slots + new_slots,
            next_number=header.next_number + count,
        )
        self._write_header()

    def _write_header(self) -> None:
        _HEADER.pack_into(self.file.mapping, 0, *self.header)


def create_index_file(disk: Disk, path: Path, slot_count: int, entry_count: int) -> IndexFile:
    """A new, empty file with allocated slots. Raises OSError."""
    file = create_file(
        disk,
        path,
        0,
        index_file_size(slot_count, entry_count),
        allocated_size=_HEADER.size + slot_count * _SLOT_SIZE,
    )
    return IndexFile(file, slot_count, entry_count)


class IndexShape(NamedTuple):
    slot_count: int
    entry_count: int


def shape_of(file: MappedFile) -> IndexShape | None:
    """None if unknown: the file is empty, damaged, or large and not of the default shape."""
    shapes = _shapes(file.size)
    return next((each for each in shapes if IndexFile(file, *each).has_its_shape), None)


def _shapes(file_size: int) -> Iterator[IndexShape]:
    """Shapes that make a file of this size, the default one first."""
    size = file_size - _HEADER.size
    default = size // (_SLOT_SIZE + _DEFAULT_RATIO * _ENTRY.size)
    others = range(1, size // _SLOT_SIZE) if size <= _TRIED_SIZE_MAX else ()
    for slot_count in chain((default,), others):
        entry_count, rest = divmod(size - slot_count * _SLOT_SIZE, _ENTRY.size)
        if slot_count > 0 and rest == 0:
            yield IndexShape(slot_count, entry_count)

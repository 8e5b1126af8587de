"""The keys of many records at once, read where they lie in the log.

The sizes of all records are gathered in columns. Then their properties are joined, with a
separator in front of each and at the end, so that every property looks the same,

    02 UNIQ_KEY 01 7F00..01 02 TAGS 01 a 02 UNIQ_KEY 01 7F00..02 02 TAGS 01 b 02
    ^-------- row 0 ---------------------^--------- row 1 ---------------------^
       mark        value    mark

and a value is what lies between a mark and the next separator. Rows that are unusual in any
way (another magic, a property twice or empty, several keys, sizes that do not add up) are
left to `message_keys.py`, which decides what a key is: the result is the same.
"""

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from mmap import mmap
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from roquet.protocol.record import LAYOUTS, MAGIC_V1, TOPIC_SIZE_MAX_V1
from roquet.store.commit_log import CommitLog
from roquet.store.dispatch import TRANSACTION_MASK
from roquet.store.errors import BadRecord
from roquet.store.index_file import KeyBatch, join_batches
from roquet.store.log_scan import LogRecord
from roquet.store.mapped_file import MappedFile
from roquet.store.message_keys import (
    KEYS_MARK,
    ROLLBACK,
    TAGS_MARK,
    UNIQUE_KEY_MARK,
    key_batch,
    key_hashes,
)

Bytes: TypeAlias = npt.NDArray[np.uint8]
Positions: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

# Larger properties are unusual, and many of them at once would take much memory.
_PROPERTIES_SIZE_MAX: Final = 4096
_SEPARATOR: Final = 2
_SPACE: Final = 32
# Behind the last separator: whoever looks for a mark there looks at bytes that exist.
_ROOM: Final = bytes(16)

# Of the layouts in `record.py`. Two bits of the system flag say which of them a record has.
_HEAD: Final = np.dtype(
    {
        "names": ["size", "magic", "sys_flag"],
        "formats": [">i4", ">i4", ">i4"],
        "offsets": [0, 4, 36],
        "itemsize": 40,
    }
)
_ADDRESS_SHIFT: Final = 4
_ADDRESS_MASK: Final = 3
_STORE_TIMESTAMP_AT: Final = np.array([56, 68, 56, 68])
_BODY_AT: Final = np.array([layout.size for layout in LAYOUTS])


def keys_in_log(log: CommitLog, physical_offsets: Sequence[int], *, with_tags: bool) -> KeyBatch:
    """What `key_batch` says of the records that lie there, in a fraction of the time.

    The offsets ascend, and records were found or written at them. What is gone or damaged
    since has no keys. Raises OSError.
    """
    batches = []
    for file in log.files:
        first = bisect_left(physical_offsets, file.start)
        behind = bisect_left(physical_offsets, file.end)
        if first < behind:
            offsets = np.array(physical_offsets[first:behind], np.int64)
            batches.append(_keys_in_file(log, file, offsets, with_tags=with_tags))
    return join_batches(batches)


def _keys_in_file(
    log: CommitLog, file: MappedFile, offsets: Positions, *, with_tags: bool
) -> KeyBatch:
    rows, is_usual = _rows_at(file.mapping, offsets - file.start)
    usual_offsets = offsets[is_usual]
    found, is_odd = _find_values(rows, with_tags=with_tags)
    batches = [
        KeyBatch(key_hashes(each.texts(rows)), usual_offsets[each.rows], rows.timestamps[each.rows])
        for each in (values.without(is_odd) for values in found)
    ]
    odd_offsets = np.concatenate((offsets[~is_usual], usual_offsets[is_odd]))
    odd_records = [record for each in odd_offsets.tolist() if (record := _record_at(log, each))]
    batches.append(key_batch(odd_records, with_tags=with_tags))
    return _sorted(join_batches(batches))


class _Rows(NamedTuple):
    """Records of the usual kind."""

    prefixes: list[bytes]  # `topic#`
    timestamps: Positions
    joined: bytes
    starts: Positions  # where their properties begin in it, with the separator in front


class _Values(NamedTuple):
    """The values of one property: of which row, and where they lie in what is joined."""

    rows: Positions
    starts: Positions
    ends: Positions
    infix: bytes

    def without(self, is_odd: Mask) -> "_Values":
        is_usual = ~is_odd[self.rows]
        return _Values(self.rows[is_usual], self.starts[is_usual], self.ends[is_usual], self.infix)

    def texts(self, rows: _Rows) -> list[bytes]:
        prefixes = rows.prefixes
        joined = rows.joined
        places = zip(self.rows.tolist(), self.starts.tolist(), self.ends.tolist(), strict=True)
        if self.infix:
            return [prefixes[row] + self.infix + joined[start:end] for row, start, end in places]
        return [prefixes[row] + joined[start:end] for row, start, end in places]


def _rows_at(mapping: mmap, starts: Positions) -> tuple[_Rows, Mask]:
    """The usual ones among the records that begin at `starts`, and which these are."""
    buffer = np.frombuffer(mapping, np.uint8)
    heads = _items_at(buffer, starts, _HEAD)
    sys_flags = heads["sys_flag"]
    addresses = sys_flags >> _ADDRESS_SHIFT & _ADDRESS_MASK
    timestamps = _items_at(buffer, starts + _STORE_TIMESTAMP_AT[addresses], ">i8")
    body_starts = starts + _BODY_AT[addresses]
    body_sizes = _items_at(buffer, body_starts - 4, ">i4")
    topic_starts = body_starts + body_sizes + 1
    topic_sizes = _items_at(buffer, topic_starts - 1, "u1")
    topic_ends = topic_starts + topic_sizes
    property_sizes = _items_at(buffer, topic_ends, ">i2").astype(np.int64)
    property_starts = topic_ends + 2
    property_ends = property_starts + property_sizes
    is_usual = (
        (heads["magic"] == MAGIC_V1)
        & (sys_flags & TRANSACTION_MASK != ROLLBACK)
        & (body_sizes >= 0)
        & (topic_sizes <= TOPIC_SIZE_MAX_V1)
        & (property_sizes >= 0)
        & (property_sizes <= _PROPERTIES_SIZE_MAX)
        & (property_ends == starts + heads["size"])
        & (property_ends <= buffer.size)
    )
    joined = b"\x02".join(_slices(mapping, property_starts[is_usual], property_ends[is_usual]))
    row_ends = np.cumsum(property_sizes[is_usual] + 1)
    rows = _Rows(
        [topic + b"#" for topic in _slices(mapping, topic_starts[is_usual], topic_ends[is_usual])],
        timestamps[is_usual].astype(np.int64),
        b"\x02" + joined + b"\x02" + _ROOM,
        row_ends - property_sizes[is_usual] - 1,
    )
    return rows, is_usual


def _find_values(rows: _Rows, *, with_tags: bool) -> tuple[list[_Values], Mask]:
    """The values that are keys, and which rows are odd all the same."""
    units = np.frombuffer(rows.joined, np.uint8)
    separators = np.flatnonzero(units == _SEPARATOR)
    spaces = np.flatnonzero(units == _SPACE)
    is_odd = np.zeros(len(rows.prefixes), np.bool_)
    found = [
        _values_of(rows, units, separators, UNIQUE_KEY_MARK),
        _values_of(rows, units, separators, KEYS_MARK),
    ]
    # Several keys are separated by spaces.
    keys = found[-1]
    first_spaces = np.searchsorted(spaces, keys.starts)
    is_odd[keys.rows[first_spaces != np.searchsorted(spaces, keys.ends)]] = True
    if with_tags:
        found.append(_values_of(rows, units, separators, TAGS_MARK, b"T#"))
    for each in found:
        is_odd |= np.bincount(each.rows, minlength=is_odd.size) > 1
        is_odd[each.rows[each.starts == each.ends]] = True
    return found, is_odd


def _values_of(
    rows: _Rows, units: Bytes, separators: Positions, mark: bytes, infix: bytes = b""
) -> _Values:
    found = np.flatnonzero(_items_at(units, separators, f"S{len(mark)}") == mark)
    starts = separators[found] + len(mark)
    row_numbers = np.searchsorted(rows.starts, starts, "right") - 1
    return _Values(row_numbers, starts, separators[found + 1], infix)


def _items_at(buffer: Bytes, positions: Positions, item_type: npt.DTypeLike) -> npt.NDArray[Any]:
    """The item at each position, aligned or not.

    A size that lies leads anywhere: such positions are moved into the buffer.
    """
    item = np.dtype(item_type)
    # The buffer as overlapping items, one for each byte. Opaque ones are copied as a whole.
    opaque = np.dtype((np.void, item.itemsize))
    items = np.ndarray((buffer.size - item.itemsize + 1,), opaque, buffer, strides=(1,))
    return items[np.clip(positions, 0, items.size - 1)].view(item)


def _slices(mapping: mmap, starts: Positions, ends: Positions) -> list[bytes]:
    return [mapping[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _record_at(log: CommitLog, physical_offset: int) -> LogRecord | None:
    # What is damaged is not handed out, so nobody can be looking for it.
    with suppress(BadRecord):
        return log.record_at(physical_offset)
    return None


def _sorted(batch: KeyBatch) -> KeyBatch:
    """In the order of the log; keys of one message stay as they are."""
    order = np.argsort(batch.physical_offsets, kind="stable")
    return KeyBatch(batch.hashes[order], batch.physical_offsets[order], batch.timestamps[order])

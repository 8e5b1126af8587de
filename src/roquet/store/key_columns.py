"""The keys of many records at once, read where they lie in the log.

The sizes of all records are gathered in columns. Then what lies from their topics to their
ends is joined, with a separator behind each and one in place of the low byte of the size of
the properties, so that every property looks the same:

    TopicA 00 02 UNIQ_KEY 01 7F00..01 02 TAGS 01 a 02 TopicA 00 02 UNIQ_KEY 01 7F00..02 02
    ^- row 0 --------------------------------------^- row 1 -------------------------------
    topic        mark        value    mark

A value is what lies between a mark and the next separator. Rows that are unusual in any way
(another magic, a property twice or empty, several keys, sizes that do not add up, letters
beyond ASCII) are left to `message_keys.py`, which decides what a key is: the result is the
same.
"""

from bisect import bisect_left
from collections.abc import Sequence
from contextlib import suppress
from mmap import mmap
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from roquet.protocol.java_hash import PartHashes, index_hashes, joined_hashes
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
)

Bytes: TypeAlias = npt.NDArray[np.uint8]
Positions: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

# Larger properties are unusual. Together these limits say how much memory is needed at most.
_PROPERTIES_SIZE_MAX: Final = 1024
_ROW_COUNT_MAX: Final = 1024
_SEPARATOR: Final = 2
_SPACE: Final = 32
_ASCII_MAX: Final = 127
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
    """What `key_batch` says of the records that lie there, in about half of the time.

    The offsets ascend, and records were found or written at them. What is gone or damaged
    since has no keys. Raises OSError.
    """
    batches = []
    for file in log.files:
        first = bisect_left(physical_offsets, file.start)
        behind = bisect_left(physical_offsets, file.end)
        for start in range(first, behind, _ROW_COUNT_MAX):
            part = physical_offsets[start : min(start + _ROW_COUNT_MAX, behind)]
            batches.append(_keys_in_file(log, file, np.array(part), with_tags=with_tags))
    return join_batches(batches)


def _keys_in_file(
    log: CommitLog, file: MappedFile, offsets: Positions, *, with_tags: bool
) -> KeyBatch:
    rows, is_usual = _rows_at(file.mapping, offsets - file.start)
    found, is_odd = _find_values(rows, with_tags=with_tags)
    usual_offsets = offsets[is_usual]
    part_hashes = PartHashes(rows.units)
    topic_hashes = part_hashes.of(rows.topic_starts, rows.topic_ends)
    batches = []
    for values in found:
        each = values.without(is_odd)
        prefix_hashes = _extended(topic_hashes[each.rows], each.infix)
        value_hashes = part_hashes.of(each.starts, each.ends)
        hashes = joined_hashes(prefix_hashes, value_hashes, each.ends - each.starts)
        batches.append(
            KeyBatch(
                index_hashes(hashes.view(np.int32)),
                usual_offsets[each.rows],
                rows.timestamps[each.rows],
            )
        )
    odd_offsets = np.concatenate((offsets[~is_usual], usual_offsets[is_odd]))
    odd_records = [record for each in odd_offsets.tolist() if (record := _record_at(log, each))]
    batches.append(key_batch(odd_records, with_tags=with_tags))
    return _sorted(join_batches(batches))


class _Rows(NamedTuple):
    """Records of the usual kind. Positions are those in `units`, which are joined as drawn."""

    units: Bytes
    topic_starts: Positions
    topic_ends: Positions
    property_marks: Positions  # the separators before the first properties
    ends: Positions
    timestamps: Positions


class _Values(NamedTuple):
    """The values of one property: of which row, and where they lie."""

    rows: Positions
    starts: Positions
    ends: Positions
    infix: bytes  # between topic and value

    def without(self, is_odd: Mask) -> "_Values":
        is_usual = ~is_odd[self.rows]
        return _Values(self.rows[is_usual], self.starts[is_usual], self.ends[is_usual], self.infix)


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
    property_sizes = _items_at(buffer, topic_ends, ">i2")
    ends = topic_ends + 2 + property_sizes
    is_usual = (
        (heads["magic"] == MAGIC_V1)
        & (sys_flags & TRANSACTION_MASK != ROLLBACK)
        & (body_sizes >= 0)
        & (topic_sizes <= TOPIC_SIZE_MAX_V1)
        & (property_sizes >= 0)
        & (property_sizes <= _PROPERTIES_SIZE_MAX)
        & (ends == starts + heads["size"])
        & (ends <= buffer.size)
    )
    places = zip(topic_starts[is_usual].tolist(), ends[is_usual].tolist(), strict=True)
    rows = _joined_rows(
        [mapping[start:end] for start, end in places],
        topic_sizes[is_usual],
        timestamps[is_usual].astype(np.int64),
    )
    return rows, is_usual


def _joined_rows(texts: Sequence[bytes], topic_sizes: Bytes, timestamps: Positions) -> _Rows:
    units = np.frombuffer(bytearray(b"\x02".join((*texts, _ROOM))), np.uint8)
    sizes = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.cumsum(sizes + 1) - 1
    starts = ends - sizes
    topic_ends = starts + topic_sizes
    property_marks = topic_ends + 1
    units[property_marks] = _SEPARATOR
    return _Rows(units, starts, topic_ends, property_marks, ends, timestamps)


def _find_values(rows: _Rows, *, with_tags: bool) -> tuple[list[_Values], Mask]:
    """The values that are keys, and which rows are odd all the same."""
    units = rows.units
    separators = np.flatnonzero(units == _SEPARATOR)
    beyond_ascii = np.flatnonzero(units > _ASCII_MAX)
    spaces = np.flatnonzero(units == _SPACE)
    unique_keys = _values_of(rows, separators, UNIQUE_KEY_MARK, b"#")
    keys = _values_of(rows, separators, KEYS_MARK, b"#")
    found = [unique_keys, keys]
    if with_tags:
        found.append(_values_of(rows, separators, TAGS_MARK, b"#T#"))
    is_odd = _contain(beyond_ascii, rows.topic_starts, rows.topic_ends)
    # Several keys are separated by spaces.
    is_odd[keys.rows[_contain(spaces, keys.starts, keys.ends)]] = True
    for each in found:
        is_odd |= np.bincount(each.rows, minlength=is_odd.size) > 1
        is_empty = each.starts == each.ends
        is_odd[each.rows[is_empty | _contain(beyond_ascii, each.starts, each.ends)]] = True
    return found, is_odd


def _values_of(rows: _Rows, separators: Positions, mark: bytes, infix: bytes) -> _Values:
    found = np.flatnonzero(_items_at(rows.units, separators, f"S{len(mark)}") == mark)
    row_numbers = np.searchsorted(rows.property_marks, separators[found], "right") - 1
    # What looks like a mark in a topic would count for the row before it, or for none.
    is_property = (row_numbers >= 0) & (separators[found] < rows.ends[row_numbers])
    found = found[is_property]
    starts = separators[found] + len(mark)
    return _Values(row_numbers[is_property], starts, separators[found + 1], infix)


def _contain(positions: Positions, starts: Positions, ends: Positions) -> Mask:
    """Whether there is one of the positions in each of these parts."""
    if not positions.size:
        return np.zeros(starts.size, np.bool_)
    contain: Mask = np.searchsorted(positions, starts) != np.searchsorted(positions, ends)
    return contain


def _extended(hashes: npt.NDArray[np.uint32], infix: bytes) -> npt.NDArray[np.uint32]:
    """The hashes of longer texts."""
    for unit in infix:
        hashes = hashes * np.uint32(31) + np.uint32(unit)
    return hashes


def _items_at(buffer: Bytes, positions: Positions, item_type: npt.DTypeLike) -> npt.NDArray[Any]:
    """The item at each position, aligned or not.

    A size that lies leads anywhere: such positions are moved into the buffer.
    """
    item = np.dtype(item_type)
    # The buffer as overlapping items, one for each byte. Opaque ones are copied as a whole.
    opaque = np.dtype((np.void, item.itemsize))
    items = np.ndarray((buffer.size - item.itemsize + 1,), opaque, buffer, strides=(1,))
    return items[np.clip(positions, 0, items.size - 1)].view(item)


def _record_at(log: CommitLog, physical_offset: int) -> LogRecord | None:
    # What is damaged is not handed out, so nobody can be looking for it.
    with suppress(BadRecord):
        return log.record_at(physical_offset)
    return None


def _sorted(batch: KeyBatch) -> KeyBatch:
    """In the order of the log; keys of one message stay as they are."""
    order = np.argsort(batch.physical_offsets, kind="stable")
    return KeyBatch(batch.hashes[order], batch.physical_offsets[order], batch.timestamps[order])

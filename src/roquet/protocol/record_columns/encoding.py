"""Rows become the bodies of batch sends, cut by size and count; see `batch.py` for their form.

A batch goes to one queue of one topic, and neither is in its body: rows arrive sorted out.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roquet.protocol.messages.message import Property
from roquet.protocol.record_columns.arrays import Positions
from roquet.protocol.record_columns.row_errors import BadColumn, UnfitRow
from roquet.protocol.record_columns.row_writing import Maps, NamedTexts, RowWriter, Texts

_PROPERTY_COLUMNS: Final = {"tags": Property.TAGS, "keys": Property.KEYS}
_NO_PROPERTIES: Final[Mapping[str, pa.Array | str]] = {}


class EncodedBatch(NamedTuple):
    body: bytes
    first_row: int
    row_count: int
    ends: Positions  # of the messages in the body


def encode_batches(
    rows: pa.RecordBatch,
    *,
    size_max: int,
    count_max: int,
    extra: Mapping[str, pa.Array | str] = _NO_PROPERTIES,
) -> list[EncodedBatch]:
    """Bodies of at most `size_max` bytes and `count_max` messages that hold all rows in order.

    Of `rows` the column `body` is taken, binary or string and never null, and, where they are
    there, `tags`, `keys`, `flag`, and `properties`: a text as stored, of which only properties are
    kept, or a map. `extra` are more properties by name, a value for each row or one for all.
    Tags, keys and extra properties take the place of properties of their name; null and empty,
    they are not there. Other columns are for the caller.
    Where the cuts are depends on the rows alone. Raises BadProperty, RowTooLarge, both with
    the row, and BadColumn.
    """
    assert size_max > 0 < count_max
    if not rows.num_rows:
        return []
    writer = RowWriter(
        _bodies(_column(rows, "body")),
        _flags(_column(rows, "flag")),
        _properties(_column(rows, "properties")),
        _named(rows, extra),
    )
    ends = np.cumsum(np.frombuffer(writer.sizes(size_max), np.int64))
    batches: list[EncodedBatch] = []
    first = written = 0
    while first < rows.num_rows:
        fitting = int(np.searchsorted(ends, written + size_max, "right"))
        last = min(fitting, first + count_max)
        body = writer.write(first, last, int(ends[last - 1]) - written)
        batches.append(EncodedBatch(body, first, last - first, ends[first:last] - written))
        first, written = last, int(ends[last - 1])
    return batches


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index)


def _named(rows: pa.RecordBatch, extra: Mapping[str, pa.Array | str]) -> list[NamedTexts]:
    columns = [
        NamedTexts(property_name.encode(), _texts(name, column))
        for name, property_name in _PROPERTY_COLUMNS.items()
        if (column := _column(rows, name)) is not None and property_name not in extra
    ]
    return columns + [
        NamedTexts(name.encode(), _texts(name, _one_per_row(name, values, rows.num_rows)))
        for name, values in extra.items()
    ]


def _one_per_row(name: str, values: pa.Array | str, row_count: int) -> pa.Array:
    if isinstance(values, str):
        return pa.repeat(pa.scalar(values), row_count)
    if len(values) != row_count:
        raise BadColumn(name, f"has {len(values)} values for {row_count} rows")
    return values


def _bodies(column: pa.Array | None) -> Texts:
    if column is None:
        raise BadColumn("body", "is missing")
    if column.null_count:
        row = int(np.flatnonzero(np.asarray(column.is_null()))[0])
        raise UnfitRow(row, "it has no body; leave the row out or write an empty one")
    return _texts("body", column)


def _flags(column: pa.Array | None) -> npt.NDArray[np.int32] | None:
    if column is None:
        return None
    if not pa.types.is_integer(column.type):
        raise BadColumn("flag", f"must hold integers, not {column.type}")
    try:
        flags = column.fill_null(0).cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise BadColumn("flag", f"must fit 32 bits: {error}") from None
    return np.asarray(flags)


def _properties(column: pa.Array | None) -> Texts | Maps | None:
    if column is None or not pa.types.is_map(column.type):
        return None if column is None else _texts("properties", column)
    # A null may have something between its offsets.
    offsets = np.asarray(column.offsets)
    spans = np.stack((offsets[:-1], offsets[1:]), axis=1)
    if column.null_count:
        spans[np.asarray(column.is_null())] = 0
    names, values = column.keys, column.items
    return Maps(spans, _texts("properties", names), _texts("properties", values))


def _texts(name: str, column: pa.Array) -> Texts:
    """Texts or bytes of any kind, nulls as empty ones."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not _is_text(column.type):
        raise BadColumn(name, f"must hold texts, not {column.type}")
    binaries = column.cast(pa.binary())
    if binaries.null_count:
        binaries = binaries.fill_null(b"")
    _, offsets, joined = binaries.buffers()
    first = binaries.offset
    if not len(binaries):
        return Texts(np.zeros(1, np.int32), np.zeros(0, np.uint8))
    return Texts(
        np.frombuffer(offsets, np.int32)[first : first + len(binaries) + 1],
        np.zeros(0, np.uint8) if joined is None else np.frombuffer(joined, np.uint8),
    )


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return any(
        is_one(kind)
        for is_one in (
            pa.types.is_string,
            pa.types.is_binary,
            pa.types.is_large_string,
            pa.types.is_large_binary,
            pa.types.is_string_view,
            pa.types.is_binary_view,
            pa.types.is_fixed_size_binary,
            pa.types.is_null,
        )
    )

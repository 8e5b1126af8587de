"""The shapes of what the compiled loops take and give, and Arrow arrays made of it."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roquet.protocol.record_columns.gathering import gather

Bytes: TypeAlias = npt.NDArray[np.uint8]
Positions: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
# Rows of two: where texts or bodies lie in a buffer. A negative start means none.
Spans: TypeAlias = npt.NDArray[np.int32]
# Rows of four: the span of a name and the span of its value.
Pairs: TypeAlias = npt.NDArray[np.int32]
# One more than there are rows: row i has what lies between bounds[i] and bounds[i + 1].
RowBounds: TypeAlias = npt.NDArray[np.int32]


def gathered(data: Bytes, spans: Spans, arrow_type: pa.DataType) -> pa.Array:
    """The slices of `data` as strings, which must be UTF-8, or binaries; null for none."""
    offsets, joined = gather(data, spans)
    is_there = spans[:, 0] >= 0
    validity = None if is_there.all() else pa.py_buffer(np.packbits(is_there, bitorder="little"))
    buffers = [validity, pa.py_buffer(offsets), pa.py_buffer(joined)]
    return pa.Array.from_buffers(arrow_type, len(spans), buffers)


def numbers_array(numbers: npt.NDArray[Any], is_null: Mask | None = None) -> pa.Array:
    """Of native numbers. `pa.array` loads pandas with its first value, where that is installed, and
    takes longer than to read a hundred thousand messages.
    """
    validity = None if is_null is None else pa.py_buffer(np.packbits(~is_null, bitorder="little"))
    buffers = [validity, pa.py_buffer(np.ascontiguousarray(numbers))]
    return pa.Array.from_buffers(pa.from_numpy_dtype(numbers.dtype), len(numbers), buffers)


def numbers_in(array: pa.Array) -> npt.NDArray[Any]:
    """Of an array of numbers without nulls; `to_numpy` loads pandas, too."""
    dtype = np.dtype(array.type.to_pandas_dtype())
    return np.frombuffer(array.buffers()[1], dtype, len(array), array.offset * dtype.itemsize)


def values_at(data: Bytes, positions: Positions, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The value of type `dtype` at each position, aligned or not; positions are checked before."""
    item = np.dtype(dtype)
    # Opaque items are copied whole; structured ones field by field, which takes 8 times as long.
    opaque = np.dtype((np.void, item.itemsize))
    items = np.ndarray((data.size - item.itemsize + 1,), opaque, data, strides=(1,))
    return items[positions].view(item)

"""The techniques the decoder is made of: gather values, gather slices, find positions.

The gathers look at a buffer as many overlapping items, one per byte, and pick the wanted
ones in a single call. Bounds are the caller's duty: positions arrive checked or clipped.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes: TypeAlias = npt.NDArray[np.uint8]
Positions: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]

_BLOCK_SIZE: Final = 256 * 1024


class Slices(NamedTuple):
    """Where many texts or bodies lie in a buffer: number i from `starts[i]` to `ends[i]`."""

    starts: Positions
    ends: Positions

    def only(self, chosen: Mask | Positions) -> "Slices":
        return Slices(self.starts[chosen], self.ends[chosen])


def values_at(buffer: Bytes, positions: Positions, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The value of type `dtype` at each position, aligned or not."""
    item = np.dtype(dtype)
    # Opaque items are copied whole; structured ones field by field, which takes 8 times as long.
    opaque = np.dtype((np.void, item.itemsize))
    items = np.ndarray((buffer.size - item.itemsize + 1,), opaque, buffer, strides=(1,))
    return items[positions].view(item)


def positions_where(
    items: npt.NDArray[Any], is_wanted: Callable[[npt.NDArray[Any]], Mask]
) -> Positions:
    """The indexes of the wanted ones among very many items."""
    # In blocks, because the intermediate arrays then stay in the cache and cost no page faults.
    found = [
        np.flatnonzero(is_wanted(items[first : first + _BLOCK_SIZE])) + first
        for first in range(0, items.size, _BLOCK_SIZE)
    ]
    return np.concatenate([np.zeros(0, np.int64), *found])


def gather(
    buffer: Bytes, slices: Slices, arrow_type: pa.DataType, missing: Mask | None = None
) -> pa.Array:
    """The slices of `buffer` as strings or binaries; null where they are `missing`."""
    count = slices.starts.size
    if not count:
        return pa.array([], arrow_type)
    # To Arrow the buffer is an array whose even items are the slices and whose odd items are
    # what lies between them. Taking the even ones is a loop in C++ without Python objects.
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[:-1:2] = slices.starts
    offsets[1::2] = slices.ends
    # `take` reserves memory by the mean item size, which it works out from the first and the
    # last offset. No slice ends at the last one, so it can make the reservation right; else
    # a few slices of a large file would reserve half the file.
    taken_size = int((slices.ends - slices.starts).sum())
    offsets[-1] = min(int(slices.starts[0]) + 2 * taken_size, buffer.size)
    items = pa.Array.from_buffers(
        arrow_type, 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(buffer)]
    )
    return items.take(pa.array(np.arange(0, 2 * count, 2), mask=missing))


def text_array(joined: Bytes, offsets: Positions) -> pa.Array:
    """The texts that lie joined in a buffer without a copy; `checked_utf8` is still to come."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(joined)]
    return pa.Array.from_buffers(pa.string(), offsets.size - 1, buffers)


def checked_utf8(texts: pa.Array) -> pa.Array:
    """The same texts. Raises IrregularRows if not all of them are UTF-8."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        # Rare, so it may be slow to find out which.
        binaries = texts.cast(pa.binary()).to_pylist()
        wrong = [row for row, text in enumerate(binaries) if not _is_utf8(text)]
        refuse_rows(np.array(wrong), len(texts))
    return texts


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def bytes_and_offsets(array: pa.Array) -> tuple[Bytes, Positions]:
    """The joined bytes of a gathered array, and where its items begin and end."""
    _, offsets_buffer, bytes_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32, len(array) + 1).astype(np.int64)
    return np.frombuffer(bytes_buffer, np.uint8, offsets[-1]), offsets


class IrregularRows(Exception):
    """These rows need the scalar reader. Not an error, and it never leaves this package."""

    def __init__(self, rows: Mask) -> None:
        super().__init__()
        self.rows = rows


def refuse_rows(rows: Positions, row_count: int) -> None:
    """Raises IrregularRows if there are any."""
    if rows.size:
        is_irregular = np.zeros(row_count, np.bool_)
        is_irregular[rows] = True
        raise IrregularRows(is_irregular)

"""Where the records of a buffer begin, and that they lie inside it one behind the other.

At each of these starts the buffer has room for the smallest record there is, and for as
many bytes as the record claims. Whether it is a good record is for its readers to say.
"""

from struct import Struct
from typing import Final

import numpy as np
import numpy.typing as npt

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from roquet.protocol.record_columns.arrays import Bytes, Positions, positions_where, values_at

# No body, topic or properties, addresses of the smaller kind.
RECORD_SIZE_MIN: Final = 91
BLANK_SIZE_MIN: Final = 8

_SIZES_MIN: Final = {
    MAGIC_V1: RECORD_SIZE_MIN,
    MAGIC_V2: RECORD_SIZE_MIN,
    MAGIC_BLANK: BLANK_SIZE_MIN,
}

_MAGIC_POSITION: Final = 4
_MAGIC_BYTES: Final = MAGIC_V1.to_bytes(4, signed=True)
_MAGIC_START: Final = int.from_bytes(_MAGIC_BYTES[:2], "little")
_MAGIC_MIDDLE: Final = int.from_bytes(_MAGIC_BYTES[1:3], "little")
_unpack_size_and_magic = Struct(">ii").unpack_from


def find_record_starts(buffer: Bytes) -> Positions:
    """Raises BadMessage unless the buffer is made of whole records and blank filler."""
    starts = _find_magic(buffer)
    return starts if _is_chain(buffer, starts) else _walk(buffer)


def check_record_starts(buffer: Bytes, starts: npt.ArrayLike) -> Positions:
    """Raises BadMessage unless records fit at `starts`, which ascend."""
    checked = np.asarray(starts, np.int64)
    if not checked.size:
        return checked
    if checked.min() < 0 or checked.max() > buffer.size - RECORD_SIZE_MIN:
        raise BadMessage(f"a record start lies outside the buffer of {buffer.size} bytes")
    sizes = _sizes_at(buffer, checked)
    wrong = np.flatnonzero(sizes > _rooms(buffer, checked))
    if wrong.size:
        first = wrong[0]
        raise BadMessage(f"record of {sizes[first]} bytes does not fit at byte {checked[first]}")
    return checked


def _find_magic(buffer: Bytes) -> Positions:
    """Where records of the common kind seem to begin; what is in a body may look like one."""
    # Half of the magic is enough to find it, and 16-bit words are fastest to look through. Of a
    # record that starts at an even position its first half is one of them, else its middle.
    words = buffer[_MAGIC_POSITION : buffer.size // 2 * 2].view("<u2")
    found = positions_where(words, lambda block: (block == _MAGIC_START) | (block == _MAGIC_MIDDLE))
    starts: Positions = 2 * found - (words[found] == _MAGIC_MIDDLE)
    starts = starts[starts <= buffer.size - BLANK_SIZE_MIN]
    if starts.size:
        starts = starts[values_at(buffer, starts + _MAGIC_POSITION, ">i4") == MAGIC_V1]
    return starts


def _is_chain(buffer: Bytes, starts: Positions) -> bool:
    """True if a walk over all records would find exactly these starts."""
    if not starts.size or starts[0] != 0:
        return False
    sizes = _sizes_at(buffer, starts)
    return bool((sizes >= RECORD_SIZE_MIN).all() and (sizes == _rooms(buffer, starts)).all())


def _sizes_at(buffer: Bytes, starts: Positions) -> Positions:
    sizes: Positions = values_at(buffer, starts, ">i4").astype(np.int64)
    return sizes


def _rooms(buffer: Bytes, starts: Positions) -> Positions:
    """The bytes from each start to the next one or to the end."""
    return np.diff(starts, append=buffer.size)


def _walk(buffer: Bytes) -> Positions:
    view = buffer.data
    starts: list[int] = []
    position = 0
    end = len(view)
    while position < end:
        if end - position < BLANK_SIZE_MIN:
            raise BadMessage(f"{end - position} bytes follow the last record")
        size, magic = _unpack_size_and_magic(view, position)
        size_min = _SIZES_MIN.get(magic)
        if size_min is None:
            raise BadMessage(f"no record begins at byte {position}")
        if not size_min <= size <= end - position:
            raise BadMessage(f"record of {size} bytes does not fit at byte {position}")
        if magic != MAGIC_BLANK:
            starts.append(position)
        position += size
    return np.array(starts, np.int64)

"""Where the records of a buffer begin, and that they lie inside it one after another.

At each of these starts the buffer has room for the smallest record there is, and for as
many bytes as the record claims. Whether it is a good record is for its readers to say.
"""

from struct import Struct
from typing import Final

import numpy as np
import numpy.typing as npt

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2
from roquet.protocol.record_columns.arrays import Bytes, Positions, values_at
from roquet.protocol.record_columns.walking import walk_records

# No body, topic or properties, addresses of the smaller kind.
RECORD_SIZE_MIN: Final = 91
BLANK_SIZE_MIN: Final = 8

_unpack_size_and_magic = Struct(">ii").unpack_from


def find_record_starts(data: Bytes) -> Positions:
    """Raises BadMessage unless the buffer is made of whole records and blank filler."""
    starts, position = walk_records(data, 0, data.size)
    if position < data.size:
        raise BadMessage(_what_is_wrong(data, position))
    return np.frombuffer(starts, np.int64)


def check_record_starts(data: Bytes, starts: npt.ArrayLike) -> Positions:
    """Raises BadMessage unless records fit at `starts`, which ascend."""
    checked = np.ascontiguousarray(starts, np.int64)
    if not checked.size:
        return checked
    if checked.min() < 0 or checked.max() > data.size - RECORD_SIZE_MIN:
        raise BadMessage(f"a record start lies outside the buffer of {data.size} bytes")
    sizes = values_at(data, checked, ">i4").astype(np.int64)
    # The bytes from each start to the next one or to the end.
    rooms = np.diff(checked, append=data.size)
    wrong = np.flatnonzero(sizes > rooms)
    if wrong.size:
        first = wrong[0]
        raise BadMessage(f"record of {sizes[first]} bytes does not fit at byte {checked[first]}")
    return checked


def _what_is_wrong(data: Bytes, position: int) -> str:
    room = data.size - position
    if room < BLANK_SIZE_MIN:
        return f"{room} bytes follow the last record"
    size, magic = _unpack_size_and_magic(data.data, position)
    if magic not in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
        return f"no record begins at byte {position}"
    return f"record of {size} bytes does not fit at byte {position}"

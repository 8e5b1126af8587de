"""From a buffer of records to a RecordBatch: regular records at once, the others one by one."""

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roquet.protocol.errors import TooLarge
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import ReadBuffer
from roquet.protocol.record_columns.arrays import Bytes, Positions
from roquet.protocol.record_columns.columns import Column, PropertiesForm, choose_columns
from roquet.protocol.record_columns.irregular import read_irregular
from roquet.protocol.record_columns.regular import SortedRecords, sort_records
from roquet.protocol.record_columns.starts import check_record_starts, find_record_starts

# A log file of the usual size. With all that irregular records may grow to, a column stays
# below the 2 GiB that Arrow's 32-bit offsets can count.
DATA_SIZE_MAX: Final = 1024 * 1024 * 1024


def decode_records(
    data: ReadBuffer,
    names: Sequence[str] | None = None,
    *,
    starts: npt.ArrayLike | None = None,
    topics: Collection[str] | None = None,
    properties: PropertiesForm = PropertiesForm.STRING,
    broker_name: str | None = None,
    check_bodies: bool = True,
) -> pa.RecordBatch:
    """The messages of a pull reply or of a slice of a log file, as the columns `names`.

    By default it is all columns and all records. `starts` says where the wanted records begin,
    in ascending order. Records of other `topics` are left out before anything of them is decoded
    or checked but their sizes. Without `check_bodies` regular bodies are not compared with their
    CRC, which takes about as long as decoding them. Nothing in the result refers to `data`.
    Raises BadMessage for anything that is not a record, TooLarge and UnknownColumn.
    """
    columns = choose_columns(names, properties, broker_name)
    buffer = np.frombuffer(data, np.uint8)
    if buffer.size > DATA_SIZE_MAX:
        raise TooLarge("record data", buffer.size, DATA_SIZE_MAX)
    if starts is None:
        positions = find_record_starts(buffer)
    else:
        positions = check_record_starts(buffer, starts)
    needs = {need for column in columns for need in column.needs}
    found = sort_records(buffer, positions, needs, topics=topics, check_bodies=check_bodies)
    return pa.RecordBatch.from_arrays(
        _arrays_of(buffer, positions, found, columns), names=[column.name for column in columns]
    )


def _arrays_of(
    buffer: Bytes, starts: Positions, found: SortedRecords, columns: Sequence[Column]
) -> list[pa.Array]:
    arrays = [column.of_records(found.regular) for column in columns]
    if not found.irregular_numbers.size:
        return arrays
    messages, numbers = read_irregular(buffer, starts, found.irregular_numbers)
    order = pa.array(np.argsort(np.concatenate((found.regular.numbers, numbers)), kind="stable"))
    return [
        pa.concat_arrays([array, _array_of(column, messages)]).take(order)
        for column, array in zip(columns, arrays, strict=True)
    ]


def _array_of(column: Column, messages: Sequence[StoredMessage]) -> pa.Array:
    return pa.array([column.of_message(message) for message in messages], column.type)

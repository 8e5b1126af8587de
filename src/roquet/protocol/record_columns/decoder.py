"""From a buffer of records to a RecordBatch: common records at once, the others one by one.

The others go through the scalar reader. Their bodies are decompressed and inner batches become
their messages; both can be far larger than the input, so all that is read this way has a limit.
"""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.batch import unwrap
from roquet.protocol.messages.message import StoredMessage, SysFlag
from roquet.protocol.messages.record import ReadBuffer, read_record
from roquet.protocol.record_columns.arrays import Bytes, Positions
from roquet.protocol.record_columns.columns import Column, PropertiesForm, choose_columns
from roquet.protocol.record_columns.common_records import SortedRecords, sort_records
from roquet.protocol.record_columns.record_starts import (
    check_record_starts,
    find_record_starts,
)

# A log file of the default size. With all that uncommon records may grow to, a column stays
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

    By default it is all columns and all records. `starts` are the positions of the wanted records,
    in ascending order. Records of other `topics` are left out before anything of them is decoded
    or checked but their sizes. Without `check_bodies` common bodies are not compared with their
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
    arrays = [column.of_records(found.common) for column in columns]
    if not found.uncommon_numbers.size:
        return arrays
    messages, numbers = read_uncommon(buffer, starts, found.uncommon_numbers)
    order = pa.array(np.argsort(np.concatenate((found.common.numbers, numbers)), kind="stable"))
    return [
        pa.concat_arrays([array, _array_of(column, messages)]).take(order)
        for column, array in zip(columns, arrays, strict=True)
    ]


def _array_of(column: Column, messages: Sequence[StoredMessage]) -> pa.Array:
    return pa.array([column.of_message(message) for message in messages], column.type)


# Chunks are meant to have a few megabytes; this lets every byte of them become thirty.
UNCOMMON_SIZE_MAX: Final = 256 * 1024 * 1024

_INNER_BATCH: Final = (SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP).value
_QUEUE_OFFSET_MAX: Final = 2**63 - 1


class UncommonMessages(NamedTuple):
    messages: list[StoredMessage]
    numbers: list[int]  # which records of the buffer they come from


def read_uncommon(buffer: Bytes, starts: Positions, numbers: Positions) -> UncommonMessages:
    """The messages in the records with these numbers. Raises BadMessage or TooLarge."""
    found = UncommonMessages([], [])
    size = 0
    for number in numbers.tolist():
        messages = _messages_at(buffer.data, int(starts[number]))
        for message in messages:
            size += len(message.body) + len(message.topic) + len(message.raw_properties)
        if size > UNCOMMON_SIZE_MAX:
            raise TooLarge("uncommon messages", size, UNCOMMON_SIZE_MAX)
        found.messages.extend(messages)
        found.numbers.extend([number] * len(messages))
    return found


def _messages_at(buffer: ReadBuffer, start: int) -> list[StoredMessage]:
    message = read_record(buffer, start)
    if message.sys_flag & _INNER_BATCH != _INNER_BATCH:
        return [msgspec.structs.replace(message, body=message.decompressed_body())]
    messages = unwrap(message)
    if messages and messages[-1].queue_offset > _QUEUE_OFFSET_MAX:
        raise BadMessage(f"a batch at queue offset {message.queue_offset} counts too far")
    return messages

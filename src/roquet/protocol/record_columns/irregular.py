"""Records that are not of the common kind, one by one through the scalar reader.

Here bodies are decompressed and inner batches become their messages. Both can be far
larger than what came in, so there is a limit on everything that is read this way.
"""

from typing import Final, NamedTuple

import msgspec

from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.messages.batch import unwrap
from roquet.protocol.messages.message import StoredMessage, SysFlag
from roquet.protocol.messages.record import ReadBuffer, read_record
from roquet.protocol.record_columns.arrays import Bytes, Positions

# Chunks are meant to have a few megabytes; this lets every byte of them become thirty.
IRREGULAR_SIZE_MAX: Final = 256 * 1024 * 1024

_INNER_BATCH: Final = (SysFlag.INNER_BATCH | SysFlag.NEED_UNWRAP).value
_QUEUE_OFFSET_MAX: Final = 2**63 - 1


class IrregularMessages(NamedTuple):
    messages: list[StoredMessage]
    numbers: list[int]  # which records of the buffer they come from


def read_irregular(buffer: Bytes, starts: Positions, numbers: Positions) -> IrregularMessages:
    """The messages in the records with these numbers. Raises BadMessage or TooLarge."""
    found = IrregularMessages([], [])
    size = 0
    for number in numbers.tolist():
        messages = _messages_at(buffer.data, int(starts[number]))
        for message in messages:
            size += len(message.body) + len(message.topic) + len(message.raw_properties)
        if size > IRREGULAR_SIZE_MAX:
            raise TooLarge("irregular messages", size, IRREGULAR_SIZE_MAX)
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

"""What the columns of messages must hold, worked out one message at a time."""

from collections.abc import Sequence

import pyarrow as pa

from roquet.protocol.messages.batch import unwrap
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import MAGIC_BLANK, peek_record, read_record
from roquet.protocol.record_columns import PropertiesForm

INNER_BATCH = 0xC0
MICROSECONDS_MAX = 2**63 - 1


def rows_of(
    data: bytes, form: PropertiesForm, broker_name: str | None = None
) -> list[dict[str, object]]:
    """The rows of all messages in a buffer of records and blanks."""
    return [_row(message, form, broker_name) for message in _messages(data)]


def rows_in(batch: pa.RecordBatch) -> list[dict[str, object]]:
    """The rows of a decoded batch: timestamps as numbers, maps as dictionaries."""
    batch.validate(full=True)
    columns = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    plain = pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
    return list(plain.to_pylist(maps_as_pydicts="strict"))


def only(rows: Sequence[dict[str, object]], names: Sequence[str]) -> list[dict[str, object]]:
    return [{name: row[name] for name in names} for row in rows]


def _messages(data: bytes) -> list[StoredMessage]:
    messages: list[StoredMessage] = []
    position = 0
    while position < len(data):
        head = peek_record(data, position)
        if head.magic != MAGIC_BLANK:
            message = read_record(data, position)
            is_wrapped = message.sys_flag & INNER_BATCH == INNER_BATCH
            messages += unwrap(message) if is_wrapped else [message]
        position += head.size
    return messages


def _row(
    message: StoredMessage, form: PropertiesForm, broker_name: str | None
) -> dict[str, object]:
    row: dict[str, object] = {
        "topic": message.topic,
        "brokerName": broker_name,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "tags": message.properties.get("TAGS"),
        "keys": message.properties.get("KEYS"),
        "body": message.decompressed_body(),
        "bornTimestamp": _microseconds(message.born_timestamp),
        "storeTimestamp": _microseconds(message.store_timestamp),
        "msgId": message.message_id,
        "offsetMsgId": message.offset_id,
        "reconsumeTimes": message.reconsume_times,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornHost": str(message.born_address),
        "storeHost": str(message.store_address),
        "physicalOffset": message.physical_offset,
    }
    if form is PropertiesForm.STRING:
        return {**row, "properties": message.property_text}
    if form is PropertiesForm.MAP:
        return {**row, "properties": message.properties}
    return row


def _microseconds(time_ms: int) -> int | None:
    return time_ms * 1000 if abs(time_ms * 1000) <= MICROSECONDS_MAX else None

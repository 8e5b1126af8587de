"""The table of columns: name, type, how many records fill it, how a single message does.

Names, order and types are those of the Spark schema. Texts that are no UTF-8 show
replacement characters. A timestamp that microseconds cannot count is null: a producer
names its own time and must not be able to stop every reader with it.
"""

from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import lru_cache
from operator import attrgetter
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from roquet.errors import RoquetError
from roquet.protocol.host import HOST_SIZE_V4, unpack_host
from roquet.protocol.messages.message import Property, StoredMessage
from roquet.protocol.record_columns.arrays import numbers_array
from roquet.protocol.record_columns.common_records import (
    BODY,
    FIXED_PART,
    PROPERTIES,
    PROPERTY_MAPS,
    TOPIC,
    CommonRecords,
)

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
PROPERTY_MAP: Final = pa.map_(pa.string(), pa.string())

_TIMESTAMP_MS_MAX: Final = (2**63 - 1) // 1000
_HEX_PAIRS: Final = np.array([b"%02X" % byte for byte in range(256)]).view(np.uint16)
_OFFSET_ID_SIZE: Final = 32
_PLACE: Final = ("store_host", "physical_offset")


class PropertiesForm(StrEnum):
    """What the column `properties` holds. With NONE there is no such column."""

    NONE = "none"
    STRING = "string"  # as stored, see `properties.py`
    MAP = "map"


class UnknownColumn(RoquetError):
    """A reader asked for a column that messages do not have."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"messages have no column {name!r}, only {', '.join(known)}")
        self.name = name


class Column(NamedTuple):
    name: str
    type: pa.DataType
    needs: tuple[str, ...]  # fields of the fixed part, and what else is looked at
    of_records: Callable[[CommonRecords], pa.Array]
    of_message: Callable[[StoredMessage], object]


@lru_cache
def record_columns(
    form: PropertiesForm = PropertiesForm.STRING, broker_name: str | None = None
) -> dict[str, Column]:
    """All columns by name, in the order of the schema."""
    columns = (
        Column("topic", pa.string(), (TOPIC,), attrgetter("topic_texts"), attrgetter("topic")),
        _constant("brokerName", broker_name),
        _number("queueId", "queue_id"),
        _number("queueOffset", "queue_offset"),
        _property("tags", Property.TAGS),
        _property("keys", Property.KEYS),
        Column("body", pa.binary(), (BODY,), attrgetter("body_values"), attrgetter("body")),
        _time("bornTimestamp", "born_timestamp"),
        _time("storeTimestamp", "store_timestamp"),
        Column(
            "msgId",
            pa.string(),
            (PROPERTIES, *_PLACE),
            _message_ids,
            attrgetter("message_id"),
        ),
        Column("offsetMsgId", pa.string(), _PLACE, _offset_ids, attrgetter("offset_id")),
        _number("reconsumeTimes", "reconsume_times"),
        _number("flag", "flag"),
        _number("sysFlag", "sys_flag"),
        _host("bornHost", "born_host"),
        _host("storeHost", "store_host"),
        _number("physicalOffset", "physical_offset"),
        *_PROPERTIES[form],
    )
    return {column.name: column for column in columns}


def record_schema(
    names: Sequence[str] | None = None, form: PropertiesForm = PropertiesForm.STRING
) -> pa.Schema:
    """The schema of these columns, in this order, or of all. Raises UnknownColumn."""
    return pa.schema([(column.name, column.type) for column in choose_columns(names, form)])


def choose_columns(
    names: Sequence[str] | None, form: PropertiesForm, broker_name: str | None = None
) -> list[Column]:
    """Raises UnknownColumn."""
    columns = record_columns(form, broker_name)
    if names is None:
        return list(columns.values())
    for name in names:
        if name not in columns:
            raise UnknownColumn(name, list(columns))
    return [columns[name] for name in names]


def _constant(name: str, text: str | None) -> Column:
    return Column(
        name,
        pa.string(),
        (),
        lambda records: _repeated(text, records.numbers.size),
        lambda _message: text,
    )


def _repeated(text: str | None, count: int) -> pa.Array:
    """As `pa.repeat`, which loads pandas; see `numbers_array`."""
    if text is None:
        return pa.nulls(count, pa.string())
    value = text.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * len(value)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(value * count)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def _number(name: str, field: str) -> Column:
    native = FIXED_PART[field].newbyteorder("=")
    return Column(
        name,
        pa.from_numpy_dtype(native),
        (field,),
        lambda records: numbers_array(records.fixed[field]),
        attrgetter(field),
    )


def _time(name: str, field: str) -> Column:
    def of_records(records: CommonRecords) -> pa.Array:
        times_ms = records.fixed[field]
        is_uncountable = (times_ms > _TIMESTAMP_MS_MAX) | (times_ms < -_TIMESTAMP_MS_MAX)
        is_null = is_uncountable if is_uncountable.any() else None
        return numbers_array(times_ms * 1000, is_null).view(TIMESTAMP)

    def of_message(message: StoredMessage) -> int | None:
        time_ms: int = getattr(message, field)
        return time_ms * 1000 if abs(time_ms) <= _TIMESTAMP_MS_MAX else None

    return Column(name, TIMESTAMP, (field,), of_records, of_message)


def _host(name: str, field: str) -> Column:
    def of_records(records: CommonRecords) -> pa.Array:
        # There are few different hosts, so each is formatted once.
        hosts = pa.array(records.fixed[field]).dictionary_encode()
        texts = [
            str(unpack_host(host.to_bytes(HOST_SIZE_V4, signed=True)))
            for host in hosts.dictionary.to_pylist()
        ]
        return pa.array(texts, pa.string()).take(hosts.indices)

    return Column(
        name,
        pa.string(),
        (field,),
        of_records,
        lambda message: str(unpack_host(getattr(message, field))),
    )


def _property(name: str, property_name: str) -> Column:
    return Column(
        name,
        pa.string(),
        (PROPERTIES,),
        lambda records: records.property_values(property_name),
        lambda message: message.properties.get(property_name),
    )


def _message_ids(records: CommonRecords) -> pa.Array:
    ids = records.property_values(Property.UNIQUE_KEY)
    return ids.fill_null(_offset_ids(records)) if ids.null_count else ids


def _offset_ids(records: CommonRecords) -> pa.Array:
    """Store host and physical offset in upper-case hex."""
    count = records.numbers.size
    parts = np.empty((count, 2), ">i8")
    for index, field in enumerate(_PLACE):
        parts[:, index] = records.fixed[field]
    texts = _HEX_PAIRS[parts.view(np.uint8)]
    offsets = np.arange(0, (count + 1) * _OFFSET_ID_SIZE, _OFFSET_ID_SIZE, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(texts)]
    )


_PROPERTIES: Final[dict[PropertiesForm, tuple[Column, ...]]] = {
    PropertiesForm.NONE: (),
    PropertiesForm.STRING: (
        Column(
            "properties",
            pa.string(),
            (PROPERTIES,),
            attrgetter("property_texts"),
            attrgetter("property_text"),
        ),
    ),
    PropertiesForm.MAP: (
        Column(
            "properties",
            PROPERTY_MAP,
            (PROPERTY_MAPS,),
            attrgetter("property_maps"),
            lambda message: list(message.properties.items()),
        ),
    ),
}
COLUMN_NAMES: Final = tuple(record_columns())

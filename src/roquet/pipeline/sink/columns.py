"""Columns that rows may have to become messages, checked before anything is sent.

    topic        string       the destination; default: the option `topic`
    body         binary, or string as UTF-8; never null, never empty
    tags         string
    keys         string with spaces between keys, or array<string>
    orderKey     string or a whole number: rows of one key and one task stay in order, in one queue
    delay        interval from now, timestamp of delivery, or a text such as "10s"; needs timers
    delayLevel   int, one of the broker's levels: 1 is a second, 18 two hours
    properties   map<string,string>, or string as stored
    flag         int, for applications

Columns of the option `idColumn` are strings, binary or whole numbers; they need not be of these.
`delay` as a bare number is refused: it could mean seconds, milliseconds or a level.
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.options.writing import DeliveryMode, WriteOptions

_ID_EXPECTED: Final = "it has to be a string, binary or a whole number"
_WHOLE: Final = (ByteType, ShortType, IntegerType)


class _Column(NamedTuple):
    is_fit: Callable[[DataType], bool]
    expected: str


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, StringType)


def _is_body(kind: DataType) -> bool:
    return isinstance(kind, StringType | BinaryType)


def _is_keys(kind: DataType) -> bool:
    return _is_text(kind) or (isinstance(kind, ArrayType) and _is_text(kind.elementType))


def _is_order_key(kind: DataType) -> bool:
    return _is_text(kind) or isinstance(kind, (*_WHOLE, LongType))


def _is_id(kind: DataType) -> bool:
    return _is_order_key(kind) or isinstance(kind, BinaryType)


def _is_delay(kind: DataType) -> bool:
    return isinstance(kind, DayTimeIntervalType | TimestampType | StringType)


def _is_level(kind: DataType) -> bool:
    return isinstance(kind, _WHOLE)


def _is_properties(kind: DataType) -> bool:
    if isinstance(kind, MapType):
        return _is_text(kind.keyType) and _is_text(kind.valueType)
    return _is_text(kind)


_COLUMNS: Final[Mapping[str, _Column]] = {
    "topic": _Column(_is_text, "a string"),
    "body": _Column(_is_body, "binary or a string"),
    "tags": _Column(_is_text, "a string"),
    "keys": _Column(_is_keys, "a string or an array of strings"),
    "orderKey": _Column(_is_order_key, "a string or a whole number"),
    "delay": _Column(
        _is_delay,
        "an interval, a timestamp or a text such as '10s' (for one of the broker's levels there"
        " is the column 'delayLevel')",
    ),
    "delayLevel": _Column(_is_level, "an int"),
    "properties": _Column(_is_properties, "a map of strings or a string"),
    "flag": _Column(_is_level, "an int"),
}
_REFUSED_IN: Final = {
    DeliveryMode.AT_LEAST_ONCE: frozenset[str](),
    # A delayed message is not found by its id in its topic.
    DeliveryMode.IDEMPOTENT: frozenset({"delay", "delayLevel"}),
}


def check_columns(schema: StructType, options: WriteOptions) -> None:
    """Raises BadSchema, which names the column."""
    names = schema.fieldNames()
    identifying = options.id_columns or ()
    for name in identifying:
        if name not in names:
            raise BadSchema(f"no column {name!r}, which the option 'idColumn' names")
        if not _is_id(schema[name].dataType):
            kind = schema[name].dataType.simpleString()
            raise BadSchema(f"column {name!r} identifies rows: {_ID_EXPECTED}, not {kind}")
    for field in schema.fields:
        if field.name in _COLUMNS or field.name not in identifying:
            _check_column(field.name, field.dataType, options.delivery_mode)
        if names.count(field.name) > 1:
            raise BadSchema(f"duplicate column {field.name!r}")
    if "body" not in names:
        raise BadSchema("no column 'body', which holds the content of messages")
    if "topic" not in names and options.topic is None:
        raise BadSchema("neither a column 'topic' nor the option 'topic'")
    if {"delay", "delayLevel"} <= set(names):
        raise BadSchema("give the column 'delay' or the column 'delayLevel', not both")


def _check_column(name: str, kind: DataType, mode: DeliveryMode) -> None:
    column = _COLUMNS.get(name)
    if column is None:
        raise BadSchema(
            f"messages have no column {name!r}, only {', '.join(_COLUMNS)}: leave it out"
        )
    # `lit(None)` has no type, and means that the column is missing.
    if not (column.is_fit(kind) or (isinstance(kind, NullType) and name != "body")):
        raise BadSchema(f"column {name!r} has to be {column.expected}, not {kind.simpleString()}")
    if name in _REFUSED_IN[mode]:
        raise BadSchema(f"column {name!r} cannot be written with deliveryMode '{mode}'")

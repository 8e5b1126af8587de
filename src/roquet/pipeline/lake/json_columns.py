"""JSON bodies decoded into columns by a schema; those that do not fit are quarantined."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from operator import attrgetter
from typing import Annotated, Any, Final, NamedTuple, final

import msgspec
import pyarrow as pa

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.ddl import read_ddl, write_ddl
from roquet.pipeline.lake.schemas.decoding import (
    BODY_COLUMN,
    RESERVED,
    Body,
    DecodedRows,
    decoded_rows,
)

_SIMPLE: Final[Mapping[pa.DataType, Any]] = {
    pa.bool_(): bool,
    pa.float32(): float,
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): date,
    pa.timestamp("us", tz="UTC"): datetime,
}


@final
class JsonColumns:
    """Fields of the schema that a body lacks are null; fields that the schema lacks are ignored."""

    def __init__(self, ddl: str) -> None:
        """Raises BadSchema."""
        self.schema = read_ddl(ddl)
        for name in self.schema.names:
            if name.lower() in RESERVED:
                raise BadSchema(f"messages already have a column {name!r}: leave this one out")
        row = _struct_of("Body", list(self.schema))
        self._decode: Callable[[bytes], Any] = msgspec.json.Decoder(row).decode
        self._columns = [_Column(index, field) for index, field in enumerate(self.schema)]

    @property
    def ddl(self) -> str:
        return write_ddl(self.schema)

    def decode(self, rows: pa.RecordBatch) -> DecodedRows:
        bodies = [self._read(body) for body in rows.column(BODY_COLUMN).to_pylist()]
        return decoded_rows(rows, bodies, self._columns)

    def _read(self, body: bytes | None) -> Body:
        try:
            return Body(self._decode(body or b""))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return Body(None, str(error))
        except RecursionError:
            return Body(None, "JSON is nested too deep")


@final
class _Column:
    """A column of many bodies at once."""

    def __init__(self, index: int, field: pa.Field) -> None:
        self.field = field
        self._value_of = attrgetter(_attribute(index))
        self._converted = _conversion(field.type)

    def filled(self, bodies: Sequence[Any]) -> pa.Array:
        values = list(map(self._value_of, bodies))
        if self._converted is not None:
            values = [None if each is None else self._converted(each) for each in values]
        return pa.array(values, self.field.type)


def _struct_of(name: str, fields: Sequence[pa.Field]) -> type[msgspec.Struct]:
    # Any text can be a name in JSON, but not in Python.
    attributes = [_attribute(index) for index in range(len(fields))]
    return msgspec.defstruct(
        name,
        [
            (attribute, _python_type(field.type) | None, None)
            for attribute, field in zip(attributes, fields, strict=True)
        ],
        rename={attribute: field.name for attribute, field in zip(attributes, fields, strict=True)},
        frozen=True,
    )


def _attribute(index: int) -> str:
    return f"field_{index}"


def _conversion(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Converts a value for Arrow; None if it takes the value as it is."""
    if pa.types.is_timestamp(kind):
        return _in_utc
    if pa.types.is_struct(kind):
        members = [
            _Member(field.name, _attribute(index), _conversion(field.type) or _unchanged)
            for index, field in enumerate(kind)
        ]
        return partial(_members, members)
    if pa.types.is_list(kind):
        inner = _conversion(kind.value_type)
        return inner and partial(_elements, inner)
    if pa.types.is_map(kind):
        return partial(_pairs, _conversion(kind.item_type) or _unchanged)
    return None


def _in_utc(moment: datetime) -> datetime:
    """A time of a message without a zone is UTC: it comes from another machine."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


class _Member(NamedTuple):
    name: str
    attribute: str
    convert: Callable[[Any], Any]


def _members(members: Sequence[_Member], value: Any) -> dict[str, Any]:
    found = ((each, getattr(value, each.attribute)) for each in members)
    return {each.name: None if inner is None else each.convert(inner) for each, inner in found}


def _elements(convert: Callable[[Any], Any], value: Sequence[Any]) -> list[Any]:
    return [None if each is None else convert(each) for each in value]


def _pairs(convert: Callable[[Any], Any], value: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return [(key, None if each is None else convert(each)) for key, each in value.items()]


def _unchanged(value: Any) -> Any:
    return value


def _python_type(kind: pa.DataType) -> Any:
    """The JSON type for a type of Arrow."""
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return Annotated[int, msgspec.Meta(ge=-most, le=most - 1)]
    if pa.types.is_decimal(kind):
        return Decimal
    if pa.types.is_list(kind):
        return list[_python_type(kind.value_type) | None]  # type: ignore[misc]
    if pa.types.is_map(kind):
        return dict[str, _python_type(kind.item_type) | None]  # type: ignore[misc]
    if pa.types.is_struct(kind):
        return _struct_of("Nested", list(kind))
    return _SIMPLE[kind]

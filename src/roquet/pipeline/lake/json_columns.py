"""Bodies that are JSON, decoded into columns by a schema; those that do not fit are set apart."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.ddl import read_ddl, type_name, write_ddl
from roquet.protocol.record_columns import COLUMN_NAMES

REASON_COLUMN: Final = "reason"
_BODY_COLUMN: Final = "body"
_MISFITS: Final = (pa.ArrowException, ValueError, OverflowError)
_TAKEN: Final = {name.lower() for name in (*COLUMN_NAMES, REASON_COLUMN, "dt", "hour")}
_PLAIN: Final[Mapping[pa.DataType, Any]] = {
    pa.bool_(): bool,
    pa.float32(): float,
    pa.float64(): float,
    pa.string(): str,
    pa.binary(): bytes,
    pa.date32(): date,
    pa.timestamp("us", tz="UTC"): datetime,
}


class Decoded(NamedTuple):
    """Rows with columns from their bodies, and rows with the reason why there are none."""

    good: pa.RecordBatch
    bad: pa.RecordBatch


@final
class JsonColumns:
    """Fields of the schema that a body lacks are null; fields that the schema lacks are ignored."""

    def __init__(self, ddl: str) -> None:
        """Raises BadSchema."""
        self.schema = read_ddl(ddl)
        for name in self.schema.names:
            if name.lower() in _TAKEN:
                raise BadSchema(f"messages have a column {name!r} already: leave this one out")
        row = _struct_of("Body", list(self.schema))
        self._decode: Callable[[Any], Any] = msgspec.json.Decoder(row).decode

    @property
    def ddl(self) -> str:
        return write_ddl(self.schema)

    def decode(self, rows: pa.RecordBatch) -> Decoded:
        """All rows are in one of both, in their order."""
        read = [self._read(body) for body in rows.column(_BODY_COLUMN).to_pylist()]
        try:
            columns = self._columns(read)
        except _MISFITS:
            # Some value is JSON of the right kind, and still too large or too fine.
            read = [self._checked(each) for each in read]
            columns = self._columns(read)
        is_good = pa.array([each.values is not None for each in read])
        good, bad = rows.filter(is_good), rows.filter(pc.invert(is_good))
        for field, column in zip(self.schema, columns, strict=True):
            good = good.append_column(field, column)
        reasons = [each.reason for each in read if each.values is None]
        return Decoded(good, bad.append_column(REASON_COLUMN, pa.array(reasons, pa.string())))

    def _read(self, body: bytes | None) -> "_Body":
        try:
            value = self._decode(body or b"")
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return _Body(None, str(error))
        return _Body(
            [
                _plain(getattr(value, _attribute(index)), field.type)
                for index, field in enumerate(self.schema)
            ]
        )

    def _columns(self, bodies: Sequence["_Body"]) -> list[pa.Array]:
        good = [body.values for body in bodies if body.values is not None]
        return [
            pa.array([values[index] for values in good], field.type)
            for index, field in enumerate(self.schema)
        ]

    def _checked(self, body: "_Body") -> "_Body":
        for value, field in zip(body.values or (), self.schema, strict=False):
            try:
                pa.array([value], field.type)
            except _MISFITS as error:
                return _Body(None, f"{error} - at `$.{field.name}`")
        return body


class _Body(NamedTuple):
    """The values of the columns, or the reason why there are none."""

    values: list[Any] | None
    reason: str | None = None


def json_columns(given: str) -> JsonColumns:
    """`given` is a file with the columns in it, or the columns themselves. Raises BadSchema."""
    path = Path(given)
    try:
        text = path.read_text() if " " not in given and path.is_file() else given
    except (OSError, UnicodeDecodeError) as error:
        raise BadSchema(f"{given} cannot be read: {error}") from None
    return JsonColumns(text)


def check_evolution(before: str | None, now: JsonColumns) -> None:
    """Columns may be added, and none of those that files have left out or changed.

    Raises BadSchema.
    """
    for field in read_ddl(before) if before else ():
        if field.name not in now.schema.names:
            raise BadSchema(
                f"the lake has a column {field.name!r} ({type_name(field.type)}), and the schema"
                " does not: columns can be added, not left out"
            )
        found = now.schema.field(field.name).type
        if found != field.type:
            raise BadSchema(
                f"column {field.name!r} of the lake is {type_name(field.type)}, not"
                f" {type_name(found)}: it cannot change; use another name or another lake"
            )


def _struct_of(name: str, fields: Sequence[pa.Field]) -> type[msgspec.Struct]:
    # In JSON any text can be a name, in Python it cannot.
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


def _plain(value: Any, kind: pa.DataType) -> Any:
    """As Arrow takes it. A time without a zone is meant as UTC."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return value.replace(tzinfo=value.tzinfo or UTC)
    if pa.types.is_struct(kind):
        return {
            field.name: _plain(getattr(value, _attribute(index)), field.type)
            for index, field in enumerate(kind)
        }
    if pa.types.is_list(kind):
        return [_plain(each, kind.value_type) for each in value]
    if pa.types.is_map(kind):
        return [(key, _plain(each, kind.item_type)) for key, each in value.items()]
    return value


def _python_type(kind: pa.DataType) -> Any:
    """What JSON has to hold for a type of Arrow."""
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
    return _PLAIN[kind]

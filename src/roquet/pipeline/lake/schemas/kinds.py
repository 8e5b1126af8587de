"""A type of Avro or Protobuf as a type of Arrow, and how its values become those of Arrow.

What Arrow has no type for (a union of several types, a record that contains itself) is a text of
JSON: no schema is refused because of it. Pure.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.schemas.decoding import RESERVED

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
# Before the name of a field that messages have as a column.
_PREFIX: Final = "body_"


class Kind(NamedTuple):
    """`convert` gets no None; without it, values are as Arrow takes them."""

    type: pa.DataType
    convert: Callable[[Any], Any] | None = None


def unchanged(value: Any) -> Any:
    return value


def json_text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def in_utc(moment: datetime) -> datetime:
    """A time of a message without a zone is UTC: it comes from another machine."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


JSON: Final = Kind(pa.string(), json_text)


def list_kind(element: Kind) -> Kind:
    kind = pa.list_(element.type)
    convert = element.convert
    if convert is None:
        return Kind(kind)
    return Kind(kind, lambda values: [None if each is None else convert(each) for each in values])


def map_kind(item: Kind) -> Kind:
    convert = item.convert or unchanged

    def pairs(values: Mapping[Any, Any]) -> list[tuple[str, Any]]:
        return [(str(key), None if each is None else convert(each)) for key, each in values.items()]

    return Kind(pa.map_(pa.string(), item.type), pairs)


def struct_kind(members: Mapping[str, Kind]) -> Kind:
    """Of a mapping with these names."""
    kind = pa.struct([pa.field(name, each.type) for name, each in members.items()])
    converting = {name: each.convert for name, each in members.items() if each.convert is not None}
    if not converting:
        return Kind(kind)

    def converted(values: Mapping[str, Any]) -> dict[str, Any]:
        found = dict(values)
        for name, convert in converting.items():
            if (value := found.get(name)) is not None:
                found[name] = convert(value)
        return found

    return Kind(kind, converted)


class ColumnSource(NamedTuple):
    """A field of a body, and the name of the column that it becomes."""

    field: str
    column: str
    kind: Kind


def column_sources(members: Mapping[str, Kind]) -> list[ColumnSource]:
    """The columns of the fields of a body. Raises BadSchema."""
    found = [ColumnSource(name, column_name(name), kind) for name, kind in members.items()]
    _check_distinct([each.column for each in found])
    return found


def column_name(field: str) -> str:
    return f"{_PREFIX}{field}" if field.lower() in RESERVED else field


def columns_of(sources: Sequence[ColumnSource]) -> pa.Schema:
    return pa.schema([pa.field(each.column, each.kind.type) for each in sources])


def _check_distinct(names: Sequence[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name.lower() in seen:
            raise BadSchema(
                f"two fields become the column {name!r}, as tables compare names without regard to"
                " case: rename one of them"
            )
        seen.add(name.lower())

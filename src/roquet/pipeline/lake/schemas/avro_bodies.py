"""Avro: a schema as columns, and bodies that it wrote. By fastavro, of the extra `schemas`."""

import io
import json
import struct
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, Final, final

import pyarrow as pa

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.schemas.kinds import (
    JSON,
    TIMESTAMP,
    Kind,
    column_sources,
    columns_of,
    in_utc,
    list_kind,
    map_kind,
    struct_kind,
)

SINGLE_OBJECT: Final = b"\xc3\x01"
SINGLE_OBJECT_SIZE: Final = len(SINGLE_OBJECT) + 8
_DECIMAL_DIGITS_MAX: Final = 38
_PRIMITIVES: Final[Mapping[str, Kind]] = {
    "null": Kind(pa.string()),
    "boolean": Kind(pa.bool_()),
    "int": Kind(pa.int32()),
    "long": Kind(pa.int64()),
    "float": Kind(pa.float32()),
    "double": Kind(pa.float64()),
    "bytes": Kind(pa.binary()),
    "string": Kind(pa.string()),
}
_LOGICAL: Final[Mapping[tuple[str, str], Kind]] = {
    ("int", "date"): Kind(pa.date32()),
    ("int", "time-millis"): Kind(pa.string(), str),
    ("long", "time-micros"): Kind(pa.string(), str),
    ("long", "timestamp-millis"): Kind(TIMESTAMP, in_utc),
    ("long", "timestamp-micros"): Kind(TIMESTAMP, in_utc),
    ("long", "local-timestamp-millis"): Kind(TIMESTAMP, in_utc),
    ("long", "local-timestamp-micros"): Kind(TIMESTAMP, in_utc),
    ("string", "uuid"): Kind(pa.string(), str),
}
# fastavro has no error of its own for bytes that are no value of a schema.
_BROKEN: Final = (
    ArithmeticError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    struct.error,
)


def check_avro() -> None:
    """Raises BadSchema if the library is missing."""
    if find_spec("fastavro") is None:
        raise BadSchema("Avro needs a library: pip install roquet[schemas]")


def fingerprint_of(schema: str) -> str:
    """As single objects have it: 8 bytes in hex. Raises BadSchema."""
    check_avro()
    from fastavro.schema import fingerprint, to_parsing_canonical_form  # noqa: PLC0415

    _parsed(schema, ())
    return str(fingerprint(to_parsing_canonical_form(json.loads(schema)), "CRC-64-AVRO"))


@final
class AvroReader:
    """Reads bodies that were written by a schema; `references` are schemas that it names."""

    def __init__(self, schema: str, references: Sequence[str] = ()) -> None:
        """Raises BadSchema."""
        check_avro()
        self._schema, named = _parsed(schema, references)
        if not isinstance(self._schema, dict) or self._schema.get("type") != "record":
            raise BadSchema("the Avro schema is not a record, whose fields become columns")
        members = _Kinds(named).members(self._schema, frozenset())
        self._sources = column_sources(members)
        self.columns = columns_of(self._sources)

    def read(self, data: bytes) -> dict[str, Any]:
        """Values by column. Raises ValueError."""
        from fastavro import schemaless_reader  # noqa: PLC0415

        buffer = io.BytesIO(data)
        try:
            record: Any = schemaless_reader(buffer, self._schema, None)
            found = {
                each.column: value if each.kind.convert is None else each.kind.convert(value)
                for each in self._sources
                if (value := record[each.field]) is not None
            }
        except _BROKEN as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        if rest := len(data) - buffer.tell():
            raise ValueError(f"{rest} bytes follow the value: another schema wrote it")
        return found


def _parsed(schema: str, references: Sequence[str]) -> tuple[Any, dict[str, Any]]:
    """The schema, and all types that have a name."""
    from fastavro.schema import SchemaParseException, UnknownType, parse_schema  # noqa: PLC0415

    named: dict[str, Any] = {}
    try:
        for each in references:
            parse_schema(json.loads(each), named)
        return parse_schema(json.loads(schema), named), named
    except (*_BROKEN, SchemaParseException, UnknownType) as error:
        raise BadSchema(f"not an Avro schema: {error}") from None


@final
class _Kinds:
    """Types of a parsed schema; `open_names` are the records that a type is inside of."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def members(self, record: Mapping[str, Any], open_names: frozenset[str]) -> dict[str, Kind]:
        inside = open_names | {record["name"]}
        return {each["name"]: self._kind(each["type"], inside) for each in record["fields"]}

    def _kind(self, node: Any, open_names: frozenset[str]) -> Kind:
        if isinstance(node, list):
            members = [each for each in node if each != "null"]
            return self._kind(members[0], open_names) if len(members) == 1 else JSON
        if isinstance(node, str):
            if node in _PRIMITIVES:
                return _PRIMITIVES[node]
            return self._complex(self._named[node], open_names)
        return self._complex(node, open_names)

    def _complex(self, node: Mapping[str, Any], open_names: frozenset[str]) -> Kind:
        kind = node["type"]
        if kind in ("record", "error"):
            if node["name"] in open_names:
                return JSON
            return struct_kind(self.members(node, open_names))
        if kind == "array":
            return list_kind(self._kind(node["items"], open_names))
        if kind == "map":
            return map_kind(self._kind(node["values"], open_names))
        if kind == "enum":
            return Kind(pa.string())
        logical = _logical_kind(node)
        if logical is not None:
            return logical
        return Kind(pa.binary()) if kind == "fixed" else self._kind(kind, open_names)


def _logical_kind(node: Mapping[str, Any]) -> Kind | None:
    name = node.get("logicalType")
    if name == "decimal" and node["type"] in ("bytes", "fixed"):
        precision, scale = node["precision"], node.get("scale", 0)
        is_possible = 0 <= scale <= precision <= _DECIMAL_DIGITS_MAX
        return Kind(pa.decimal128(precision, scale)) if is_possible else Kind(pa.string(), str)
    return _LOGICAL.get((str(node["type"]), str(name)))

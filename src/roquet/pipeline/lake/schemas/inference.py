"""Columns of JSON bodies, by what some of them have. Pure.

    true               boolean
    5, 5.0             bigint, double; decimal(38,0) if it does not fit into a bigint
    "a"                string: times and dates, too, because one text is no proof that all are
    {"b": ...}         struct
    [...]              array

A field whose bodies do not agree has no column, and stays in `body`; so does one that is only null
or empty.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple, final

import msgspec
import pyarrow as pa

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.schemas.decoding import RESERVED

# Of all bodies together, those of structs included.
INFERRED_FIELDS_MAX: Final = 1_000
_DEPTH_MAX: Final = 20
_BIGINT: Final = range(-(2**63), 2**63)
_DECIMAL: Final = pa.decimal128(38, 0)
_DECIMAL_MAX: Final = 10**38
# What a name in backticks cannot have.
_QUOTE: Final = "`"


class Inference(NamedTuple):
    """`bodies` were looked at, `not_json` of them are no objects of JSON.

    `left_out` are fields without a column, by their paths, with the reason.
    """

    columns: pa.Schema
    bodies: int
    not_json: int
    left_out: Mapping[str, str]


def inferred(bodies: Iterable[bytes]) -> Inference:
    """Raises BadSchema for too many fields."""
    count = not_json = 0
    seen = _Seen()
    fields = _FieldCount()
    for count, body in enumerate(bodies, 1):  # noqa: B007
        try:
            value = msgspec.json.decode(body)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            seen.add(value, fields, 0)
        else:
            not_json += 1
    left_out: dict[str, str] = {}
    columns = pa.schema(_fields(seen, "", left_out, RESERVED))
    return Inference(columns, count, not_json, left_out)


class _Kind(Enum):
    """What a value of JSON is; the texts are for people."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    LARGE = "large integer"
    HUGE = f"integer of more than {len(str(_DECIMAL_MAX)) - 1} digits"
    FLOAT = "number"
    TEXT = "text"
    OBJECT = "object"
    ARRAY = "array"
    DEEP = f"nested more than {_DEPTH_MAX} deep"


@final
class _FieldCount:
    def __init__(self) -> None:
        self._count = 0

    def add(self) -> None:
        self._count += 1
        if self._count > INFERRED_FIELDS_MAX:
            raise BadSchema(
                f"the bodies have more than {INFERRED_FIELDS_MAX} fields: give --json-schema, in"
                " which an object with many names can be a map<string,...>"
            )


@final
class _Seen:
    """What the values of one field were; null has no kind."""

    def __init__(self) -> None:
        self.kinds: set[_Kind] = set()
        self.members: dict[str, _Seen] = {}
        self.element: _Seen | None = None

    def add(self, value: Any, fields: _FieldCount, depth: int) -> None:
        if value is None:
            return
        if depth > _DEPTH_MAX:
            self.kinds.add(_Kind.DEEP)
        elif isinstance(value, dict):
            self.kinds.add(_Kind.OBJECT)
            for name, inner in value.items():
                if name not in self.members:
                    fields.add()
                    self.members[name] = _Seen()
                self.members[name].add(inner, fields, depth + 1)
        elif isinstance(value, list):
            self.kinds.add(_Kind.ARRAY)
            self.element = self.element or _Seen()
            for inner in value:
                self.element.add(inner, fields, depth + 1)
        else:
            self.kinds.add(_kind_of(value))


def _kind_of(value: Any) -> _Kind:
    if isinstance(value, bool):
        return _Kind.BOOLEAN
    if isinstance(value, float):
        return _Kind.FLOAT
    if isinstance(value, str):
        return _Kind.TEXT
    if value in _BIGINT:
        return _Kind.INTEGER
    return _Kind.LARGE if abs(value) < _DECIMAL_MAX else _Kind.HUGE


def _fields(
    seen: _Seen, above: str, left_out: dict[str, str], reserved: frozenset[str] = frozenset()
) -> list[pa.Field]:
    found: list[pa.Field] = []
    names = set(reserved)
    for name, member in seen.members.items():
        path = f"{above}{name}"
        if name.lower() in names:
            left_out[path] = "there is a column of that name already"
        elif not name or _QUOTE in name:
            left_out[path] = "no column can have that name"
        elif (kind := _type(member, path, left_out)) is not None:
            found.append(pa.field(name, kind))
            names.add(name.lower())
    return found


def _type(seen: _Seen, path: str, left_out: dict[str, str]) -> pa.DataType | None:
    """None if the values have no type of DDL in common; they are left out then."""
    kinds = seen.kinds
    if kinds == {_Kind.OBJECT}:
        if fields := _fields(seen, f"{path}.", left_out):
            return pa.struct(fields)
        left_out.setdefault(path, "objects without fields that have a type")
        return None
    if kinds == {_Kind.ARRAY}:
        assert seen.element is not None
        element = _type(seen.element, f"{path}[]", left_out)
        return None if element is None else pa.list_(element)
    if (simple := _simple_type(kinds)) is None:
        words = sorted(each.value for each in kinds)
        left_out[path] = (
            f"different types: {', '.join(words)}"
            if words[1:]
            else (words[0] if words else "only null or empty")
        )
    return simple


def _simple_type(kinds: set[_Kind]) -> pa.DataType | None:
    if kinds == {_Kind.BOOLEAN}:
        return pa.bool_()
    if kinds == {_Kind.TEXT}:
        return pa.string()
    if kinds == {_Kind.INTEGER}:
        return pa.int64()
    if kinds and kinds <= {_Kind.INTEGER, _Kind.LARGE}:
        return _DECIMAL
    if kinds and kinds <= {_Kind.INTEGER, _Kind.LARGE, _Kind.HUGE, _Kind.FLOAT}:
        return pa.float64() if _Kind.FLOAT in kinds else None
    return None

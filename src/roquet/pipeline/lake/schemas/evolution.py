"""How the columns of a lake change, by what its format allows. Pure.

    a new column                             every format
    a new field of a struct                  tables
    int to bigint, float to double,          Iceberg: its readers know the types that a column had.
    decimal(5,2) to decimal(9,2)             Delta needs a feature that delta-rs does not write

What a lake cannot become stays as it is. A value that has another type but fits, such as a bigint
in a column of int, is stored; one that does not fit is quarantined, with its reason.
"""

from typing import Final, NamedTuple

import pyarrow as pa

from roquet.pipeline.errors import BadSchema, SchemaChanged
from roquet.pipeline.lake.ddl import type_name
from roquet.pipeline.lake.metadata import LakeFormat


class EvolutionRules(NamedTuple):
    """Whether types may become wider, and structs may get fields."""

    widens: bool
    nests: bool


RULES: Final = {
    LakeFormat.PARQUET: EvolutionRules(widens=False, nests=False),
    LakeFormat.DELTA: EvolutionRules(widens=False, nests=True),
    LakeFormat.ICEBERG: EvolutionRules(widens=True, nests=True),
}


class UnfitField(NamedTuple):
    """A field, its type in the lake, and the one that a body has."""

    name: str
    column: str
    found: str


def evolved(before: pa.Schema, found: pa.Schema, rules: EvolutionRules) -> pa.Schema:
    """The columns of a lake that has `before`, and as much of `found` as the rules allow."""
    return pa.schema(_evolved_fields(list(before), list(found), rules))


def check_evolution(before: pa.Schema, wanted: pa.Schema, rules: EvolutionRules) -> None:
    """Whether a lake that has `before` can have exactly the columns `wanted`. Raises BadSchema."""
    for field in before:
        if field.name not in wanted.names:
            raise BadSchema(
                f"the lake has a column {field.name!r} ({type_name(field.type)}) that the schema"
                " lacks: columns can be added, not removed"
            )
        kind = wanted.field(field.name).type
        if _evolved_type(field.type, kind, rules) != kind:
            raise BadSchema(
                f"column {field.name!r} of the lake is {type_name(field.type)}, not"
                f" {type_name(kind)}: {_allowed(rules)}; use another name or another lake"
            )


def check_schema(present: str | None, wanted: str | None, seen: str | None) -> None:
    """`wanted` was derived from `seen`, and is stored if the lake has that one or none.

    Raises SchemaChanged if another job changed the schema of bodies meanwhile.
    """
    if wanted is not None and present not in (None, wanted, seen):
        raise SchemaChanged(
            "another job changed the columns, or how bodies are decoded, after this one started"
        )


def unfit_field(columns: pa.Schema, found: pa.Schema) -> UnfitField | None:
    """The first field whose values cannot be those of the column of its name."""
    for field in found:
        if field.name in columns.names:
            kind = columns.field(field.name).type
            if not _is_storable(field.type, kind):
                return UnfitField(field.name, type_name(kind), type_name(field.type))
    return None


def _allowed(rules: EvolutionRules) -> str:
    if rules.widens:
        return "integers, floats and decimals of the same scale can become wider, and nothing else"
    return "the type of a column can change only in a lake of format iceberg"


def _evolved_fields(
    before: list[pa.Field], found: list[pa.Field], rules: EvolutionRules
) -> list[pa.Field]:
    there = {field.name: field for field in found}
    # Formats compare names without regard to case.
    names = {field.name.lower() for field in before}
    kept = [
        pa.field(field.name, _evolved_type(field.type, there[field.name].type, rules))
        if field.name in there
        else field
        for field in before
    ]
    return [*kept, *(field for field in found if field.name.lower() not in names)]


def _evolved_type(before: pa.DataType, found: pa.DataType, rules: EvolutionRules) -> pa.DataType:
    if pa.types.is_struct(before) and pa.types.is_struct(found) and rules.nests:
        return pa.struct(_evolved_fields(list(before), list(found), rules))
    return found if rules.widens and _is_wider(before, found) else before


def _is_wider(before: pa.DataType, found: pa.DataType) -> bool:
    """As Iceberg promotes types; it has no integers below int."""
    if pa.types.is_int32(before) or pa.types.is_float32(before):
        return bool(found == (pa.int64() if pa.types.is_int32(before) else pa.float64()))
    if pa.types.is_decimal(before) and pa.types.is_decimal(found):
        return bool(before.scale == found.scale and before.precision < found.precision)
    return False


def _is_storable(found: pa.DataType, column: pa.DataType) -> bool:
    """Whether values of one type may be values of the other: each of them is still checked."""
    for is_kind in (pa.types.is_integer, pa.types.is_decimal):
        if is_kind(column):
            return bool(is_kind(found))
    if pa.types.is_float64(column):
        return bool(pa.types.is_floating(found))
    if pa.types.is_struct(column):
        there = {field.name: field.type for field in column}
        return pa.types.is_struct(found) and all(
            _is_storable(field.type, there[field.name]) for field in found if field.name in there
        )
    if pa.types.is_list(column):
        return pa.types.is_list(found) and _is_storable(found.value_type, column.value_type)
    if pa.types.is_map(column):
        return pa.types.is_map(found) and _is_storable(found.item_type, column.item_type)
    return bool(found == column)

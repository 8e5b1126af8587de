"""Avro: every type becomes a column, and no body is read by the wrong schema."""

import json
from collections.abc import Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from roquet.avro import AvroCodec
from roquet.pipeline.errors import BadOption, BadSchema
from roquet.pipeline.lake.ddl import type_name
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.schemas.avro_bodies import AvroReader
from roquet.pipeline.lake.schemas.body_schema import BodySchema, read_body_schema
from roquet.pipeline.lake.schemas.choosing import BodyOptions, chosen_schema
from roquet.pipeline.lake.schemas.evolution import RULES
from roquet.pipeline.lake.schemas.written_bodies import decoder_of
from tests.support.lake_rows import message_batch
from tests.support.raising import raises
from tests.support.schema_registry import avro_value

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "number", "type": "int"}, {"name": "what", "type": ["null", "string"]}],
}
LATER = {**ORDER, "fields": [{"name": "number", "type": "long"}, {"name": "price", "type": "int"}]}
OTHER = {**ORDER, "fields": [{"name": "number", "type": "string"}]}


def single_object(schema: Any, value: dict[str, Any]) -> bytes:
    return AvroCodec(dict, schema).encode(value)


def schema_of(
    tmp_path: Path, *schemas: Any, before: BodySchema | None = None, kind: str = "iceberg"
) -> BodySchema:
    paths = []
    for index, each in enumerate(schemas):
        paths.append(tmp_path / f"{index}.avsc")
        paths[-1].write_text(json.dumps(each))
    chosen = chosen_schema(before, BodyOptions(avro_schemas=tuple(paths)), RULES[LakeFormat(kind)])
    assert chosen is not None
    # As it is stored and sent.
    return read_body_schema(chosen.text)


def decoded(schema: BodySchema, bodies: Sequence[bytes]) -> tuple[list[Any], list[str]]:
    result = decoder_of(schema).decode(message_batch(0, range(len(bodies)), bodies=bodies))
    assert result.good.num_rows + result.bad.num_rows == len(bodies)
    assert not result.unknown
    values = result.good.select(schema.arrow.names).to_pylist(maps_as_pydicts="strict")
    return values, result.bad.column("reason").to_pylist()


def test_every_type_comes_out_as_it_went_in() -> None:
    def field(name: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "type": kind}

    def logical(kind: str, name: str, **more: int) -> dict[str, Any]:
        return {"type": kind, "logicalType": name, **more}

    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [field("at", logical("long", "timestamp-millis"))],
    }
    schema = {
        "type": "record",
        "name": "All",
        "fields": [
            field("yes", "boolean"),
            field("i", "int"),
            field("l", ["null", "long"]),
            field("f", "float"),
            field("d", "double"),
            field("b", "bytes"),
            field("s", "string"),
            field("color", {"type": "enum", "name": "Color", "symbols": ["RED"]}),
            field("fixed", {"type": "fixed", "name": "Two", "size": 2}),
            field("day", logical("int", "date")),
            field("clock", logical("long", "time-micros")),
            field("at", logical("long", "timestamp-micros")),
            field("here", logical("long", "local-timestamp-millis")),
            field("price", logical("bytes", "decimal", precision=9, scale=2)),
            field("uuid", logical("string", "uuid")),
            field("inner", inner),
            field("list", {"type": "array", "items": "Inner"}),
            field("map", {"type": "map", "values": ["null", "Inner"]}),
            field("either", ["int", "string"]),
            field("itself", ["null", "All"]),
            field("tags", {"type": "array", "items": "string"}),
        ],
    }
    moment = datetime(2026, 11, 16, 12, tzinfo=UTC)
    value = {
        "yes": True, "i": 1, "l": 2, "f": 0.5, "d": 0.25, "b": b"\xff", "s": "é", "color": "RED",
        "fixed": b"ab", "day": date(2026, 11, 16), "clock": time(1, 2, 3, 4), "at": moment,
        "here": moment.replace(tzinfo=None), "price": Decimal("1.25"), "uuid": UUID(int=7),
        "inner": {"at": moment}, "list": [{"at": moment}], "map": {"k": {"at": moment}, "n": None},
        "either": "text", "tags": ["x"],
    }  # fmt: skip
    value["itself"] = {**value, "itself": None}
    reader = AvroReader(json.dumps(schema))
    read = reader.read(avro_value(schema, value))
    types = {each.name: type_name(each.type) for each in reader.columns}
    assert types["inner"] == "struct<`at`:timestamp>"
    assert (types["either"], types["itself"], types["price"]) == (
        "string",
        "string",
        "decimal(9,2)",
    )
    schema_text = BodySchema("").with_columns(reader.columns)
    assert schema_text.arrow == reader.columns
    assert read["either"] == '"text"'
    assert json.loads(read["itself"])["i"] == 1
    assert (read["clock"], read["uuid"]) == ("01:02:03.000004", str(UUID(int=7)))
    assert read["here"] == moment
    assert read["map"] == [("k", {"at": moment}), ("n", None)]
    # A column of messages has this name.
    assert read["body_tags"] == ["x"]
    unchanged = ("yes", "i", "l", "f", "d", "b", "s", "color", "fixed", "day", "at", "price")
    assert {name: read[name] for name in unchanged} == {name: value[name] for name in unchanged}


def test_values_alone_and_single_objects_are_read(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, ORDER)
    values, reasons = decoded(
        schema,
        [
            avro_value(ORDER, {"number": 1, "what": "a"}),
            single_object(ORDER, {"number": 2, "what": None}),
            single_object(OTHER, {"number": "x"}),
            avro_value(ORDER, {"number": 3, "what": "b"}) + b"\x00",
            b"",
        ],
    )
    assert values == [{"number": 1, "what": "a"}, {"number": 2, "what": None}]
    assert "fingerprint" in reasons[0]
    assert "1 bytes follow" in reasons[1]
    assert len(reasons) == 3


def test_each_body_is_read_by_the_schema_that_it_names(tmp_path: Path) -> None:
    schema = schema_of(tmp_path, ORDER, LATER, OTHER)
    values, reasons = decoded(
        schema,
        [
            single_object(ORDER, {"number": 1, "what": "a"}),
            single_object(LATER, {"number": 2**40, "price": 5}),
            single_object(OTHER, {"number": "x"}),
            avro_value(ORDER, {"number": 1, "what": "a"}),
        ],
    )
    assert values == [
        {"number": 1, "what": "a", "price": None},
        {"number": 2**40, "what": None, "price": 5},
    ]
    assert "'number' is string" in reasons[0]
    assert "does not name its schema" in reasons[1]


def test_in_a_table_whose_columns_cannot_widen_what_fits_is_stored(tmp_path: Path) -> None:
    before = schema_of(tmp_path, ORDER, kind="delta")
    schema = schema_of(tmp_path, LATER, before=before, kind="delta")
    assert schema.columns == "`number` int, `what` string, `price` int"
    bodies = [avro_value(LATER, {"number": each, "price": 1}) for each in (7, 2**40)]
    values, reasons = decoded(schema, bodies)
    assert [each["number"] for each in values] == [7]
    assert "`$.number`" in reasons[0]


@pytest.mark.parametrize("text", ["no", '"int"', '{"type": "record"}', '{"type": "nothing"}', "[]"])
def test_what_is_no_schema_of_a_record_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.avsc"
    path.write_text(text)
    with raises(BadOption, name="avro-schema"):
        chosen_schema(None, BodyOptions(avro_schemas=(path,)), RULES[LakeFormat.DELTA])


def test_names_that_differ_only_in_case_are_refused() -> None:
    fields = [{"name": "id", "type": "int"}, {"name": "ID", "type": "int"}]
    with pytest.raises(BadSchema, match="without regard to case"):
        AvroReader(json.dumps({"type": "record", "name": "R", "fields": fields}))

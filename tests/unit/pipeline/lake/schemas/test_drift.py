"""Differences between bodies and columns are found, counted once for each message, and bounded."""

import json
from datetime import timedelta

import pyarrow as pa
import pytest

from roquet.pipeline.lake.ddl import read_ddl
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.schemas import drift as drift_module
from roquet.pipeline.lake.schemas.body_schema import (
    AvroSchema,
    BodySchema,
    Framing,
    UnusableSchema,
    WriterSchema,
)
from roquet.pipeline.lake.schemas.drift import (
    Difference,
    Problem,
    TopicDrift,
    drift_in,
    drift_rows,
    joined_by_topic,
    misfit_of,
    parser_of,
)
from tests.support.lake_rows import NOON, TOPIC, message_batch
from tests.support.schema_registry import FIRST_ORDER, avro_body


def messages(*bodies: bytes, first: int = 0) -> pa.RecordBatch:
    rows = message_batch(0, range(first, first + len(bodies)), bodies=bodies)
    return rows.append_column("brokerName", pa.array(["broker-a"] * len(bodies)))


def drift_of(ddl: str, *bodies: bytes, first: int = 0) -> TopicDrift:
    """Of the bodies that fit, and of those that do not, as two files have them."""
    decoded = JsonColumns(ddl).decode(messages(*bodies, first=first))
    parse = parser_of(BodySchema(ddl))
    return joined_by_topic(
        drift_in(TOPIC, [rows], read_ddl(ddl), parse) for rows in (decoded.good, decoded.bad)
    )[0]


def test_fields_without_a_column_are_counted_with_the_first_message() -> None:
    bodies = (b'{"a": 1}', b'{"a": 1, "b": "x"}', b'{"b": "y"}', b'{"c": null}')
    [row] = drift_rows(drift_of("a int", *bodies), read_ddl("a int"))
    assert row == (
        TOPIC,
        Problem.NO_COLUMN,
        "b",
        "text",
        2,
        NOON + timedelta(seconds=1),
        "broker-a@0@1",
    )


def test_the_first_message_is_the_first_of_all_files() -> None:
    files = [drift_of("a int", b'{"b": 1}', first=first) for first in (7, 3, 5)]
    [joined] = joined_by_topic(files)
    [sighting] = joined.found.values()
    assert (joined.messages, sighting.messages, sighting.example) == (3, 3, "broker-a@0@3")


def test_structs_and_lists_of_them_are_looked_into() -> None:
    ddl = "s struct<x:int,z:int>, l array<struct<x:int>>, m map<string,int>, e array<int>"
    body = b'{"s": {"x": 1, "y": true}, "l": [{"y": 1}, {"y": 2}], "m": {"k": 1}}'
    rows = drift_rows(drift_of(ddl, body), read_ddl(ddl))
    assert [row[1:5] for row in rows] == [
        (Problem.NO_COLUMN, "l[].y", "number", 1),
        (Problem.NO_COLUMN, "s.y", "boolean", 1),
        (Problem.NEVER_CAME, "s.z", "int", 0),
        (Problem.NEVER_CAME, "l[].x", "int", 0),
        (Problem.NEVER_CAME, "e", "array<int>", 0),
    ]


def test_what_did_not_fit_is_counted_by_field_and_reason() -> None:
    bodies = (b'{"a": "x"}', b'{"a": "y"}', b"{", b"{}  no", b"{} !", b'{"a": 300}')
    rows = drift_rows(drift_of("a tinyint", *bodies), read_ddl("a tinyint"))
    found = [row for row in rows if row.problem == Problem.DID_NOT_FIT]
    assert found[0][2:5] == ("", "JSON is malformed: trailing characters", 2)
    assert ("a", "Expected `int | null`, got `str`", 2) in [row[2:5] for row in found]
    assert sum(row.messages for row in found) == len(bodies)


@pytest.mark.parametrize(
    ("reason", "field", "detail"),
    [
        ("Expected `int`, got `str` - at `$.s.x`", "s.x", "Expected `int`, got `str`"),
        ("Expected `object`, got `array`", "", "Expected `object`, got `array`"),
        (
            "field 'a' is string in schema 5, and int",
            "a",
            "field 'a' is string in schema 5, and int",
        ),
        (
            "JSON is malformed: invalid character (byte 7)",
            "",
            "JSON is malformed: invalid character",
        ),
    ],
)
def test_a_reason_names_its_field(reason: str, field: str, detail: str) -> None:
    assert misfit_of(reason) == Difference(Problem.DID_NOT_FIT, field, detail)


def test_fields_of_written_bodies_are_read_by_their_writer() -> None:
    body = avro_body(FIRST_ORDER, "first", number=1, what="a")
    writer = AvroSchema(json.dumps(FIRST_ORDER))
    key = str(int.from_bytes(body[1:5], "big"))
    schema = BodySchema("number int", Framing.REGISTRY, {key: writer})
    found = drift_in(TOPIC, [messages(body)], schema.arrow, parser_of(schema))
    assert [each.field for each in found.found] == ["what"]
    assert found.came == {"number"}


@pytest.mark.parametrize("writers", [{}, {"1": UnusableSchema("gone")}])
def test_bodies_of_unknown_writers_have_no_fields(writers: dict[str, WriterSchema]) -> None:
    parse = parser_of(BodySchema("a int", Framing.REGISTRY, writers))
    assert parse(b"\0\0\0\0\1x") is None


def test_a_body_that_is_nested_too_deep_has_no_fields() -> None:
    rows = messages(b'{"b": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    found = drift_in(TOPIC, [rows], read_ddl("a int"), parser_of(BodySchema("a int")))
    assert (found.messages, dict(found.found)) == (1, {})


def test_more_differences_than_the_limit_are_only_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift_module, "DRIFT_FIELDS_MAX", 2)
    found = drift_of("a int", b'{"b": 1, "c": 1, "d": 1}', b'{"b": 1, "e": 1}')
    assert (len(found.found), found.left_out) == (2, 2)


def test_without_messages_nothing_is_reported_as_missing() -> None:
    assert not drift_rows(TopicDrift(TOPIC, 0, frozenset(), {}), read_ddl("a int"))

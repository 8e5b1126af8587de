"""What some bodies have becomes columns; what they do not agree in stays in the body."""

import json

import pytest

from roquet.pipeline.errors import BadSchema
from roquet.pipeline.lake.ddl import read_ddl
from roquet.pipeline.lake.json_columns import JsonColumns
from roquet.pipeline.lake.schemas.inference import INFERRED_FIELDS_MAX, Inference, inferred
from tests.support.lake_rows import message_batch


def of(*bodies: object) -> Inference:
    return inferred(json.dumps(each).encode() for each in bodies)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, None], "boolean"),
        ([1, 2**63 - 1], "bigint"),
        ([1, 2.5], "double"),
        ([1, 2**63], "decimal(38,0)"),
        (["2026-11-18", "x"], "string"),
        ([{"b": 1}, {"c": "x"}], "struct<b:bigint,c:string>"),
        ([[], [1, None], [2.5]], "array<double>"),
        ([[{"b": 1}], [{"c": [True]}]], "array<struct<b:bigint,c:array<boolean>>>"),
    ],
)
def test_a_field_gets_the_type_that_all_its_values_fit(values: list[object], kind: str) -> None:
    found = of(*({"a": value} for value in values))
    assert found.columns == read_ddl(f"a {kind}")
    assert not found.left_out
    bodies = [json.dumps({"a": value}).encode() for value in values]
    decoder = JsonColumns(f"a {kind}")
    assert not decoder.decode(message_batch(0, range(len(bodies)), bodies=bodies)).bad.num_rows


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ([1, "x"], "different types: integer, text"),
        ([{}, []], "different types: array, object"),
        ([None], "only null or empty"),
        ([{}], "objects without fields that have a type"),
        ([10**38], "integer of more than 38 digits"),
        ([True, 1], "different types: boolean, integer"),
    ],
)
def test_a_field_without_a_type_of_its_own_is_left_out(values: list[object], reason: str) -> None:
    found = of(*({"a": value, "b": 1} for value in values))
    assert found.columns.names == ["b"]
    assert found.left_out == {"a": reason}


def test_parts_of_fields_are_left_out_by_their_path() -> None:
    found = of({"a": {"b": 1, "c": []}}, {"a": {"b": 1, "c": None}, "d": [[]]})
    assert found.columns == read_ddl("a struct<b:bigint>")
    assert found.left_out == {"a.c[]": "only null or empty", "d[][]": "only null or empty"}


def test_names_that_columns_cannot_have_are_left_out() -> None:
    found = of({"Tags": 1, "price": 1, "PRICE": 2, "a`b": 1, "": 1, "x y": 1})
    assert found.columns.names == ["price", "x y"]
    assert set(found.left_out) == {"Tags", "PRICE", "a`b", ""}


def test_bodies_that_are_no_objects_are_counted() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    found = inferred([b'{"a": 1}', b"[1]", b"x", b"", b"\xff", deep])
    assert (found.bodies, found.not_json) == (6, 5)
    assert found.columns.names == ["a"]


def test_too_many_names_are_refused_with_a_remedy() -> None:
    with pytest.raises(BadSchema, match="map<string"):
        of({"a": {str(each): 1 for each in range(INFERRED_FIELDS_MAX)}})


def test_what_is_nested_too_deep_is_left_out() -> None:
    body: object = 1
    for _ in range(30):
        body = [body]
    assert not of({"a": body}).columns.names

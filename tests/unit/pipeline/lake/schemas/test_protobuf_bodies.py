"""Protobuf: every type becomes a column; schemas are texts or descriptors."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory

from roquet.pipeline.errors import BadOption, BadSchema
from roquet.pipeline.lake.ddl import type_name
from roquet.pipeline.lake.metadata import LakeFormat
from roquet.pipeline.lake.schemas.body_schema import ONLY, BodySchema, Framing, ProtobufSchema
from roquet.pipeline.lake.schemas.choosing import BodyOptions, chosen_schema
from roquet.pipeline.lake.schemas.evolution import RULES
from roquet.pipeline.lake.schemas.protobuf_bodies import (
    ProtobufReader,
    compiled,
    message_at,
    message_names,
)
from roquet.pipeline.lake.schemas.written_bodies import decoder_of
from tests.support.lake_rows import message_batch
from tests.support.raising import raises

ALL = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
import "google/protobuf/struct.proto";
import "common/money.proto";
enum Color { RED = 0; BLUE = 1; }
message Empty {}
message Order {
  int32 number = 1; uint32 small = 2; uint64 large = 3; sint64 l = 4; float f = 5; double d = 6;
  bool yes = 7; string s = 8; bytes b = 9; Color color = 10; optional int32 maybe = 11;
  google.protobuf.Timestamp at = 12; google.protobuf.Int32Value wrapped = 13;
  google.protobuf.Struct anything = 14; Order itself = 15; repeated string tags = 16;
  map<int32, Line> lines = 17; repeated Line listed = 18; Empty empty = 19; shop.Money price = 20;
  oneof choice { string left = 21; int64 right = 22; }
  message Line { string what = 1; }
}
"""
MONEY = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'


def message(descriptors: bytes, name: str, values: dict[str, Any]) -> bytes:
    """As another program writes it."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptors).file:
        pool.Add(file)
    kind = message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    return json_format.ParseDict(values, kind()).SerializeToString()


@pytest.fixture(scope="module")
def descriptors() -> bytes:
    return compiled({"common/money.proto": MONEY, "order.proto": ALL}, "order.proto")


def test_every_type_comes_out_as_it_went_in(descriptors: bytes) -> None:
    reader = ProtobufReader(descriptors, "shop.Order")
    types = {each.name: type_name(each.type) for each in reader.columns}
    assert (types["small"], types["large"]) == ("bigint", "decimal(20,0)")
    assert (types["listed"], types["lines"]) == (
        "array<struct<`what`:string>>",
        "map<string,struct<`what`:string>>",
    )
    values = {
        "number": -1, "small": 2**32 - 1, "large": 2**64 - 1, "l": -5, "f": 0.5, "d": 0.25,
        "yes": True, "s": "é", "b": "/w==", "color": "BLUE", "maybe": 0,
        "at": "2026-11-16T12:00:00.000001Z", "wrapped": 7, "anything": {"x": 1},
        "itself": {"number": 9}, "tags": ["x"], "lines": {"3": {"what": "a"}},
        "listed": [{"what": "b"}], "empty": {}, "price": {"cents": 125}, "right": 4,
    }  # fmt: skip
    schema = BodySchema("").with_columns(reader.columns)
    assert schema.arrow == reader.columns
    body = message(descriptors, "shop.Order", values)
    writers = BodySchema(
        schema.columns, Framing.PROTOBUF, {ONLY: ProtobufSchema(descriptors, "shop.Order")}
    )
    [row] = decoder_of(writers).decode(message_batch(0, [0], bodies=[body])).good.to_pylist()
    assert {name: row[name] for name in ("number", "small", "l", "f", "d", "yes", "s", "b")} == {
        "number": -1, "small": 2**32 - 1, "l": -5, "f": 0.5, "d": 0.25, "yes": True, "s": "é",
        "b": b"\xff",
    }  # fmt: skip
    assert row["large"] == Decimal(2**64 - 1)
    assert (row["color"], row["maybe"], row["wrapped"]) == ("BLUE", 0, 7)
    assert row["at"] == datetime(2026, 11, 16, 12, 0, 0, 1, UTC)
    assert json.loads(row["anything"]) == {"x": 1}
    assert json.loads(row["itself"]) == {"number": 9}
    # A column of messages has this name.
    assert row["body_tags"] == ["x"]
    assert row["lines"] == [("3", {"what": "a"})]
    assert row["listed"] == [{"what": "b"}]
    assert (row["empty"], row["price"], row["left"], row["right"]) == (
        True,
        {"cents": 125},
        None,
        4,
    )


def test_fields_that_know_whether_they_are_there_are_null_if_they_are_not(
    descriptors: bytes,
) -> None:
    found = ProtobufReader(descriptors, "shop.Order").read(b"")
    absent = {"maybe", "at", "wrapped", "anything", "itself", "empty", "price", "left", "right"}
    assert not absent & found.keys()
    assert (found["number"], found["s"], found["color"]) == (0, "", "RED")


def test_bytes_that_are_no_message_are_an_error(descriptors: bytes) -> None:
    reader = ProtobufReader(descriptors, "shop.Order")
    with pytest.raises(ValueError, match=r"[Pp]ars"):
        reader.read(b"\x0a\xff\xff\xff")


def test_messages_are_found_as_a_registry_counts_them(descriptors: bytes) -> None:
    assert message_names(descriptors) == ["shop.Empty", "shop.Order"]
    assert message_at(descriptors, [1]) == "shop.Order"
    assert message_at(descriptors, [1, 1]) == "shop.Order.Line"
    with pytest.raises(BadSchema, match="indexes"):
        message_at(descriptors, [2])


def test_a_schema_is_a_proto_or_descriptors(tmp_path: Path, descriptors: bytes) -> None:
    rules = RULES[LakeFormat.DELTA]
    (tmp_path / "common").mkdir()
    (tmp_path / "common/money.proto").write_text(MONEY)
    text, binary = tmp_path / "order.proto", tmp_path / "order.bin"
    text.write_text(ALL)
    binary.write_bytes(descriptors)
    found = [
        chosen_schema(None, BodyOptions(protobuf_schema=path, protobuf_message="shop.Order"), rules)
        for path in (text, binary)
    ]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].columns == found[1].columns
    with pytest.raises(BadOption, match=r"shop\.Empty"):
        chosen_schema(None, BodyOptions(protobuf_schema=binary), rules)
    with pytest.raises(BadOption, match=r"no message 'shop\.Nothing'"):
        chosen_schema(
            None, BodyOptions(protobuf_schema=binary, protobuf_message="shop.Nothing"), rules
        )
    with pytest.raises(BadOption, match="protobuf-schema"):
        chosen_schema(None, BodyOptions(protobuf_message="shop.Order"), rules)


@pytest.mark.parametrize("name", ["broken.proto", "broken.bin"])
def test_what_is_no_schema_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text("message {")
    with raises(BadOption, name="protobuf-schema"):
        chosen_schema(None, BodyOptions(protobuf_schema=path), RULES[LakeFormat.DELTA])

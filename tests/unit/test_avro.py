"""Values of Avro schemas, in its single-object encoding."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st

from roquet import BadArgument, Topic, Undecodable
from roquet.avro import AvroCodec
from tests.support.delivered import delivered, delivery_of
from tests.support.raising import raises

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "ordered", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}
NEWER: dict[str, Any] = {
    **SCHEMA,
    "fields": [*SCHEMA["fields"], {"name": "what", "type": "string", "default": "coffee"}],
}
MOMENT = datetime(2024, 5, 1, 12, 0, tzinfo=UTC)


@dataclass
class Order:
    number: int
    ordered: datetime


@dataclass
class NewerOrder:
    number: int
    ordered: datetime
    what: str


ORDERS = Topic("orders", Order, codec=AvroCodec(Order, SCHEMA))


def test_a_value_survives_a_round_trip() -> None:
    message = ORDERS(Order(7, MOMENT))
    assert message.properties == {"contentType": "avro/binary"}
    assert ORDERS.decode(delivery_of(message)) == Order(7, MOMENT)


def test_the_body_names_its_schema_as_the_specification_says() -> None:
    """7275d51a3f395c8f is the fingerprint of "int" in Avro's own tests."""
    codec = AvroCodec(int, {"type": "int"})
    assert codec.encode(1) == bytes.fromhex("c301 8f5c393f1ad57572 02")


def test_an_older_value_gets_the_defaults_of_the_newer_schema() -> None:
    newer = AvroCodec(NewerOrder, NEWER, older_schemas=[SCHEMA])
    assert newer.decode(ORDERS(Order(7, MOMENT)).body) == NewerOrder(7, MOMENT, "coffee")


def test_an_unknown_schema_is_named_with_what_to_do() -> None:
    body = AvroCodec(NewerOrder, NEWER).encode(NewerOrder(7, MOMENT, "tea"))
    with pytest.raises(Undecodable, match=r"no schema has the fingerprint .* `older_schemas`"):
        ORDERS.decode(delivered(body))


@given(tail=st.binary(max_size=40))
def test_any_bytes_after_the_head_are_a_value_or_undecodable(tail: bytes) -> None:
    head = ORDERS(Order(7, MOMENT)).body[:10]
    with suppress(Undecodable):
        assert isinstance(ORDERS.decode(delivered(head + tail)), Order)


@given(body=st.binary(max_size=20))
def test_what_is_not_avro_says_so(body: bytes) -> None:
    with pytest.raises(Undecodable):
        ORDERS.decode(delivered(body))


def test_what_does_not_fit_the_schema_is_refused_where_it_is_sent() -> None:
    with raises(BadArgument, argument="value"):
        ORDERS(Order("seven", MOMENT))  # type: ignore[arg-type]


@pytest.mark.parametrize("schema", [{}, {"type": "nothing"}])
def test_what_is_no_schema_is_refused(schema: dict[str, Any]) -> None:
    with raises(BadArgument, argument="schema"):
        AvroCodec(Order, schema)

"""Codecs that follow from the type of a topic."""

import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given, strategies as st

from roquet import BadArgument, Topic, Undecodable
from tests.support.delivered import delivered, delivery_of
from tests.support.raising import raises


class Struct(msgspec.Struct):
    number: int


@dataclass
class Data:
    number: int


class Table(TypedDict):
    number: int


class Model(pydantic.BaseModel):
    number: int = pydantic.Field(alias="theNumber", ge=0)


@pytest.mark.parametrize(
    ("kind", "value", "content_type", "body"),
    [
        (Struct, Struct(7), "application/json", b'{"number":7}'),
        (Data, Data(7), "application/json", b'{"number":7}'),
        (Table, Table(number=7), "application/json", b'{"number":7}'),
        (list[int], [1, 2], "application/json", b"[1,2]"),
        (Model, Model(theNumber=7), "application/json", b'{"theNumber":7}'),
        (Timestamp, Timestamp(seconds=7), "application/x-protobuf", b"\x08\x07"),
    ],
    ids=["struct", "dataclass", "TypedDict", "list", "pydantic", "protobuf"],
)
def test_the_codec_follows_from_the_type(
    kind: Any, value: Any, content_type: str, body: bytes
) -> None:
    topic = Topic("orders", kind)
    message = topic(value)
    assert message.properties == {"contentType": content_type}
    assert message.body == body
    assert topic.decode(delivery_of(message)) == value


@pytest.mark.parametrize("kind", [Struct, Data, Model, Timestamp])
@given(body=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_undecodable(kind: Any, body: bytes) -> None:
    with suppress(Undecodable):
        assert isinstance(Topic("orders", kind).decode(delivered(body)), kind)


def test_pydantic_says_which_field_is_wrong() -> None:
    with pytest.raises(Undecodable, match="theNumber"):
        Topic("orders", Model).decode(delivered(b'{"theNumber":-1}'))


def test_a_type_that_nothing_knows_is_refused_when_the_topic_is_made() -> None:
    class Unknown:
        pass

    with raises(BadArgument, argument="codec"):
        Topic("orders", int | Unknown | Struct | Data)  # type: ignore[arg-type]


def test_a_codec_of_the_program_is_used() -> None:
    class Text:
        content_type = "text/plain"

        def encode(self, value: str) -> bytes:
            return value.encode()

        def decode(self, body: bytes) -> str:
            return body.decode()

    notes = Topic("notes", str, codec=Text())
    assert notes("ciao").body == b"ciao"
    assert notes("ciao").properties == {"contentType": "text/plain"}
    with pytest.raises(Undecodable):
        notes.decode(delivered(b"\xff"))


def test_no_library_of_an_extra_is_loaded_for_a_dataclass() -> None:
    program = (
        "import sys\n"
        "from dataclasses import dataclass\n"
        "from roquet import Producer, PushConsumer, Topic\n"
        "Topic('orders', dataclass(type('Order', (), {'__annotations__': {'number': int}})))\n"
        "extras = ('django', 'fastavro', 'google.protobuf', 'opentelemetry', 'prometheus_client',"
        " 'pydantic', 'redis', 'sqlalchemy')\n"
        "assert not [name for name in extras if name in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

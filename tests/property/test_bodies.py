import inspect
import zlib
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from roquet.protocol.bodies.body import Body, MessageQueue, QueueTable, read_body, write_body
from roquet.protocol.bodies.clients import ConsumerRunningInfo, Heartbeat
from roquet.protocol.bodies.groups import GroupConfigTable
from roquet.protocol.bodies.name_server import (
    BrokerRegistration,
    TopicRoute,
    read_registration,
    write_compressed_registration,
)
from roquet.protocol.bodies.offsets import ConsumeStatsList
from roquet.protocol.codes import VERSION_5_0_0
from roquet.protocol.errors import ProtocolError
from roquet.protocol.lenient_json import strict_json, with_bare_integer_keys
from roquet.protocol.properties_text import read_properties_text, write_properties_text
from tests.support.declared_bodies import declared_bodies

# A lone member of that name is a reference, on both sides.
texts = st.text(max_size=8).filter(lambda text: text != "$ref")
SCALARS = {
    str: texts,
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bytes: st.binary(max_size=8),
    type(None): st.none(),
}


def values(value_type: Any) -> st.SearchStrategy[Any]:
    """Anything that a member of this declared type can hold."""
    if value_type in SCALARS:
        return SCALARS[value_type]
    if inspect.isclass(value_type) and issubclass(value_type, msgspec.Struct):
        members = {field.name: values(field.type) for field in msgspec.structs.fields(value_type)}
        return st.builds(value_type, **members)
    arguments = get_args(value_type)
    match get_origin(value_type):
        case origin if origin is Annotated:
            limits = arguments[1]
            return st.integers(limits.ge, limits.le)
        case origin if origin is list:
            return st.lists(values(arguments[0]), max_size=3)
        case origin if origin is dict:
            return st.dictionaries(values(arguments[0]), values(arguments[1]), max_size=3)
        case origin if origin is QueueTable:
            tables = st.dictionaries(values(MessageQueue), values(arguments[0]), max_size=3)
            return tables.map(QueueTable)
        case origin if origin in (UnionType, Union):
            return st.one_of([values(argument) for argument in arguments])
    raise AssertionError(value_type)


@pytest.mark.parametrize("body_type", declared_bodies())
@settings(max_examples=20)  # of each of many types
@given(data=st.data())
def test_what_is_written_is_what_is_read(body_type: type[Body], data: st.DataObject) -> None:
    body = data.draw(values(body_type))
    text = write_body(body)
    assert read_body(body_type, text) == body
    assert read_body(body_type, with_bare_integer_keys(text)) == body


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
integer_keys = st.integers(-(2**31), 2**31 - 1).map(str)
object_keys = st.dictionaries(texts, st.integers() | texts, max_size=3).map(
    lambda key: msgspec.json.encode(key).decode()
)


def decoded(text: bytes) -> object:
    return msgspec.json.decode(strict_json(text))


@given(
    st.dictionaries(integer_keys, json_values, max_size=3),
    st.dictionaries(object_keys, json_values, max_size=3),
    st.sampled_from([b"", b" ", b"\n\t"]),
)
def test_bare_keys_mean_the_same_as_quoted_ones(
    by_integer: dict[str, object], by_object: dict[str, object], blank: bytes
) -> None:
    encode = msgspec.json.encode
    tables = [
        b"{%b}" % b",".join(b"%b%b:%b" % (key.encode(), blank, encode(value)) for key, value in t)
        for t in (by_integer.items(), by_object.items())
    ]
    text = b"[%b]" % b",".join(tables)
    assert decoded(text) == decoded(encode([by_integer, by_object]))


@given(json_values)
def test_integer_keys_can_be_unquoted_and_quoted_again(value: object) -> None:
    text = strict_json(msgspec.json.encode(value))
    assert strict_json(with_bare_integer_keys(text)) == text


HOSTILE_TYPES = (
    Heartbeat, TopicRoute, ConsumeStatsList, ConsumerRunningInfo, GroupConfigTable, list[str],
)  # fmt: skip
# What the dialect is made of, so that some of it gets past the first look.
morsels = st.sampled_from(
    [
        b"{", b"}", b"[", b"]", b":", b",", b'"', b"\\", b"0", b"-", b"1e9", b"null", b"true", b" ",
        b"\xff", b"\0", b'"offsetTable"', b'"clientID"', b'{"$ref":"', b"$", b".", b"..", b"@",
        b'"}', b'{"brokerName":"b","queueId":1,"topic":"t"}', b'"\\ud800"', b'{"a":',
    ]
)  # fmt: skip
hostile_texts = st.lists(morsels, max_size=30).map(b"".join) | st.binary(max_size=60)


@pytest.mark.parametrize("body_type", HOSTILE_TYPES)
@given(text=hostile_texts)
def test_hostile_text_is_read_or_refused(body_type: Any, text: bytes) -> None:
    try:
        read_body(body_type, text)
    except ProtocolError:
        return


@st.composite
def damaged(draw: st.DrawFn, undamaged: st.SearchStrategy[bytes]) -> bytes:
    data = bytearray(draw(undamaged))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 4))] = draw(st.binary(max_size=4) | morsels)
    return bytes(data)


@given(damaged(values(ConsumeStatsList).map(write_body)))
def test_a_damaged_body_is_read_or_refused(text: bytes) -> None:
    try:
        body = read_body(ConsumeStatsList, text)
    except ProtocolError:
        return
    assert read_body(ConsumeStatsList, write_body(body)) == body


compressed_registrations = values(BrokerRegistration).map(
    lambda registration: zlib.decompress(write_compressed_registration(registration, VERSION_5_0_0))
)


@given(damaged(compressed_registrations).map(zlib.compress) | hostile_texts.map(zlib.compress))
def test_a_damaged_registration_is_read_or_refused(data: bytes) -> None:
    try:
        registration = read_registration(data, VERSION_5_0_0)
    except ProtocolError:
        return
    assert read_registration(write_body(registration), VERSION_5_0_0) == registration


@given(st.dictionaries(st.text(), st.text()))
def test_settings_survive_writing_and_reading(entries: dict[str, str]) -> None:
    assert read_properties_text(write_properties_text(entries)) == entries


@given(st.lists(st.sampled_from(["a", "=", ":", " ", "\\", "\n", "\r", "#", "u00e9", "é"])))
def test_settings_are_read_or_refused(parts: list[str]) -> None:
    try:
        entries = read_properties_text("".join(parts).encode("iso-8859-1"))
    except ProtocolError:
        return
    assert read_properties_text(write_properties_text(entries)) == entries

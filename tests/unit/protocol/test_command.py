"""Commands in both serializers."""

import pytest
from hypothesis import given, strategies as st

from roquet.protocol.codes import CommandFlag, Language, ResponseCode
from roquet.protocol.command import Command, decode_command, encode_command, reply_to
from roquet.protocol.errors import BadHeader
from roquet.protocol.fields import EMPTY_FIELDS, Header, field_texts, fields_text
from roquet.protocol.frame import SERIALIZER_BINARY, SERIALIZER_JSON, Frame
from roquet.protocol.frame_decoder import FrameDecoder

int32 = st.integers(-(2**31), 2**31 - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def commands(serializer: int, codes: st.SearchStrategy[int]) -> st.SearchStrategy[Command]:
    return st.builds(
        Command,
        code=codes,
        opaque=int32,
        flag=int32,
        version=st.integers(0, 2**15 - 1),
        language=st.sampled_from([language.name for language in Language]),
        remark=st.none() | texts.filter(bool),
        fields=st.dictionaries(texts, texts, max_size=5).map(fields_text),
        body=st.binary(max_size=50),
        serializer=st.just(serializer),
    )


any_command = commands(SERIALIZER_JSON, int32) | commands(
    SERIALIZER_BINARY, st.integers(-(2**15), 2**15 - 1)
)


def decode(data: bytes) -> Command:
    (frame,) = FrameDecoder().cut(data)
    return decode_command(frame)


@given(any_command)
@pytest.mark.slow
def test_a_command_survives_the_wire(command: Command) -> None:
    assert decode(encode_command(command)) == command


def test_a_json_header_is_written_as_java_writes_it() -> None:
    command = Command(
        105, opaque=1, version=409, language="JAVA", fields=fields_text({"topic": "T"})
    )
    written = encode_command(command)
    assert written[:8].hex() == "0000007f0000007b"
    assert written[8:] == (
        b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":1,'
        b'"serializeTypeCurrentRPC":"JSON","version":409}'
    )


def test_a_binary_header_is_written_as_java_writes_it() -> None:
    command = Command(
        105,
        opaque=1,
        version=409,
        fields=fields_text({"topic": "T"}),
        serializer=SERIALIZER_BINARY,
    )
    assert encode_command(command).hex() == (
        "000000250100002100690301990000000100000000000000000000000c0005746f7069630000000154"
    )


def test_members_may_come_in_any_order_with_unknown_ones_between() -> None:
    header = b'{"version":1,"what":[{}],"opaque":7,"language":null,"extFields":null,"code":3}'
    command = decode_command(Frame(SERIALIZER_JSON, header, b""))
    assert (command.code, command.opaque, command.language) == (3, 7, None)
    assert field_texts(command.fields) == {}


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b'{"opaque":1}',
        b'{"code":"x"}',
        b'{"code":2147483648}',
        b'{"code":1,"remark":"\xe5"}',
        b'{"code":1,"extFields":',
        b"[" * 100_000,
        b'{"code":1,"extFields":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_an_unreadable_json_header_is_a_protocol_error(header: bytes) -> None:
    with pytest.raises(BadHeader):
        decode_command(Frame(SERIALIZER_JSON, header, b""))


@pytest.mark.parametrize(
    "header",
    [
        "",
        "0069030199000000010000000000000000",  # ends inside the fields' size
        "006903019900000001000000000000000500000000",  # the remark leaves the header
        "0069030199000000010000000000000000ffffffff",  # negative size of all fields
        "00690301990000000100000000000000000000000500054141",  # a name leaves the header
        "006903019900000001000000000000000000000007000141000000ff",  # a value leaves it
        "00690301990000000100000000000000000000000000",  # bytes behind the end
        "006903019900000001000000000000000000000008000141000000" + "01ff",  # not UTF-8
    ],
)
def test_an_unreadable_binary_header_is_a_protocol_error(header: str) -> None:
    with pytest.raises(BadHeader):
        decode_command(Frame(SERIALIZER_BINARY, bytes.fromhex(header), b""))


def test_a_code_beyond_16_bits_cannot_travel_in_a_binary_header() -> None:
    with pytest.raises(BadHeader, match="200050"):
        encode_command(Command(200050, serializer=SERIALIZER_BINARY))


class _Answer(Header):
    queue_offset: int


@pytest.mark.parametrize("serializer", [SERIALIZER_JSON, SERIALIZER_BINARY])
def test_a_reply_mirrors_opaque_and_serializer_of_its_request(serializer: int) -> None:
    request = Command(310, opaque=77, serializer=serializer)
    reply = reply_to(request, header=_Answer(queue_offset=5), body=b"b")
    assert (reply.opaque, reply.serializer, reply.code) == (77, serializer, ResponseCode.SUCCESS)
    assert reply.is_response
    assert not reply.is_oneway
    assert field_texts(decode(encode_command(reply)).fields) == {"queueOffset": "5"}


def test_every_reply_has_header_fields_because_some_clients_need_them() -> None:
    reply = reply_to(Command(34))
    assert reply.fields == EMPTY_FIELDS
    assert b'"extFields":{}' in encode_command(reply)
    assert reply.flag == CommandFlag.RESPONSE

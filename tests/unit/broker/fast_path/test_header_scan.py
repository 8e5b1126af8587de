"""Which headers are usual, and that what is found in them is what a decoder finds."""

import json

import pytest
from hypothesis import given, strategies as st

from roquet.broker.fast_path.header_scan import scanned
from roquet.protocol.command import decode_command
from roquet.protocol.errors import BadHeader
from roquet.protocol.fields import field_texts
from roquet.protocol.frame import SERIALIZER_JSON, Frame

USUAL = (
    b'{"code":310,"extFields":{"a":"g","i":"TAGS\\u0001red\\u0002","n":""},"flag":0,'
    b'"language":"JAVA","opaque":-7,"serializeTypeCurrentRPC":"JSON","version":407}'
)


def test_a_header_of_java_is_usual() -> None:
    fields = {"a": "g", "i": "TAGS\x01red\x02", "n": ""}
    assert scanned(USUAL) == (310, -7, 0, fields)


@pytest.mark.parametrize(
    ("part", "instead"),
    [
        (b'"code":310', b'"code": 310'),
        (b'"code":310', b'"code":"310"'),
        (b'"code":310', b'"code":0310'),
        (b'"code":310', b'"code":-0'),
        (b'"code":310', b'"code":310.0'),
        (b'"code":310', b'"code":2147483648'),
        (b'"code":310', b'"code":310,"code":310'),
        (b'"code":310,', b""),
        (b'"code":310', b'"what":310'),
        (b'"opaque":-7', b'"opaque":-'),
        (b'"opaque":-7', b'"opaque":9999999999999999999'),
        (b'"a":"g"', b'"a":1'),
        (b'"a":"g"', b'"a":null'),
        (b'"a":"g"', b'"a":"\\n"'),
        (b'"a":"g"', b'"a":"\\u0003"'),
        (b'"a":"g"', b'"a":"\xc3\xb6"'),
        (b'"a":"g"', b'"a":"\x01"'),
        (b'"a":"g"', b'"\\u0001":"g"'),
        (b'"a":"g"', b'"a":"g",'),
        (b'"a":"g"', b",".join(b'"%d":""' % number for number in range(40))),
        (b'"JAVA"', b"null"),
        (b"407}", b"407} "),
        (b"407}", b"407"),
        (b"407}", b"407}}"),
    ],
)
def test_what_is_written_otherwise_is_not(part: bytes, instead: bytes) -> None:
    assert part in USUAL
    assert scanned(USUAL.replace(part, instead, 1)) is None


def test_no_cut_of_a_header_is_usual() -> None:
    assert not any(scanned(USUAL[:size]) for size in range(len(USUAL)))


@given(header=st.binary(max_size=200))
def test_any_bytes_can_be_scanned(header: bytes) -> None:
    scanned(header)


@given(at=st.integers(0, len(USUAL) - 1), byte=st.integers(0, 255))
def test_whatever_is_usual_means_the_same_to_the_decoder(at: int, byte: int) -> None:
    header = USUAL[:at] + bytes([byte]) + USUAL[at + 1 :]
    found = scanned(header)
    if found is not None:
        command = decode_command(Frame(SERIALIZER_JSON, header, b""))
        texts = field_texts(command.fields)
        assert found == (command.code, command.opaque, command.flag, texts)


@given(
    fields=st.dictionaries(
        st.text(st.characters(min_codepoint=1, max_codepoint=130), max_size=4),
        st.text(st.characters(min_codepoint=1, max_codepoint=130), max_size=9),
        min_size=1,
    )
)
@pytest.mark.slow
def test_fields_are_read_as_the_decoder_reads_them_or_not_at_all(fields: dict[str, str]) -> None:
    command = {"code": 1, "extFields": fields, "flag": 0, "opaque": 2}
    found = scanned(json.dumps(command, separators=(",", ":")).encode())
    assert found in (None, (1, 2, 0, fields))


def test_a_header_that_is_not_usual_may_be_no_header_at_all() -> None:
    with pytest.raises(BadHeader):
        decode_command(Frame(SERIALIZER_JSON, b"{", b""))
    assert scanned(b"{") is None

"""`reply_frame` writes what `encode_command` writes, or leaves it to that."""

from typing import Final

import pytest
from hypothesis import given, strategies as st

from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.fields import AddressedHeader, Header, NoFields
from roquet.protocol.headers.groups import OffsetReplyHeader
from roquet.protocol.headers.messages import QueryMessageReplyHeader, SendMessageReplyHeader
from roquet.protocol.templates.reply_frame import reply_frame

LONG: Final = "a" * 1_100

int64s = st.integers(-(2**63), 2**63 - 1)
texts = st.one_of(
    st.text(max_size=40),
    st.text("ab,%:{}[] ~", max_size=40),
    st.sampled_from(['"', "\\", "\x7f", "\x1f", "/", "é", "\x00", LONG]),
    # Of headers that only just have room, or have none for the last number.
    st.integers(600, 950).map("a".__mul__),
)
headers: st.SearchStrategy[Header | None] = st.one_of(
    st.none(),
    st.builds(NoFields),
    st.builds(OffsetReplyHeader, offset=int64s),
    st.builds(
        QueryMessageReplyHeader,
        index_last_update_timestamp=int64s,
        index_last_update_phyoffset=int64s,
    ),
    st.builds(
        SendMessageReplyHeader,
        msg_id=texts,
        queue_id=st.integers(-(2**31), 2**31 - 1),
        queue_offset=int64s,
        region_id=texts,
        is_traced=st.booleans(),
        recall_handle=st.none() | texts,
    ),
    st.builds(AddressedHeader, broker_name=st.none() | texts, is_oneway=st.none() | st.booleans()),
)


def expected(
    opaque: int, code: ResponseCode, header: Header | None, body: bytes, remark: str | None
) -> bytes:
    request = Command(code=0, opaque=opaque)
    return encode_command(reply_to(request, code, header=header, body=body, remark=remark))


@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    code=st.sampled_from(ResponseCode),
    header=headers,
    body=st.binary(max_size=50),
    remark=st.none() | texts,
)
def test_both_ways_write_the_same(
    opaque: int, code: ResponseCode, header: Header | None, body: bytes, remark: str | None
) -> None:
    frame = reply_frame(opaque, code, header, body, remark)
    assert frame is None or frame == expected(opaque, code, header, body, remark)


@pytest.mark.parametrize("remark", [None, "", "not readable: %d, {}"])
@pytest.mark.parametrize("header", [None, OffsetReplyHeader(offset=2**63 - 1)])
def test_common_replies_are_written(header: Header | None, remark: str | None) -> None:
    frame = reply_frame(-1, ResponseCode.SUCCESS, header, b"body", remark)
    assert frame == expected(-1, ResponseCode.SUCCESS, header, b"body", remark)


@pytest.mark.parametrize("remark", ["é", 'say "x"', "a\\b", "a\nb", "\x7f", LONG])
def test_what_has_to_be_escaped_or_is_long_is_left(remark: str) -> None:
    assert reply_frame(1, ResponseCode.SUCCESS, None, b"", remark) is None


def test_a_number_that_is_none_of_the_wire_is_left() -> None:
    header = OffsetReplyHeader(offset=2**63)
    assert reply_frame(1, ResponseCode.SUCCESS, header, b"", None) is None

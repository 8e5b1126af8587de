"""A filled send template equals the encoded request."""

import pytest
from hypothesis import given, strategies as st

from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command, decode_command, encode_command
from roquet.protocol.fields import fields_of, read_header
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.headers.messages import SendMessageHeaderV2
from roquet.protocol.templates.send_request import SendTemplate

INT32 = st.integers(-(2**31), 2**31 - 1)


def header(topic: str, **members: object) -> SendMessageHeaderV2:
    values: dict[str, object] = {
        "producer_group": "shop%100%%d",
        "topic": topic,
        "default_topic": "TBW102",
        "default_topic_queue_nums": 4,
        "queue_id": 3,
        "sys_flag": 0,
        "born_timestamp": 0,
        "flag": 0,
        "reconsume_times": 0,
        "broker_name": "broker-a",
    }
    return SendMessageHeaderV2(**(values | members))  # type: ignore[arg-type]


@given(
    opaque=st.integers(0, 2**31 - 1),
    born_timestamp=st.integers(0, 2**62),
    properties=st.text(st.characters(codec="utf-8")) | st.text("aZ \x01\x02~"),
    body=st.binary(),
    flag=INT32,
    sys_flag=INT32,
)
@pytest.mark.slow
def test_a_filled_template_is_the_request_with_these_values(
    opaque: int, born_timestamp: int, properties: str, body: bytes, flag: int, sys_flag: int
) -> None:
    template = SendTemplate(RequestCode.SEND_MESSAGE_V2, header("orders"))
    filled = header(
        "orders",
        born_timestamp=born_timestamp,
        properties=properties,
        flag=flag,
        sys_flag=sys_flag,
    )
    assert template.fill(
        born_timestamp, properties, body, flag, sys_flag, opaque
    ) == encode_command(Command(310, opaque, fields=fields_of(filled), body=body))


@pytest.mark.parametrize("topic", ["1111111111", "1444444444", "%d", "a%b"])
def test_a_topic_is_never_taken_for_a_mark(topic: str) -> None:
    template = SendTemplate(RequestCode.SEND_MESSAGE_V2, header(topic))
    (frame,) = FrameDecoder().cut(template.fill(1, "", b"", 0, 0, 2))
    assert read_header(SendMessageHeaderV2, decode_command(frame).fields).topic == topic


def test_a_body_may_be_a_bytearray() -> None:
    template = SendTemplate(RequestCode.SEND_MESSAGE_V2, header("orders"))
    assert template.fill(1, "", bytearray(b"tea"), 0, 0, 2) == template.fill(1, "", b"tea", 0, 0, 2)

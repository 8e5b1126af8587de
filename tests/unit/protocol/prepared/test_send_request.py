"""The prepared send request says what an encoded one says."""

import pytest
from hypothesis import given, strategies as st

from roquet.protocol.codes import RequestCode
from roquet.protocol.command import decode_command
from roquet.protocol.fields import read_header
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.headers.sending import SendMessageHeaderV2
from roquet.protocol.prepared.send_request import SendTemplate

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
    properties=st.text(st.characters(codec="utf-8")),
    body=st.binary(),
    flag=INT32,
    sys_flag=INT32,
)
def test_a_filled_template_is_the_request_with_these_values(
    opaque: int, born_timestamp: int, properties: str, body: bytes, flag: int, sys_flag: int
) -> None:
    template = SendTemplate(RequestCode.SEND_MESSAGE_V2, header("orders"))
    (frame,) = FrameDecoder().cut(
        template.fill(born_timestamp, properties, body, flag, sys_flag, opaque)
    )
    command = decode_command(frame)
    assert (command.code, command.opaque, command.body) == (310, opaque, body)
    assert read_header(SendMessageHeaderV2, command.fields) == header(
        "orders",
        born_timestamp=born_timestamp,
        properties=properties,
        flag=flag,
        sys_flag=sys_flag,
    )


@pytest.mark.parametrize("topic", ["1111111111", "1444444444", "%d", "a%b"])
def test_a_topic_is_never_taken_for_a_mark(topic: str) -> None:
    template = SendTemplate(RequestCode.SEND_MESSAGE_V2, header(topic))
    (frame,) = FrameDecoder().cut(template.fill(1, "", b"", 0, 0, 2))
    assert read_header(SendMessageHeaderV2, decode_command(frame).fields).topic == topic

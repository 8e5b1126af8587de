import pytest
from hypothesis import given, strategies as st

from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.headers.pulling import PullMessageReplyHeader
from roquet.protocol.headers.sending import SendMessageReplyHeader
from roquet.protocol.hot_replies import SendReplyTemplate, found_reply

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
offset_ids = st.binary(min_size=16, max_size=16).map(lambda data: data.hex().upper())


@given(
    opaque=int32s,
    msg_ids=st.lists(offset_ids, min_size=1, max_size=3),
    queue_id=int32s,
    queue_offset=int64s,
    is_traced=st.booleans(),
)
def test_a_filled_send_reply_equals_the_encoded_one(
    opaque: int, msg_ids: list[str], queue_id: int, queue_offset: int, is_traced: bool
) -> None:
    template = SendReplyTemplate("DefaultRegion", is_traced=is_traced)
    header = SendMessageReplyHeader(
        msg_id=",".join(msg_ids),
        queue_id=queue_id,
        queue_offset=queue_offset,
        region_id="DefaultRegion",
        is_traced=is_traced,
    )
    encoded = encode_command(reply_to(Command(310, opaque), header=header))
    assert template.fill(opaque, ",".join(msg_ids), queue_id, queue_offset) == encoded


@pytest.mark.parametrize("region_id", ["100%", "%s %d", 'a "quoted" \\ name', "Zürich", "中国", ""])
def test_any_region_name_can_be_a_setting(region_id: str) -> None:
    header = SendMessageReplyHeader(
        msg_id="0A", queue_id=1, queue_offset=2, region_id=region_id, is_traced=False
    )
    encoded = encode_command(reply_to(Command(310, 7), header=header))
    assert SendReplyTemplate(region_id, is_traced=False).fill(7, "0A", 1, 2) == encoded


@given(
    opaque=int32s,
    broker_id=int64s,
    next_begin_offset=int64s,
    min_offset=int64s,
    max_offset=int64s,
    records=st.binary(max_size=300),
)
def test_a_filled_pull_head_and_its_records_equal_the_encoded_reply(
    opaque: int,
    broker_id: int,
    next_begin_offset: int,
    min_offset: int,
    max_offset: int,
    records: bytes,
) -> None:
    header = PullMessageReplyHeader(
        suggest_which_broker_id=broker_id,
        next_begin_offset=next_begin_offset,
        min_offset=min_offset,
        max_offset=max_offset,
    )
    reply = reply_to(
        Command(11, opaque), ResponseCode.SUCCESS, header=header, body=records, remark="FOUND"
    )
    frame = found_reply(opaque, broker_id, next_begin_offset, min_offset, max_offset, records)
    assert frame == encode_command(reply)

from hypothesis import given, strategies as st

from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.headers.messages import PullMessageReplyHeader
from roquet.protocol.templates.pull_reply import found_reply

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)


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

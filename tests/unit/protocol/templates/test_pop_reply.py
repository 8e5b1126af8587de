from hypothesis import given, strategies as st

from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.headers.pop import PopMessageReplyHeader
from roquet.protocol.templates.pop_reply import popped_reply

int64s = st.integers(-(2**63), 2**63 - 1)
infos = st.text(st.sampled_from("0123456789 ;,"), max_size=300)


@given(
    opaque=st.integers(-(2**31), 2**31 - 1),
    numbers=st.tuples(int64s, int64s, int64s, int64s),
    starts=infos,
    offsets=infos,
    records=st.binary(max_size=300),
)
def test_a_filled_pop_head_and_its_records_equal_the_encoded_reply(
    opaque: int, numbers: tuple[int, int, int, int], starts: str, offsets: str, records: bytes
) -> None:
    pop_time, invisible_time, revive_qid, rest_num = numbers
    header = PopMessageReplyHeader(
        pop_time=pop_time,
        invisible_time=invisible_time,
        revive_qid=revive_qid,
        rest_num=rest_num,
        start_offset_info=starts,
        msg_offset_info=offsets,
    )
    reply = reply_to(
        Command(200_050, opaque), ResponseCode.SUCCESS, header=header, body=records, remark="FOUND"
    )
    frame = popped_reply(numbers, starts.encode(), offsets.encode(), opaque, records)
    assert frame == encode_command(reply)

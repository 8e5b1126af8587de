import pytest
from hypothesis import given, strategies as st

from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.headers.messages import SendMessageReplyHeader
from roquet.protocol.host import pack_host
from roquet.protocol.messages.message_id import offset_id
from roquet.protocol.templates.send_reply import SendReplyTemplate

int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
HOST = pack_host("127.0.0.1", 10911)


def encoded(
    host: bytes,
    opaque: int,
    physical_offsets: list[int],
    queue_id: int,
    queue_offset: int,
    region_id: str,
    *,
    is_traced: bool,
) -> bytes:
    header = SendMessageReplyHeader(
        msg_id=",".join(offset_id(host, each) for each in physical_offsets),
        queue_id=queue_id,
        queue_offset=queue_offset,
        region_id=region_id,
        is_traced=is_traced,
    )
    return encode_command(reply_to(Command(310, opaque), header=header))


@given(
    host=st.sampled_from((HOST, pack_host("fd00::2", 10911))),
    opaque=int32s,
    physical_offsets=st.lists(int64s, min_size=1, max_size=3),
    queue_id=int32s,
    queue_offset=int64s,
    is_traced=st.booleans(),
)
@pytest.mark.slow
def test_a_filled_reply_equals_the_encoded_one(
    host: bytes,
    opaque: int,
    physical_offsets: list[int],
    queue_id: int,
    queue_offset: int,
    is_traced: bool,
) -> None:
    template = SendReplyTemplate(host, "DefaultRegion", is_traced=is_traced)
    filled = template.fill(opaque, physical_offsets, queue_id, queue_offset)
    assert filled == encoded(
        host,
        opaque,
        physical_offsets,
        queue_id,
        queue_offset,
        "DefaultRegion",
        is_traced=is_traced,
    )


@pytest.mark.parametrize("region_id", ["100%", "%s %d", 'a "quoted" \\ name', "Zürich", "中国", ""])
def test_any_region_name_can_be_a_setting(region_id: str) -> None:
    template = SendReplyTemplate(HOST, region_id, is_traced=False)
    expected = encoded(HOST, 7, [10], 1, 2, region_id, is_traced=False)
    assert template.fill(7, [10], 1, 2) == expected

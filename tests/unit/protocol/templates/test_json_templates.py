"""A filled pull template equals the encoded request."""

from hypothesis import example, given, strategies as st

from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command, encode_command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.messages import PullMessageHeader
from roquet.protocol.templates.json_templates import PullTemplate

OFFSETS = st.integers(0, 2**63 - 1)
INT32 = st.integers(0, 2**31 - 1)
TEXTS = st.text(st.characters(codec="utf-8"))


def header(queue_offset: int, sys_flag: int, commit_offset: int, text: str) -> PullMessageHeader:
    return PullMessageHeader(
        consumer_group=text,
        topic=text,
        queue_id=3,
        queue_offset=queue_offset,
        max_msg_nums=32,
        sys_flag=sys_flag,
        commit_offset=commit_offset,
        suspend_timeout_millis=15_000,
        sub_version=1_700_000_000_000,
        subscription=text,
        expression_type="TAG",
        broker_name=text,
    )


@given(offset=OFFSETS, sys_flag=INT32, commit=OFFSETS, opaque=INT32, text=TEXTS)
@example(1, 2, 3, 4, "orders")
@example(1, 2, 3, 4, "%d 100%% %(a)s")
@example(1, 2, 3, 4, "1999999999")
@example(1, 2, 3, 4, '"queueOffset":"1999999999","opaque":1999999999')
def test_a_filled_template_is_the_request_with_these_values(
    offset: int, sys_flag: int, commit: int, opaque: int, text: str
) -> None:
    filled = PullTemplate(header(0, 0, 0, text)).fill(offset, sys_flag, commit, opaque)
    whole = header(offset, sys_flag, commit, text)
    assert filled == encode_command(
        Command(RequestCode.PULL_MESSAGE, opaque, fields=fields_of(whole))
    )

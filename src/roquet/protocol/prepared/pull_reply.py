"""The reply to a pull that found messages, filled into prepared text instead of built and encoded.

Only for peers that speak JSON headers. The text is made by `reply_to` and `encode_command` once,
with marks where the values go, so both ways cannot drift apart. See also `send_reply.pyx`.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.fields import Header
from roquet.protocol.frame import PREFIX_SIZE
from roquet.protocol.headers.pulling import PullMessageReplyHeader

# Numbers that stand where a value goes; nothing else in a reply looks like them.
_MARKS: Final = (1_111_111_111, 1_222_222_222, 1_333_333_333, 1_444_444_444)
_OPAQUE_MARK: Final = 1_999_999_999

# In JSON the byte of the serializer is 0, so the size of the header fills a whole int32.
_pack_prefix = Struct(">ii").pack


# Six parameters, because building a value object would cost as much as the rest of the call.
def found_reply(
    opaque: int,
    broker_id: int,
    next_begin_offset: int,
    min_offset: int,
    max_offset: int,
    records: bytes,
) -> bytes:
    """The whole frame. `records` are many bytes, so they are copied only once."""
    a, b, c, d, e, f = _FOUND_PIECES
    # As one expression, which is twice as fast as a template.
    header = (
        f"{a}{broker_id}{b}{next_begin_offset}{c}{min_offset}{d}{max_offset}{e}{opaque}{f}"
    ).encode()
    size = len(header)
    return b"".join((_pack_prefix(4 + size + len(records), size), header, records))


def reply_pieces(header: Header, remark: str | None, marks: Sequence[int]) -> list[bytes]:
    """The header of the reply without its values: what lies before, between and after them.

    The values are the marks, which come in this very order, and the opaque.
    """
    request = Command(code=0, opaque=_OPAQUE_MARK)
    frame = encode_command(reply_to(request, ResponseCode.SUCCESS, header=header, remark=remark))
    rest = frame[PREFIX_SIZE:]
    pieces: list[bytes] = []
    for mark in (*marks, _OPAQUE_MARK):
        text = b"%d" % mark
        assert rest.count(text) == 1, f"mark {mark} is not where the template wants it"
        before, _, rest = rest.partition(text)
        pieces.append(before)
    return [*pieces, rest]


_FOUND_PIECES: Final = [
    piece.decode()
    for piece in reply_pieces(
        PullMessageReplyHeader(
            suggest_which_broker_id=_MARKS[0],
            next_begin_offset=_MARKS[1],
            min_offset=_MARKS[2],
            max_offset=_MARKS[3],
        ),
        "FOUND",
        _MARKS,
    )
]

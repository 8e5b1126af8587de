"""The two replies a broker writes most, filled into prepared text instead of built and encoded.

    send success    SendReplyTemplate(region_id, is_traced).fill(opaque, msg_id, ...)  whole frame
    pull found      found_reply(opaque, ..., records)                                  whole frame

Only for peers that speak JSON headers. The text is made by `reply_to` and `encode_command` once,
with marks where the values go, so both ways cannot drift apart.
"""

from struct import Struct
from typing import Final, final

from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.fields import Header
from roquet.protocol.frame import PREFIX_SIZE
from roquet.protocol.headers.pulling import PullMessageReplyHeader
from roquet.protocol.headers.sending import SendMessageReplyHeader

# Numbers that stand where a value goes; nothing else in a reply looks like them.
_MARKS: Final = (1_111_111_111, 1_222_222_222, 1_333_333_333, 1_444_444_444)
_OPAQUE_MARK: Final = 1_999_999_999

# In JSON the byte of the serializer is 0, so the size of the header fills a whole int32.
_pack_prefix = Struct(">ii").pack


@final
class SendReplyTemplate:
    """The success reply to a send; region and tracing are settings of the broker."""

    __slots__ = ("_text",)

    def __init__(self, region_id: str, *, is_traced: bool) -> None:
        msg_id, queue_id, queue_offset = _MARKS[:3]
        header = SendMessageReplyHeader(
            msg_id=str(msg_id),
            queue_id=queue_id,
            queue_offset=queue_offset,
            region_id=region_id,
            is_traced=is_traced,
        )
        pieces = _pieces(header, None, (msg_id, queue_id, queue_offset, _OPAQUE_MARK))
        self._text = "%s".join([piece.replace("%", "%%") for piece in pieces])

    def fill(self, opaque: int, msg_id: str, queue_id: int, queue_offset: int) -> bytes:
        """The whole frame. `msg_id` is one or many of our own offset ids, so nothing to escape."""
        header = (self._text % (msg_id, queue_id, queue_offset, opaque)).encode()
        size = len(header)
        return _pack_prefix(4 + size, size) + header


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


def _pieces(header: Header, remark: str | None, marks: tuple[int, ...]) -> list[str]:
    """The text of the reply before, between and behind the marks, which come in this order."""
    request = Command(code=0, opaque=_OPAQUE_MARK)
    frame = encode_command(reply_to(request, ResponseCode.SUCCESS, header=header, remark=remark))
    rest = frame[PREFIX_SIZE:].decode()
    pieces: list[str] = []
    for mark in marks:
        assert rest.count(str(mark)) == 1, f"mark {mark} is not where the template wants it"
        before, _, rest = rest.partition(str(mark))
        pieces.append(before)
    return [*pieces, rest]


_FOUND_PIECES: Final = _pieces(
    PullMessageReplyHeader(
        suggest_which_broker_id=_MARKS[0],
        next_begin_offset=_MARKS[1],
        min_offset=_MARKS[2],
        max_offset=_MARKS[3],
    ),
    "FOUND",
    (*_MARKS, _OPAQUE_MARK),
)

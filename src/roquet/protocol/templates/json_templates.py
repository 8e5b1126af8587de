"""Frames with JSON headers as templates: text written once, into which the values are filled.

    PullTemplate(header).fill(queue_offset, sys_flag, commit_offset, opaque)      the whole frame
    reply_pieces(header, remark, marks)     for the compiled templates of replies

The text is written by `encode_command`, with marks where the values go, so both ways cannot
drift apart. Not for signed requests: a signature would have to cover the values.
"""

from collections.abc import Sequence
from typing import Final, final

import msgspec

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.fields import Header, fields_of
from roquet.protocol.frame import PREFIX_SIZE, SERIALIZER_JSON, encode_frame
from roquet.protocol.headers.messages import PullMessageHeader

# A number that stands where a value goes. In a pull it is looked for with the name before it;
# in a reply nothing else looks like it.
_MARK: Final = 1_999_999_999
# In the order in which they are written.
_PLACES: Final = (b'"queueOffset":"%d"', b'"sysFlag":"%d"', b'"commitOffset":"%d"', b'"opaque":%d')


@final
class PullTemplate:
    """All pulls of one queue that differ in no other field: what a consumer writes most."""

    __slots__ = ("_text",)

    def __init__(self, header: PullMessageHeader) -> None:
        marked = msgspec.structs.replace(
            header, queue_offset=_MARK, sys_flag=_MARK, commit_offset=_MARK
        )
        frame = encode_command(Command(RequestCode.PULL_MESSAGE, _MARK, fields=fields_of(marked)))
        done, rest = b"", frame[PREFIX_SIZE:].replace(b"%", b"%%")
        for place in _PLACES:
            before, found, rest = rest.partition(place % _MARK)
            assert found, f"{place!r} is not where the template wants it"
            done += before + place
        self._text = done + rest

    def fill(self, queue_offset: int, sys_flag: int, commit_offset: int, opaque: int) -> bytes:
        values = (queue_offset, sys_flag, commit_offset, opaque)
        return encode_frame(SERIALIZER_JSON, self._text % values)


def reply_pieces(header: Header, remark: str | None, marks: Sequence[int]) -> list[bytes]:
    """The header of the reply without its values: the text before, between and after them.

    The values are the marks, which come in this very order, and the opaque.
    """
    request = Command(code=0, opaque=_MARK)
    frame = encode_command(reply_to(request, ResponseCode.SUCCESS, header=header, remark=remark))
    rest = frame[PREFIX_SIZE:]
    pieces: list[bytes] = []
    for mark in (*marks, _MARK):
        text = b"%d" % mark
        assert rest.count(text) == 1, f"mark {mark} is not where the template wants it"
        before, _, rest = rest.partition(text)
        pieces.append(before)
    return [*pieces, rest]

"""Prepared text: a reply without its values, which are filled in instead of built and encoded.

Only for peers that speak JSON headers. The text is made by `reply_to` and `encode_command` once,
with marks where the values go, so both ways cannot drift apart.
"""

from collections.abc import Sequence
from typing import Final

from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.fields import Header
from roquet.protocol.frame import PREFIX_SIZE

# A number that stands where a value goes; nothing else in a reply looks like it.
_OPAQUE_MARK: Final = 1_999_999_999


def reply_pieces(header: Header, remark: str | None, marks: Sequence[int]) -> list[bytes]:
    """The header of the reply without its values: what lies before, between and behind them.

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

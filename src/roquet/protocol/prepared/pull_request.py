"""The request a consumer writes most, filled into prepared text instead of built and encoded.

    PullTemplate(header).fill(queue_offset, sys_flag, commit_offset, opaque)      the whole frame

What stays the same for all pulls of one queue is written once, by `encode_command`, with marks
where the values go, so both ways cannot drift apart. For plain requests with JSON headers: a
signature would have to cover the values.
"""

from typing import Final, final

import msgspec

from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command, encode_command
from roquet.protocol.fields import fields_of
from roquet.protocol.frame import PREFIX_SIZE, SERIALIZER_JSON, encode_frame
from roquet.protocol.headers.messages import PullMessageHeader

# A number that stands where a value goes; it is looked for with the name before it.
_MARK: Final = 1_999_999_999
# In the order in which they are written.
_PLACES: Final = (b'"queueOffset":"%d"', b'"sysFlag":"%d"', b'"commitOffset":"%d"', b'"opaque":%d')


@final
class PullTemplate:
    """All pulls of one queue that differ in no other field."""

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

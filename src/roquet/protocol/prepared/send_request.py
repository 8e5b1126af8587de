"""The request a producer writes most, filled into prepared text instead of built and encoded.

    SendTemplate(code, header).fill(born_timestamp, ..., opaque)       the whole frame

What stays the same for all sends to one queue is written once, by `encode_command`, with marks
where the values go, so both ways cannot drift apart. For plain requests with JSON headers: a
signature would have to cover the values.
"""

from struct import Struct
from typing import Final, final

import msgspec

from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command, encode_command
from roquet.protocol.fields import fields_of
from roquet.protocol.frame import PREFIX_SIZE
from roquet.protocol.headers.sending import SendMessageHeaderV2

# Numbers that stand where a value goes, in the order in which they are written.
_SYS_FLAG: Final = 1_111_111_111
_BORN_TIMESTAMP: Final = 1_222_222_222
_FLAG: Final = 1_333_333_333
_PROPERTIES: Final = 1_444_444_444
_OPAQUE: Final = 1_999_999_999

# In JSON the byte of the serializer is 0, so the size of the header fills a whole int32.
_pack_prefix = Struct(">ii").pack
_json_text = msgspec.json.Encoder().encode


@final
class SendTemplate:
    """All sends to one queue."""

    __slots__ = ("_text",)

    def __init__(self, code: RequestCode, header: SendMessageHeaderV2) -> None:
        """Of `header` everything is kept but what `fill` gives."""
        marked = msgspec.structs.replace(
            header,
            sys_flag=_SYS_FLAG,
            born_timestamp=_BORN_TIMESTAMP,
            flag=_FLAG,
            properties=str(_PROPERTIES),
        )
        frame = encode_command(Command(code, _OPAQUE, fields=fields_of(marked)))
        rest = frame[PREFIX_SIZE:].replace(b"%", b"%%")
        pieces: list[bytes] = []
        # With the names of the fields: the name of a topic may be a number.
        for name, mark, place in (
            (b'"f":', b'"%d"' % _SYS_FLAG, b'"%d"'),
            (b'"g":', b'"%d"' % _BORN_TIMESTAMP, b'"%d"'),
            (b'"h":', b'"%d"' % _FLAG, b'"%d"'),
            (b'"i":', b'"%d"' % _PROPERTIES, b"%b"),
            (b'"opaque":', b"%d" % _OPAQUE, b"%d"),
        ):
            before, found, rest = rest.partition(name + mark)
            assert found, f"mark {mark!r} is not where the template wants it"
            pieces += (before, name, place)
        self._text = b"".join((*pieces, rest))

    # Six parameters, because building a value object would cost as much as the rest of the call.
    def fill(
        self,
        born_timestamp: int,
        properties: str,
        body: bytes,
        flag: int,
        sys_flag: int,
        opaque: int,
    ) -> bytes:
        header = self._text % (sys_flag, born_timestamp, flag, _json_text(properties), opaque)
        size = len(header)
        return b"".join((_pack_prefix(4 + size + len(body), size), header, body))

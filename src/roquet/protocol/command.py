"""A command: the content of one frame. A request, a one-way request or a response.

The header fields stay JSON text until their type is known (`fields.py`), so the
hot path parses a request exactly once. A binary header is translated into the
same form at the edge: beyond this module there is one kind of command.

A JSON header is written member for member as Java writes it:

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":1,
     "serializeTypeCurrentRPC":"JSON","version":409}

Members are in alphabetical order and absent ones are left out. A reader takes them in any order
and ignores unknown ones.
"""

from typing import Final

import msgspec

from roquet.protocol.codes import VERSION_OURS, CommandFlag, ResponseCode
from roquet.protocol.errors import BadHeader
from roquet.protocol.fields import NO_FIELDS, Header, Int32, field_texts, fields_of, fields_text
from roquet.protocol.frame import SERIALIZER_JSON, Frame, encode_frame
from roquet.protocol.header_binary import BinaryHeader, decode_binary_header, encode_binary_header
from roquet.protocol.lenient_json import JSON_ERRORS

OUR_LANGUAGE: Final = "PYTHON"


class Command(msgspec.Struct, gc=False, rename={"fields": "extFields"}):
    """One command; a JSON header is decoded straight into it.

    The members in parentheses are part of no header: they are set by `decode_command`.
    """

    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = VERSION_OURS
    language: str | None = OUR_LANGUAGE
    remark: str | None = None
    fields: msgspec.Raw = NO_FIELDS
    body: bytes = msgspec.field(name="(body)", default=b"")
    serializer: int = msgspec.field(name="(serializer)", default=SERIALIZER_JSON)

    @property
    def is_response(self) -> bool:
        return self.flag & CommandFlag.RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        return self.flag & CommandFlag.ONEWAY != 0


class _JsonHeader(msgspec.Struct, gc=False, kw_only=True, omit_defaults=True):
    """The members in the order they are written."""

    code: int
    # Left out when it is this very object: msgspec compares such defaults by identity.
    fields: msgspec.Raw = msgspec.field(name="extFields", default=NO_FIELDS)
    flag: int
    language: str | None = None
    opaque: int
    remark: str | None = None
    serializer_name: str = msgspec.field(name="serializeTypeCurrentRPC")
    version: int


_decode_json = msgspec.json.Decoder(Command).decode
_encode_json = msgspec.json.Encoder().encode


def decode_command(frame: Frame) -> Command:
    """Raises BadHeader; the connection that sent this cannot be trusted any more."""
    if frame.serializer == SERIALIZER_JSON:
        try:
            command = _decode_json(frame.header)
        except JSON_ERRORS as error:
            raise BadHeader(f"JSON header: {error}") from None
    else:
        command = _command_of(decode_binary_header(frame.header))
    command.body = frame.body
    command.serializer = frame.serializer
    return command


def encode_command(command: Command) -> bytes:
    """The whole frame, in the command's serializer. Raises BadHeader when that cannot hold it."""
    if command.serializer == SERIALIZER_JSON:
        header = _encode_json(
            _JsonHeader(
                code=command.code,
                fields=command.fields or NO_FIELDS,
                flag=command.flag,
                language=command.language,
                opaque=command.opaque,
                remark=command.remark,
                serializer_name="JSON",
                version=command.version,
            )
        )
    else:
        header = encode_binary_header(
            BinaryHeader(
                command.code,
                command.language,
                command.version,
                command.opaque,
                command.flag,
                command.remark,
                field_texts(command.fields),
            )
        )
    return encode_frame(command.serializer, header, command.body)


def reply_to(
    request: Command,
    code: ResponseCode = ResponseCode.SUCCESS,
    *,
    header: Header | None = None,
    body: bytes = b"",
    remark: str | None = None,
) -> Command:
    """The response to `request`: its opaque and its serializer, and always `extFields`."""
    return Command(
        code,
        request.opaque,
        CommandFlag.RESPONSE,
        remark=remark,
        fields=fields_of(header),
        body=body,
        serializer=request.serializer,
    )


def _command_of(header: BinaryHeader) -> Command:
    return Command(
        header.code,
        header.opaque,
        header.flag,
        header.version,
        header.language,
        header.remark,
        fields_text(header.fields),
    )

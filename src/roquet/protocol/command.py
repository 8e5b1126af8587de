"""A command: the content of one frame. A request, a one-way request or a response.

The header fields stay JSON text until their type is known (`fields.py`), so the
hot path parses a request exactly once. A binary header is translated into the
same form at the edge: beyond this module there is one kind of command.

A JSON header is written member for member as Java writes it:

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":1,
     "serializeTypeCurrentRPC":"JSON","version":409}

Members are in alphabetical order and absent ones are left out. A reader takes them in any order
and ignores unknown ones. The compact binary form is

    int16 code | uint8 language | int16 version | int32 opaque | int32 flag
    int32 size, remark | int32 size of all entries
    entries: int16 size, name | int32 size, value

There is no entry count; absent texts are not written.
"""

import struct
from collections.abc import Mapping
from struct import Struct
from typing import Final

import msgspec

from roquet.protocol.codes import VERSION_OURS, CommandFlag, Language, ResponseCode
from roquet.protocol.errors import BadHeader
from roquet.protocol.fields import NO_FIELDS, Header, Int32, field_texts, fields_of, fields_text
from roquet.protocol.frame import SERIALIZER_JSON, Frame, encode_frame
from roquet.protocol.lenient_json import JSON_ERRORS

OUR_LANGUAGE: Final = "PYTHON"

_FIXED: Final = Struct(">hBhiii")  # ... and the size of the remark
_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")
_unpack_int32 = _INT32.unpack_from
_unpack_int16 = _INT16.unpack_from
_LANGUAGE_NAMES: Final = {language.value: language.name for language in Language}
_LANGUAGE_CODES: Final = {language.name: language.value for language in Language}


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
        command = _decode_binary(frame.header)
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
        header = _encode_binary(command)
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


def _decode_binary(data: bytes) -> Command:
    """Raises BadHeader for anything that is not exactly one header."""
    try:
        code, language, version, opaque, flag, remark_size = _FIXED.unpack_from(data)
        position = _FIXED.size
        remark_end = _end(position, remark_size, len(data))
        remark = str(data[position:remark_end], "utf-8") or None
        (entries_size,) = _unpack_int32(data, remark_end)
        position = remark_end + 4
        if _end(position, entries_size, len(data)) != len(data):
            raise BadHeader("bytes follow the header fields")
        fields = _decode_entries(data, position)
    except struct.error:
        raise BadHeader(f"binary header of {len(data)} bytes ends too early") from None
    except UnicodeDecodeError as error:
        raise BadHeader(f"binary header: {error}") from None
    name = _LANGUAGE_NAMES.get(language)
    return Command(code, opaque, flag, version, name, remark, fields_text(fields))


def _encode_binary(command: Command) -> bytes:
    """Raises BadHeader when a value does not fit; codes end at 32,767 in this form."""
    remark = (command.remark or "").encode()
    entries = _encode_entries(field_texts(command.fields))
    try:
        fixed = _FIXED.pack(
            command.code,
            _LANGUAGE_CODES.get(command.language or "", Language.OTHER),
            command.version,
            command.opaque,
            command.flag,
            len(remark),
        )
    except struct.error as error:
        raise BadHeader(f"code {command.code} has no binary header: {error}") from None
    return b"".join((fixed, remark, _INT32.pack(len(entries)), entries))


def _decode_entries(data: bytes, position: int) -> dict[str, str]:
    fields: dict[str, str] = {}
    end = len(data)
    while position < end:
        name_start = position + 2
        name_end = name_start + _unpack_int16(data, position)[0]
        value_start = name_end + 4
        value_end = value_start + _unpack_int32(data, name_end)[0]
        if not name_start <= name_end <= value_start <= value_end <= end:
            raise BadHeader(f"the field at byte {position} leaves the header")
        fields[str(data[name_start:name_end], "utf-8")] = str(data[value_start:value_end], "utf-8")
        position = value_end
    return fields


def _encode_entries(fields: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for name, value in fields.items():
        name_bytes = name.encode()
        value_bytes = value.encode()
        try:
            parts += (_INT16.pack(len(name_bytes)), name_bytes)
        except struct.error:
            raise BadHeader(f"field name of {len(name_bytes)} bytes is too long") from None
        parts += (_INT32.pack(len(value_bytes)), value_bytes)
    return b"".join(parts)


def _end(position: int, size: int, limit: int) -> int:
    end = position + size
    if size < 0 or end > limit:
        raise BadHeader(f"size {size} at byte {position} leaves the header")
    return end

"""The compact binary form of a command header.

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

from roquet.protocol.codes import Language
from roquet.protocol.errors import BadHeader

_FIXED: Final = Struct(">hBhiii")  # ... and the size of the remark
_INT32: Final = Struct(">i")
_INT16: Final = Struct(">h")
_unpack_int32 = _INT32.unpack_from
_unpack_int16 = _INT16.unpack_from
_LANGUAGE_NAMES: Final = {language.value: language.name for language in Language}
_LANGUAGE_CODES: Final = {language.name: language.value for language in Language}


class BinaryHeader(msgspec.Struct, frozen=True):
    code: int
    language: str | None
    version: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str]


def decode_binary_header(data: bytes) -> BinaryHeader:
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
    return BinaryHeader(code, _LANGUAGE_NAMES.get(language), version, opaque, flag, remark, fields)


def encode_binary_header(header: BinaryHeader) -> bytes:
    """Raises BadHeader when a value does not fit; codes end at 32,767 in this form."""
    remark = (header.remark or "").encode()
    entries = _encode_entries(header.fields)
    try:
        fixed = _FIXED.pack(
            header.code,
            _LANGUAGE_CODES.get(header.language or "", Language.OTHER),
            header.version,
            header.opaque,
            header.flag,
            len(remark),
        )
    except struct.error as error:
        raise BadHeader(f"code {header.code} has no binary header: {error}") from None
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

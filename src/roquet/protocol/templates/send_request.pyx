# cython: boundscheck=False, wraparound=False
"""The request a producer writes most, filled into a template instead of built and encoded.

    SendTemplate(code, header).fill(born_timestamp, ..., opaque)       the whole frame

What stays the same for all sends to one queue is written once, by `encode_command`, with marks
where the values go, so both ways cannot drift apart. Only with JSON headers, and not for
signed requests: a signature would have to cover the values.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memcpy

from roquet.protocol.binary cimport (
    Span, decimal_size, int64_t, put_bytes, put_decimal, put_int32, uint8_t,
)

import msgspec

from roquet.protocol.command import Command, encode_command
from roquet.protocol.fields import fields_of
from roquet.protocol.frame import PREFIX_SIZE

cdef enum:
    _PREFIX_SIZE = 8  # of a frame
    _ESCAPE_SIZE = 6  # of \u0001

# Numbers that stand where a value goes, in the order in which they are written.
_SYS_FLAG = 1_111_111_111
_BORN_TIMESTAMP = 1_222_222_222
_FLAG = 1_333_333_333
_PROPERTIES = 1_444_444_444
_OPAQUE = 1_999_999_999

cdef object _json_text = msgspec.json.Encoder().encode


@cython.final
cdef class SendTemplate:
    """All sends to one queue."""

    # What lies before each value, and after the last.
    cdef bytes _before_sys_flag, _before_born, _before_flag, _before_properties, _before_opaque
    cdef bytes _rest
    cdef Py_ssize_t _pieces_size

    def __init__(self, code, header):
        """Of `header` everything is kept but what `fill` gives."""
        marked = msgspec.structs.replace(
            header,
            sys_flag=_SYS_FLAG,
            born_timestamp=_BORN_TIMESTAMP,
            flag=_FLAG,
            properties=str(_PROPERTIES),
        )
        rest = encode_command(Command(code, _OPAQUE, fields=fields_of(marked)))[PREFIX_SIZE:]
        pieces = []
        # With the names of the fields: the name of a topic may be a number. The quotes around
        # numbers stay in the text, those around the properties come with their JSON.
        for before_value, mark, after_value in (
            (b'"f":"', _SYS_FLAG, b'"'),
            (b'"g":"', _BORN_TIMESTAMP, b'"'),
            (b'"h":"', _FLAG, b'"'),
            (b'"i":"', _PROPERTIES, b'"'),
            (b'"opaque":', _OPAQUE, b""),
        ):
            before, found, rest = rest.partition(before_value + b"%d" % mark + after_value)
            assert found, f"mark {mark} is not where the template wants it"
            pieces.append(before + before_value)
            rest = after_value + rest
        pieces.append(rest)
        (
            self._before_sys_flag,
            self._before_born,
            self._before_flag,
            self._before_properties,
            self._before_opaque,
            self._rest,
        ) = pieces
        self._pieces_size = sum(map(len, pieces))

    # Six parameters, because building a value object would cost as much as the rest of the call.
    def fill(
        self,
        int64_t born_timestamp,
        str properties not None,
        body,
        int64_t flag,
        int64_t sys_flag,
        int64_t opaque,
    ):
        """The whole frame; `body` is bytes or a bytearray."""
        cdef bytes data = <bytes>body if type(body) is bytes else bytes(body)
        cdef Span text
        text.start = <const uint8_t*>PyUnicode_AsUTF8AndSize(properties, &text.size)
        cdef Py_ssize_t escape_count = _separator_count(text)
        cdef bytes encoded
        if escape_count < 0:
            encoded = _json_text(properties)
            text = Span(<const uint8_t*>PyBytes_AS_STRING(encoded) + 1, len(encoded) - 2)
            escape_count = 0
        cdef Py_ssize_t header_size = (
            self._pieces_size
            + decimal_size(sys_flag)
            + decimal_size(born_timestamp)
            + decimal_size(flag)
            + text.size + escape_count * (_ESCAPE_SIZE - 1)
            + decimal_size(opaque)
        )
        cdef bytes frame = PyBytes_FromStringAndSize(
            NULL, _PREFIX_SIZE + header_size + PyBytes_GET_SIZE(data)
        )
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(frame)
        # In JSON the byte of the serializer is 0, so the size of the header fills a whole int32.
        put_int32(at, 4 + header_size + PyBytes_GET_SIZE(data))
        put_int32(at + 4, header_size)
        at = put_decimal(put_bytes(at + _PREFIX_SIZE, self._before_sys_flag), sys_flag)
        at = put_decimal(put_bytes(at, self._before_born), born_timestamp)
        at = put_decimal(put_bytes(at, self._before_flag), flag)
        at = put_bytes(at, self._before_properties)
        at = _put_escaped(at, text) if escape_count else _put_span(at, text)
        at = put_decimal(put_bytes(at, self._before_opaque), opaque)
        put_bytes(put_bytes(at, self._rest), data)
        return frame


cdef Py_ssize_t _separator_count(Span text) noexcept nogil:
    """How many separators are all there is to escape; -1 if there is anything else."""
    cdef Py_ssize_t count = 0
    cdef uint8_t each
    for index in range(text.size):
        each = text.start[index]
        if each < 0x20:
            if each != 1 and each != 2:
                return -1
            count += 1
        elif each == c'"' or each == c"\\" or each >= 0x7F:
            return -1
    return count


cdef uint8_t* _put_escaped(uint8_t* at, Span text) noexcept nogil:
    cdef uint8_t each
    for index in range(text.size):
        each = text.start[index]
        if each < 0x20:
            memcpy(at, <const char*>b"\\u0000", _ESCAPE_SIZE)
            at[_ESCAPE_SIZE - 1] = c"0" + each
            at += _ESCAPE_SIZE
        else:
            at[0] = each
            at += 1
    return at


cdef inline uint8_t* _put_span(uint8_t* at, Span text) noexcept nogil:
    memcpy(at, text.start, <size_t>text.size)
    return at + text.size

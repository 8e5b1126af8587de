# cython: boundscheck=False, wraparound=False
"""The frame of any reply of numbers, truths and common texts, written in one pass.

`encode_command` writes all of them, and is where their form is declared: the pieces around the values
are cut from what it writes. What it would have to escape is left to it.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_CheckExact
from libc.string cimport memcpy

from roquet.protocol.binary cimport (
    Span,
    int64_t,
    put_decimal,
    put_int32,
    span_of,
    uint8_t,
)

from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.frame import PREFIX_SIZE

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)

cdef enum:
    _PREFIX_SIZE = 8
    # Of a header that is written here. Longer ones are rare.
    _HEADER_SIZE_MAX = 1_024
    _NUMBER_SIZE_MAX = 20

_OPAQUE = 1_999_999_999
_REMARK = "remark-1999999999"


def _pieces():
    """The text before the code, the fields, the opaque, and the remark, and the rest."""
    request = Command(code=0, opaque=_OPAQUE)
    frame = encode_command(reply_to(request, ResponseCode.SUCCESS, remark=_REMARK))
    start, fields, rest = frame[PREFIX_SIZE:].partition(b'0,"extFields":{}')
    before_opaque, _, rest = rest.partition(str(_OPAQUE).encode())
    before_remark, _, rest = rest.partition(_REMARK.encode())
    assert fields and rest.startswith(b'"')
    return start, fields[1 : len(fields) - 2], before_opaque, before_remark, rest


cdef bytes _START, _BEFORE_FIELDS, _BEFORE_OPAQUE, _BEFORE_REMARK, _AFTER_REMARK
_START, _BEFORE_FIELDS, _BEFORE_OPAQUE, _BEFORE_REMARK, _AFTER_REMARK = _pieces()
cdef bytes _REST = _AFTER_REMARK[1:]

# By the type of a header: its attributes, and each one's name in JSON.
cdef dict _fields_by_type = {}


cdef struct Writer:
    uint8_t* at
    uint8_t* end


def reply_frame(int64_t opaque, int64_t code, header, bytes body not None, remark):
    """The frame of a reply with a JSON header; None if `encode_command` has to write it."""
    cdef uint8_t text[_HEADER_SIZE_MAX]
    cdef Writer writer
    cdef Py_ssize_t header_size
    cdef bytes frame
    cdef uint8_t* start
    writer.at = text
    writer.end = text + _HEADER_SIZE_MAX
    if not (
        _put(&writer, _START)
        and _put_number(&writer, code)
        and _put(&writer, _BEFORE_FIELDS)
        and _put_fields(&writer, header)
        and _put(&writer, _BEFORE_OPAQUE)
        and _put_number(&writer, opaque)
        and _put_end(&writer, remark)
    ):
        return None
    header_size = writer.at - text
    frame = PyBytes_FromStringAndSize(NULL, _PREFIX_SIZE + header_size + PyBytes_GET_SIZE(body))
    start = <uint8_t*>PyBytes_AS_STRING(frame)
    # In JSON the byte of the serializer is 0: the size of the header fills a whole int32.
    put_int32(start, 4 + header_size + PyBytes_GET_SIZE(body))
    put_int32(start + 4, header_size)
    memcpy(start + _PREFIX_SIZE, text, <size_t>header_size)
    memcpy(
        start + _PREFIX_SIZE + header_size, PyBytes_AS_STRING(body), <size_t>PyBytes_GET_SIZE(body)
    )
    return frame


cdef bint _put_end(Writer* writer, remark) except -1:
    if remark is None:
        return _put(writer, _REST)
    return (
        _put(writer, _BEFORE_REMARK)
        and _put_text(writer, remark)
        and _put(writer, _AFTER_REMARK)
    )


cdef bint _put_fields(Writer* writer, header) except -1:
    """The members of the header, without those that are None."""
    cdef bint is_first = True
    if not _put(writer, b"{"):
        return False
    for attribute, name in _fields_of(header):
        value = getattr(header, attribute)
        if value is None:
            continue
        # Each name starts with the comma that parts it from the one before it.
        if not _put_span(writer, _after(name, is_first)) or not _put_value(writer, value):
            return False
        is_first = False
    return _put(writer, b"}")


cdef inline Span _after(bytes name, bint is_first) noexcept:
    return Span(span_of(name).start + is_first, PyBytes_GET_SIZE(name) - is_first)


cdef tuple _fields_of(header):
    cdef tuple fields
    if header is None:
        return ()
    kind = type(header)
    fields = _fields_by_type.get(kind)
    if fields is None:
        names = [f',"{name}":'.encode() for name in kind.__struct_encode_fields__]
        fields = tuple(zip(kind.__struct_fields__, names, strict=True))
        _fields_by_type[kind] = fields
    return fields


cdef bint _put_value(Writer* writer, value) except -1:
    """Every value of a header is a text."""
    cdef int overflow = 0
    cdef int64_t number
    if value is True:
        return _put(writer, b'"true"')
    if value is False:
        return _put(writer, b'"false"')
    if PyLong_CheckExact(value):
        number = PyLong_AsLongLongAndOverflow(value, &overflow)
        return (
            not overflow
            and _put(writer, b'"')
            and _put_number(writer, number)
            and _put(writer, b'"')
        )
    return _put(writer, b'"') and _put_text(writer, value) and _put(writer, b'"')


cdef bint _put_text(Writer* writer, value) except -1:
    """Whether it is one that JSON writes as it is."""
    cdef Span text
    cdef Py_ssize_t index
    if not PyUnicode_CheckExact(value) or not PyUnicode_IS_ASCII(value):
        return False
    text.start = <const uint8_t*>PyUnicode_AsUTF8AndSize(value, &text.size)
    for index in range(text.size):
        if not 32 <= text.start[index] < 127 or text.start[index] in (c'"', c"\\"):
            return False
    return _put_span(writer, text)


cdef inline bint _put_number(Writer* writer, int64_t number) noexcept:
    if writer.end - writer.at < _NUMBER_SIZE_MAX:
        return False
    writer.at = put_decimal(writer.at, number)
    return True


cdef inline bint _put(Writer* writer, bytes piece) noexcept:
    return _put_span(writer, span_of(piece))


cdef inline bint _put_span(Writer* writer, Span text) noexcept:
    if writer.end - writer.at < text.size:
        return False
    memcpy(writer.at, text.start, <size_t>text.size)
    writer.at += text.size
    return True

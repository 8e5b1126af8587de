from libc.string cimport memcmp, strlen

from roquet.protocol.binary cimport Span, int64_t, uint8_t

cdef enum:
    FIELD_COUNT_MAX = 32


cdef struct Field:
    Span name
    Span text  # between its quotes, as JSON has it
    bint is_escaped


cdef struct ScannedHeader:
    int64_t code, opaque, flag, version
    Py_ssize_t count
    Field fields[FIELD_COUNT_MAX]


cdef bint scan_header(Span json, ScannedHeader* header) noexcept nogil
cdef bint read_number(Span text, int64_t* number) noexcept nogil
cdef bint read_int32(Span text, int64_t* number) noexcept nogil
cdef bint read_bool(Span text, bint* truth) noexcept nogil
cdef Py_ssize_t unescape(Span text, uint8_t* target) noexcept nogil


cdef inline bint is_text(Span text, const char* wanted) noexcept nogil:
    """Inline, so that the size of a text that is written down here costs nothing."""
    return text.size == <Py_ssize_t>strlen(wanted) and not memcmp(
        text.start, wanted, <size_t>text.size
    )

"""Fields of protobuf as they stand in bytes: a number and a kind, and then the value.

    varint     seven bits a byte, the lowest first; the highest bit says that more follow
    field      varint number << 3 | kind, value
    VARINT     the value is a varint
    SIZED      a varint with the size, and that many bytes: a text, bytes or a message

Messages are written from their end: the size of what is inside is known when it comes before it.
Nothing here checks that there is room: the caller has.
"""

from libc.string cimport memcpy

from roquet.protocol.binary cimport Span, uint8_t, uint64_t

cdef enum:
    VARINT = 0
    SIZED = 2
    # Of a field of a text or a message beside it, without large numbers of fields.
    FIELD_HEAD_SIZE_MAX = 7
    NUMBER_SIZE_MAX = 12


cdef inline Py_ssize_t varint_size(uint64_t value) noexcept nogil:
    cdef Py_ssize_t size = 1
    while value > 127:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t* put_varint(uint8_t* end, uint64_t value) noexcept nogil:
    """All of these write what ends there, and return where it starts."""
    cdef uint8_t* start = end - varint_size(value)
    cdef uint8_t* at = start
    while value > 127:
        at[0] = <uint8_t>(value | 128)
        value >>= 7
        at += 1
    at[0] = <uint8_t>value
    return start


cdef inline uint8_t* put_number(uint8_t* end, int field, uint64_t value) noexcept nogil:
    return put_varint(put_varint(end, value), field << 3 | VARINT)


cdef inline uint8_t* put_head(uint8_t* start, int field, const uint8_t* end) noexcept nogil:
    """Of a field whose bytes lie between the two."""
    return put_varint(put_varint(start, <uint64_t>(end - start)), field << 3 | SIZED)


cdef inline uint8_t* put_span(uint8_t* end, Span text) noexcept nogil:
    memcpy(end - text.size, text.start, <size_t>text.size)
    return end - text.size


cdef inline uint8_t* put_text(uint8_t* end, int field, Span text) noexcept nogil:
    return put_head(put_span(end, text), field, end)

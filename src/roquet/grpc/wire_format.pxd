"""Fields of protobuf as they stand in bytes: a number and a kind, and then the value.

    varint     seven bits a byte, the lowest first; the highest bit says that more follow
    field      varint number << 3 | kind, value
    VARINT     the value is a varint
    SIZED      a varint with the size, and that many bytes: a text, bytes or a message

Messages are written from their end: the size of what is inside is known when it comes before it.
Nothing checks that there is room for what is written: the caller has.
"""

from libc.string cimport memcpy

from roquet.protocol.binary cimport Span, uint8_t, uint64_t

cdef enum:
    VARINT = 0
    SIZED = 2
    # Of a field of a text or a message beside it, without large numbers of fields.
    FIELD_HEAD_SIZE_MAX = 7
    NUMBER_SIZE_MAX = 12
    # Of fields whose numbers are 1 to 63.
    _KEY_MIN = 8
    _KEY_MAX = 511


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


# Reading

cdef struct Field:
    int number, kind
    # Of a VARINT, or the bytes of one that is SIZED.
    uint64_t value
    Span text


cdef inline bint _read_varint(Span* rest, uint64_t* value) noexcept nogil:
    """Whether there is one that fits."""
    cdef int shift = 0
    cdef uint8_t byte
    value[0] = 0
    while rest.size and shift < 63:
        byte = rest.start[0]
        rest.start += 1
        rest.size -= 1
        value[0] |= <uint64_t>(byte & 127) << shift
        if byte < 128:
            return True
        shift += 7
    return False


cdef inline bint next_field(Span* rest, Field* field) noexcept nogil:
    """Takes one from the start of `rest`; False if none of the two kinds is there as a whole."""
    cdef uint64_t key, size
    if not _read_varint(rest, &key) or not _KEY_MIN <= key <= _KEY_MAX:
        return False
    field.number, field.kind = <int>(key >> 3), <int>(key & 7)
    if field.kind == VARINT:
        return _read_varint(rest, &field.value)
    if field.kind != SIZED or not _read_varint(rest, &size) or size > <uint64_t>rest.size:
        return False
    field.text = Span(rest.start, <Py_ssize_t>size)
    rest.start += size
    rest.size -= <Py_ssize_t>size
    return True


cdef inline bint is_shown(Span text, uint8_t lowest) noexcept nogil:
    """Whether all of it is ASCII from `lowest` on, and nothing that controls."""
    cdef Py_ssize_t index
    for index in range(text.size):
        if not lowest <= text.start[index] < 127:
            return False
    return True


cdef inline bint is_word(Span text) noexcept nogil:
    """ASCII without spaces, and not empty."""
    return text.size > 0 and is_shown(text, 33)

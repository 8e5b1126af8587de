"""Whether bytes are UTF-8: no long forms, no surrogates, nothing beyond the last plane."""

from libc.string cimport memcpy

from roquet.protocol.binary cimport Span, uint8_t, uint64_t

cdef enum:
    _WORD_SIZE = 8


cdef inline bint is_utf8(Span text) noexcept nogil:
    cdef const uint8_t* at = text.start
    cdef const uint8_t* end = at + text.size
    cdef Py_ssize_t size
    cdef uint64_t word
    # Mostly it is ASCII.
    while end - at >= _WORD_SIZE:
        memcpy(&word, at, _WORD_SIZE)
        if word & <uint64_t>0x8080808080808080:
            break
        at += _WORD_SIZE
    while at < end:
        if at[0] < 0x80:
            at += 1
            continue
        size = _sequence_size(at, end - at)
        if not size:
            return False
        at += size
    return True


cdef inline Py_ssize_t _sequence_size(const uint8_t* at, Py_ssize_t room) noexcept nogil:
    """Of the bytes of one character beyond ASCII; 0 if they are not one."""
    cdef uint8_t first = at[0]
    cdef uint8_t second_min = 0x80
    cdef uint8_t second_max = 0xBF
    cdef Py_ssize_t size
    if first < 0xC2 or first > 0xF4:
        return 0
    if first < 0xE0:
        size = 2
    elif first < 0xF0:
        size = 3
        if first == 0xE0:
            second_min = 0xA0
        elif first == 0xED:
            second_max = 0x9F
    else:
        size = 4
        if first == 0xF0:
            second_min = 0x90
        elif first == 0xF4:
            second_max = 0x8F
    if room < size or at[1] < second_min or at[1] > second_max:
        return 0
    if size > 2 and at[2] & 0xC0 != 0x80:
        return 0
    if size > 3 and at[3] & 0xC0 != 0x80:
        return 0
    return size

"""Property texts with the same names in the same order as one before them.

Messages of one producer mostly are of one shape. Then a text need only be compared with its names,
and what was found out about them holds: which of them are wanted, and that none is there twice.
"""

from libc.string cimport memcmp, memcpy

from roquet.protocol.binary cimport Span, int32_t, uint8_t, uint64_t
from roquet.protocol.messages.record_layout cimport SEPARATOR

cdef extern from "<endian.h>":
    uint64_t le64toh(uint64_t) noexcept nogil

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:
    EQUALS = 1
    # Texts with more pairs have no shape.
    SHAPE_PAIRS_MAX = 64
    _WORD_SIZE = 8


cdef struct Pair:
    int32_t name_start
    int32_t name_end
    int32_t value_start
    int32_t value_end


cdef struct ShapeName:
    # The name, and its first bytes with what follows it, as far as they fit into a word.
    Span text
    uint64_t head
    uint64_t head_mask


cdef struct Shape:
    Py_ssize_t count
    ShapeName names[SHAPE_PAIRS_MAX]


cdef inline void take_shape(
    Shape* shape, const uint8_t* data, const Pair* pairs, Py_ssize_t count
) noexcept:
    """The data has to live as long as the shape."""
    cdef Py_ssize_t index
    cdef Span name
    shape.count = count if count <= SHAPE_PAIRS_MAX else 0
    for index in range(shape.count):
        name = Span(data + pairs[index].name_start, pairs[index].name_end - pairs[index].name_start)
        shape.names[index] = _shape_name(name)


cdef inline ShapeName _shape_name(Span name) noexcept:
    cdef ShapeName taken = ShapeName(name, 0, 0)
    # A sign of equality follows each name.
    cdef Py_ssize_t size = min(name.size + 1, <Py_ssize_t>_WORD_SIZE)
    memcpy(&taken.head, name.start, size)
    taken.head = le64toh(taken.head)
    taken.head_mask = ~<uint64_t>0 >> (8 * (_WORD_SIZE - size))
    return taken


cdef inline Py_ssize_t split_alike(
    const Shape* shape,
    const uint8_t* data,
    Py_ssize_t data_size,
    int32_t at,
    int32_t end,
    Pair* pairs,
    Py_ssize_t room,
) noexcept:
    """Fills in the pairs of a text of this shape; returns how many, or 0 if it is of another."""
    cdef Py_ssize_t index
    cdef int32_t value_start, value_end
    if shape.count > room:
        return 0
    for index in range(shape.count):
        # What is too near to the end of the data is left to others.
        if data_size - at < _WORD_SIZE or not _has_name(&shape.names[index], data + at, end - at):
            return 0
        value_start = at + <int32_t>shape.names[index].text.size + 1
        value_end = _value_end(data, value_start, end)
        if value_end == value_start:
            return 0
        pairs[index] = Pair(at, value_start - 1, value_start, value_end)
        at = value_end + 1
    return shape.count if at >= end else 0


cdef inline bint _has_name(const ShapeName* name, const uint8_t* at, Py_ssize_t room) noexcept:
    """There is a whole word to be read; of `room` bytes the name and its value are made."""
    cdef uint64_t word
    if room <= name.text.size + 1:
        return False
    memcpy(&word, at, sizeof(word))
    if (le64toh(word) ^ name.head) & name.head_mask:
        return False
    if name.text.size < _WORD_SIZE:
        return True
    return at[name.text.size] == EQUALS and not memcmp(
        at + _WORD_SIZE, name.text.start + _WORD_SIZE, name.text.size - _WORD_SIZE
    )


cdef inline int32_t _value_end(const uint8_t* data, int32_t at, int32_t end) noexcept:
    """Where the next separator is, or the end."""
    cdef uint64_t word, found
    while end - at >= _WORD_SIZE:
        memcpy(&word, data + at, sizeof(word))
        word = le64toh(word) ^ (<uint64_t>0x0101010101010101 * SEPARATOR)
        # The high bit of the first byte that is zero, and maybe of some after it.
        found = (word - <uint64_t>0x0101010101010101) & ~word & <uint64_t>0x8080808080808080
        if found:
            return at + (__builtin_ctzll(found) >> 3)
        at += _WORD_SIZE
    while at < end and data[at] != SEPARATOR:
        at += 1
    return at

# cython: boundscheck=False, wraparound=False
"""An SQL92 filter over the bytes of records. `sql_filter/program.py` makes what is run here.

A program is a tree in prefix order, evaluated with three values and in the order of
`sql_filter/compiler.py`, for texts and numbers in their common form. For any other value the whole
record is left to `slow`, the filter that is written down there.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from libc.string cimport memchr, memcmp

from roquet.protocol.binary cimport Span, int32_t, int64_t, span_of, uint8_t
from roquet.protocol.messages.property_text cimport next_property
from roquet.protocol.messages.record_parts cimport RecordParts, locate_record

from typing import NamedTuple

cdef extern from "string.h" nogil:
    void* memmem(const void* where, size_t size, const void* what, size_t what_size)

cdef enum:
    _TEXT_IS
    _TEXT_CONTAINS
    _TEXT_STARTS
    _TEXT_ENDS
    _INT
    _LONG
    _DOUBLE
    _IS_NULL
    _NOT
    _ALL
    _ANY
    _CONSTANT

cdef enum:
    _EQUAL
    _LESS
    _LESS_OR_EQUAL
    _GREATER
    _GREATER_OR_EQUAL

cdef enum:
    # What a node yields.
    _FALSE
    _TRUE
    _UNKNOWN
    _LEFT  # to the slow filter

cdef enum:
    _DIGIT_COUNT_MAX = 18
    # With so few, digits and power of ten are exact doubles, and so their quotient is the nearest.
    _DOUBLE_SIZE_MAX = 15

TEXT_IS = _TEXT_IS
TEXT_CONTAINS = _TEXT_CONTAINS
TEXT_STARTS = _TEXT_STARTS
TEXT_ENDS = _TEXT_ENDS
INT = _INT
LONG = _LONG
DOUBLE = _DOUBLE
IS_NULL = _IS_NULL
NOT = _NOT
ALL = _ALL
ANY = _ANY
CONSTANT = _CONSTANT
EQUAL = _EQUAL
LESS = _LESS
LESS_OR_EQUAL = _LESS_OR_EQUAL
GREATER = _GREATER
GREATER_OR_EQUAL = _GREATER_OR_EQUAL
SLOT_COUNT = SLOT_COUNT_MAX


class Step(NamedTuple):
    """One node of a program; which members it uses depends on its kind."""

    kind: int
    slot: int = 0
    order: int = 0
    integer: int = 0
    real: float = 0.0
    text: bytes = b""


class Program(NamedTuple):
    """Names by slot; nodes in prefix order; and after which node each of them ends."""

    names: list
    steps: list
    ends: list


@cython.final
cdef class RecordFilter:
    """Whether a record is wanted. Without a program, `slow` decides about all of them."""

    def __init__(self, program, slow):
        self._slow = slow
        self._texts = []
        if program is None:
            return
        names, steps, ends = program
        if len(names) > SLOT_COUNT_MAX:
            raise ValueError(f"{len(names)} names for {SLOT_COUNT_MAX} slots")
        for name in names:
            self._names[self._slot_count] = self._kept(name)
            self._slot_count += 1
        self._nodes = <Node*>PyMem_Malloc(max(1, len(steps)) * sizeof(Node))
        if self._nodes is NULL:
            raise MemoryError
        for index, step in enumerate(steps):
            if not (index < ends[index] <= len(steps) and 0 <= step.slot < max(1, len(names))):
                raise ValueError(f"step {index} does not fit its program")
            self._nodes[index].kind = step.kind
            self._nodes[index].end = ends[index]
            self._nodes[index].slot = step.slot
            self._nodes[index].order = step.order
            self._nodes[index].integer = step.integer
            self._nodes[index].real = step.real
            self._nodes[index].text = self._kept(step.text)

    def __dealloc__(self):
        PyMem_Free(self._nodes)

    def __call__(self, bytes record not None):
        cdef RecordParts parts
        if not locate_record(span_of(record).start, span_of(record).size, &parts):
            return self._slow(record)
        return self.matches(&parts)

    cdef bint matches(self, const RecordParts* record) except -1:
        cdef Span values[SLOT_COUNT_MAX]
        cdef int result = _LEFT
        if self._nodes is not NULL:
            self._find_values(record.properties, values)
            result = self._evaluate(0, values)
        if result == _LEFT:
            return self._slow(record.start[: record.size])
        return result == _TRUE

    cdef Span _kept(self, bytes text) except *:
        self._texts.append(text)
        return span_of(text)

    cdef void _find_values(self, Span properties, Span* values) noexcept:
        """Of equal names the last one counts, and an empty one is not there: that one is NULL."""
        cdef Span property
        cdef const uint8_t* equals
        cdef Py_ssize_t slot, name_size
        for slot in range(self._slot_count):
            values[slot] = Span(NULL, 0)
        while next_property(&properties, &property):
            equals = <const uint8_t*>memchr(property.start, 1, <size_t>property.size)
            if equals is NULL:
                continue
            name_size = equals - property.start
            if property.size == name_size + 1:
                continue
            for slot in range(self._slot_count):
                if self._names[slot].size == name_size and not memcmp(
                    self._names[slot].start, property.start, <size_t>name_size
                ):
                    values[slot] = Span(equals + 1, property.size - name_size - 1)
                    break

    cdef int _evaluate(self, Py_ssize_t index, const Span* values) noexcept:
        cdef const Node* node = &self._nodes[index]
        cdef Span value
        cdef int result
        if node.kind == _ALL:
            return self._evaluate_all(index, values, _FALSE)
        if node.kind == _ANY:
            return self._evaluate_all(index, values, _TRUE)
        if node.kind == _NOT:
            result = self._evaluate(index + 1, values)
            return 1 - result if result <= _TRUE else result
        if node.kind == _CONSTANT:
            return <int>node.integer
        value = values[node.slot]
        if node.kind == _IS_NULL:
            return value.start is NULL
        if value.start is NULL:
            # A search is never unknown.
            return _FALSE if _TEXT_CONTAINS <= node.kind <= _TEXT_ENDS else _UNKNOWN
        if node.kind == _INT or node.kind == _LONG:
            return _compare_integer(value, node)
        if node.kind == _DOUBLE:
            return _compare_double(value, node)
        result = _is_found(value, node)
        return result if node.kind == _TEXT_IS else result == node.integer

    cdef int _evaluate_all(self, Py_ssize_t index, const Span* values, int decisive) noexcept:
        """The first term that is `decisive` ends it."""
        cdef int result = 1 - decisive
        cdef int each
        cdef Py_ssize_t term = index + 1
        while term < self._nodes[index].end:
            each = self._evaluate(term, values)
            if each == decisive or each == _LEFT:
                return each
            if each == _UNKNOWN:
                result = _UNKNOWN
            term = self._nodes[term].end
        return result


cdef inline int _is_found(Span value, const Node* node) noexcept:
    cdef Span text = node.text
    if text.size > value.size:
        return _FALSE
    if node.kind == _TEXT_CONTAINS:
        return memmem(value.start, <size_t>value.size, text.start, <size_t>text.size) is not NULL
    if node.kind == _TEXT_ENDS:
        return not memcmp(
            value.start + value.size - text.size, text.start, <size_t>text.size
        )
    if node.kind == _TEXT_IS and text.size != value.size:
        return _FALSE
    return not memcmp(value.start, text.start, <size_t>text.size)


cdef inline int _compare_integer(Span value, const Node* node) noexcept:
    cdef bint is_negative = value.start[0] == c"-"
    cdef Py_ssize_t at = is_negative
    cdef int64_t number = 0
    if not is_negative < value.size <= _DIGIT_COUNT_MAX:
        return _LEFT
    while at < value.size:
        if not c"0" <= value.start[at] <= c"9":
            return _LEFT
        number = 10 * number + (value.start[at] - c"0")
        at += 1
    if is_negative:
        number = -number
    if node.kind == _INT and number != <int32_t>number:
        return _LEFT
    return _compared((number > node.integer) - (number < node.integer), node.order)


cdef inline int _compare_double(Span value, const Node* node) noexcept:
    cdef Py_ssize_t at
    cdef double digits = 0
    cdef double power = 1
    cdef bint has_point = False
    if value.size > _DOUBLE_SIZE_MAX or value.start[0] == c"." or value.start[value.size - 1] == c".":
        return _LEFT
    for at in range(value.size):
        if value.start[at] == c"." and not has_point:
            has_point = True
        elif c"0" <= value.start[at] <= c"9":
            digits = 10 * digits + (value.start[at] - c"0")
            if has_point:
                power *= 10
        else:
            return _LEFT
    digits /= power
    return _compared((digits > node.real) - (digits < node.real), node.order)


cdef inline int _compared(int sign, int order) noexcept:
    if order == _EQUAL:
        return sign == 0
    if order == _LESS:
        return sign < 0
    if order == _LESS_OR_EQUAL:
        return sign <= 0
    if order == _GREATER:
        return sign > 0
    return sign >= 0

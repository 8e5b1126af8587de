from roquet.protocol.binary cimport Span, int64_t
from roquet.protocol.messages.record_parts cimport RecordParts

cdef enum:
    SLOT_COUNT_MAX = 16


cdef struct Node:
    int kind, order
    Py_ssize_t slot
    # The node after this one and all that it consists of.
    Py_ssize_t end
    int64_t integer
    double real
    Span text


cdef class RecordFilter:
    cdef Node* _nodes
    cdef Py_ssize_t _slot_count
    cdef Span _names[SLOT_COUNT_MAX]
    cdef object _slow
    # Owns what names and nodes point to.
    cdef list _texts

    cdef Span _kept(self, bytes text) except *
    cdef bint matches(self, const RecordParts* record) except -1
    cdef void _find_values(self, Span properties, Span* values) noexcept
    cdef int _evaluate(self, Py_ssize_t index, const Span* values) noexcept
    cdef int _evaluate_all(self, Py_ssize_t index, const Span* values, int decisive) noexcept

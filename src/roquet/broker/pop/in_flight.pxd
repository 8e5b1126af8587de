from roquet.protocol.binary cimport int64_t


cdef class CheckPoint:
    cdef readonly object key
    cdef readonly object offsets, invisible_ms
    # By a clock that is not set; see `PopJournal.steady_ms`.
    cdef readonly object due_ms
    # Where the journal has it.
    cdef int64_t journal_queue_id, journal_offset
    # Whether a redelivery is not counted as one more attempt.
    cdef readonly bint is_suspended
    cdef readonly object open_bits
    cdef Py_ssize_t count

    cdef bint is_any_open(self, offsets) except -1


cdef class InFlight:
    cdef dict _by_key
    cdef readonly list _due
    cdef int64_t _number
    cdef readonly dict _noted
    cdef readonly object counts
    cdef readonly int64_t count

    cdef CheckPoint first(self)
    cpdef CheckPoint find(self, key)
    cpdef add(self, CheckPoint point)
    cpdef int64_t ack(self, CheckPoint point, offsets) except -1
    cdef int _note(self, int64_t queue_id, int64_t offset, noted) except -1
    cdef int _push(self, CheckPoint point) except -1
    cdef int _trim(self) except -1
    cdef int _count(self, queue, int64_t change) except -1


cdef CheckPoint new_point(
    key, offsets, invisible_ms, due_ms, int64_t journal_queue_id, int64_t journal_offset
)

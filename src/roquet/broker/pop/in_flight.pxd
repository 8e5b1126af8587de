from roquet.protocol.binary cimport int64_t


cdef class CheckPoint:
    cdef readonly object key
    cdef readonly object offsets, invisible_ms
    # By a clock that is not set; see `PopJournal.steady_ms`.
    cdef readonly object due_ms
    cdef readonly object place
    # Whether a redelivery is not counted as one more attempt.
    cdef readonly bint is_suspended
    cdef readonly object open_bits
    cdef Py_ssize_t count


cdef class InFlight:
    cdef dict _by_key
    cdef readonly list _due
    cdef int64_t _number
    cdef readonly dict _noted
    cdef readonly object counts
    cdef readonly int64_t count

    cpdef CheckPoint find(self, key)
    cpdef add(self, CheckPoint point)
    cpdef int64_t ack(self, CheckPoint point, offsets) except -1
    cpdef note(self, noted)
    cdef int _push(self, CheckPoint point) except -1
    cdef CheckPoint _first(self)
    cdef int _trim(self) except -1
    cdef int _count(self, queue, int64_t change) except -1

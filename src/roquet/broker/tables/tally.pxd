from roquet.protocol.binary cimport int64_t


cdef class Tally:
    cdef public int64_t count, size, times
    # It is not read any more: ask for another.
    cdef public bint is_forgotten

    cpdef int add(self, int64_t count, int64_t size) except -1


cdef class PathCounts:
    cdef public int64_t fast, slow

from roquet.protocol.binary cimport int64_t


cdef class NumberedIds:
    cdef readonly int64_t now_ms
    cdef bytes _stem
    cdef unsigned int _counter

    cpdef str next(self)

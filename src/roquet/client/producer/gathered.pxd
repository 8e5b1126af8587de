cdef class Gathered:
    cdef readonly list messages, waiting
    cdef readonly Py_ssize_t size
    cdef readonly double deadline_s

    cpdef int add(self, message, waiting, Py_ssize_t size, double deadline_s) except -1

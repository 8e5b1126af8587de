cdef class BatchBody:
    cdef list _flags, _bodies, _properties
    cdef Py_ssize_t _size

    cdef int add(self, flag, body, properties) except -1
    cdef bytes written(self)

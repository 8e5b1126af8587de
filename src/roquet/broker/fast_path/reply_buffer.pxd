from roquet.protocol.binary cimport uint8_t


cdef class ReplyBuffer:
    cdef uint8_t* _start
    cdef Py_ssize_t _capacity
    cdef readonly Py_ssize_t size, count

    cdef uint8_t* room(self, Py_ssize_t size) except NULL
    cdef int add(self, Py_ssize_t size) except -1
    cdef bytes take_all(self)

from roquet.protocol.binary cimport uint8_t


cdef class Scratch:
    cdef uint8_t* _start
    cdef Py_ssize_t _capacity

    cdef uint8_t* room(self, Py_ssize_t size) except NULL

"""Replies one after the other: those of one wake-up become one object and not thousands."""

cimport cython
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc

from roquet.protocol.binary cimport uint8_t

cdef enum:
    _KEPT_SIZE_MAX = 1 << 20


@cython.final
cdef class ReplyBuffer:
    """`size` is that of all replies in it, `count` is how many they are."""

    def __dealloc__(self):
        PyMem_Free(self._start)

    cdef uint8_t* room(self, Py_ssize_t size) except NULL:
        """Where the next reply goes, which has this size."""
        cdef Py_ssize_t capacity = 2 * (self.size + size)
        cdef void* grown
        if self.size + size > self._capacity:
            grown = PyMem_Realloc(self._start, <size_t>capacity)
            if grown is NULL:
                raise MemoryError
            self._start = <uint8_t*>grown
            self._capacity = capacity
        return self._start + self.size

    cdef int add(self, Py_ssize_t size) except -1:
        """A reply was written to where there was room."""
        self.size += size
        self.count += 1
        return 0

    cdef bytes take_all(self):
        cdef bytes replies = PyBytes_FromStringAndSize(<char*>self._start, self.size)
        self.size = 0
        self.count = 0
        if self._capacity > _KEPT_SIZE_MAX:
            PyMem_Free(self._start)
            self._start = NULL
            self._capacity = 0
        return replies

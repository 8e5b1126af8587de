"""Memory that a writer uses again and again: it grows with the largest of what is written."""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc

from roquet.protocol.binary cimport uint8_t


@cython.final
cdef class Scratch:
    """Belongs to one writer; what is in it is lost with the next use."""

    def __dealloc__(self):
        PyMem_Free(self._start)

    cdef uint8_t* room(self, Py_ssize_t size) except NULL:
        cdef void* grown
        if size > self._capacity:
            grown = PyMem_Realloc(self._start, <size_t>(2 * size))
            if grown is NULL:
                raise MemoryError
            self._start = <uint8_t*>grown
            self._capacity = 2 * size
        return self._start

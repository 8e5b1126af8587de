"""Finds unwritten space: zeros, of which a file may have a gigabyte."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.string cimport memcmp


def is_zero(buffer, Py_ssize_t start, Py_ssize_t end):
    """Whether there are only zeros between two bytes. Nothing is copied."""
    cdef Py_buffer view
    cdef const unsigned char* first
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if not 0 <= start <= end <= view.len:
            raise IndexError(f"bytes {start} to {end} of {view.len}")
        first = <const unsigned char*>view.buf + start
        # The first one is zero, and every other one equals the one before it.
        return start == end or (first[0] == 0 and not memcmp(first, first + 1, end - start - 1))
    finally:
        PyBuffer_Release(&view)

# cython: boundscheck=False, wraparound=False
"""The ids of one moment, which differ in their last four digits only; see `message_id.py`."""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DATA, PyUnicode_New

from roquet.protocol.binary cimport int64_t, put_bytes, uint8_t

cdef enum:
    _ASCII_MAX = 127
    _COUNTER_MASK = 0xFFFF
    _COUNTER_DIGITS = 4


@cython.final
cdef class NumberedIds:
    """`now_ms` is the moment of all ids that are made until it moves on; -1 before the first."""

    def __init__(self):
        self.now_ms = -1
        self._stem = b""
        self._counter = 0

    def move_to(self, int64_t now_ms, bytes stem not None):
        """Of another moment, which `stem` encodes. The counter continues."""
        self.now_ms = now_ms
        self._stem = stem

    cpdef str next(self):
        cdef Py_ssize_t stem_size = PyBytes_GET_SIZE(self._stem)
        cdef str made = PyUnicode_New(stem_size + _COUNTER_DIGITS, _ASCII_MAX)
        cdef uint8_t* at = put_bytes(<uint8_t*>PyUnicode_DATA(made), self._stem)
        cdef int shift = 12
        while shift >= 0:
            at[0] = <uint8_t>b"0123456789ABCDEF"[self._counter >> shift & 15]
            at += 1
            shift -= 4
        self._counter = self._counter + 1 & _COUNTER_MASK
        return made

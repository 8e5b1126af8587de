# cython: boundscheck=False, wraparound=False
"""A minute of the timer wheel, taken apart into seconds.

A million messages may be due in one minute, and no request is served while they are
sorted. `timer_wheel.py` describes how they are packed.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

cdef enum:
    _SECOND_SHIFT = 57
    _SECOND_COUNT = 128  # as many as the bits of a second can hold


def split_minute(bytes packed not None):
    """Each second that has messages, and their offsets, in the order they came in.

    Both sides are the bytes of an `array("q")`.
    """
    cdef const uint64_t* items = <const uint64_t*>PyBytes_AS_STRING(packed)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(packed) // <Py_ssize_t>sizeof(uint64_t)
    cdef Py_ssize_t counts[_SECOND_COUNT]
    cdef int64_t* ends[_SECOND_COUNT]
    cdef Py_ssize_t index, second
    memset(counts, 0, sizeof(counts))
    for index in range(count):
        counts[items[index] >> _SECOND_SHIFT] += 1
    found = []
    for second in range(_SECOND_COUNT):
        if counts[second]:
            offsets = PyBytes_FromStringAndSize(
                NULL, counts[second] * <Py_ssize_t>sizeof(int64_t)
            )
            ends[second] = <int64_t*>PyBytes_AS_STRING(offsets)
            found.append((second, offsets))
    for index in range(count):
        second = <Py_ssize_t>(items[index] >> _SECOND_SHIFT)
        ends[second][0] = <int64_t>(items[index] & ((<uint64_t>1 << _SECOND_SHIFT) - 1))
        ends[second] += 1
    return found

# cython: boundscheck=False, wraparound=False
"""Many slices of a buffer, copied one after another as Arrow keeps texts and binaries."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcpy

from roquet.protocol.binary cimport int32_t, int64_t, uint8_t

cdef enum:
    _SIZE_MAX = 0x7FFFFFFF
    _SHORT_SIZE = 32


def gather(const uint8_t[::1] data not None, const int32_t[:, :] spans not None):
    """Returns int32 offsets, one more than there are spans, and the joined bytes.

    A span is where a slice starts and ends; one with a negative start has no bytes.
    """
    cdef Py_ssize_t count = spans.shape[0]
    cdef bytes offsets = PyBytes_FromStringAndSize(NULL, (count + 1) * sizeof(int32_t))
    cdef int32_t* offset_at = <int32_t*>PyBytes_AS_STRING(offsets)
    cdef bytes joined = PyBytes_FromStringAndSize(NULL, _measure(data.shape[0], spans, offset_at))
    cdef uint8_t* joined_at = <uint8_t*>PyBytes_AS_STRING(joined)
    cdef Py_ssize_t index, start, offset, size
    # Short slices are copied as words, which takes a third of the time; there has to be room for
    # the bytes that are copied in excess. The next slice overwrites them.
    cdef Py_ssize_t last_start = data.shape[0] - _SHORT_SIZE
    cdef Py_ssize_t last_offset = offset_at[count] - _SHORT_SIZE
    for index in range(count):
        start = spans[index, 0]
        offset = offset_at[index]
        size = offset_at[index + 1] - offset
        if not size:
            continue
        if size <= _SHORT_SIZE and start <= last_start and offset <= last_offset:
            memcpy(joined_at + offset, &data[start], _SHORT_SIZE)
        else:
            memcpy(joined_at + offset, &data[start], size)
    return offsets, joined


cdef Py_ssize_t _measure(
    Py_ssize_t data_size, const int32_t[:, :] spans, int32_t* offsets
) except -1:
    """Checks the spans and fills in the offsets; returns the size of all slices."""
    cdef Py_ssize_t index
    cdef int64_t total = 0
    if spans.shape[1] != 2:
        raise IndexError("a span has a start and an end")
    offsets[0] = 0
    for index in range(spans.shape[0]):
        if spans[index, 0] >= 0:
            if spans[index, 0] > spans[index, 1] or spans[index, 1] > data_size:
                raise IndexError(f"span {index} lies outside of {data_size} bytes")
            total += spans[index, 1] - spans[index, 0]
            if total > _SIZE_MAX:
                raise OverflowError("the slices are too large for 32-bit offsets")
        offsets[index + 1] = <int32_t>total
    return total

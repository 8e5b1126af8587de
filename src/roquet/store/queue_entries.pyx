# cython: boundscheck=False, wraparound=False
"""Many entries of a queue at once; `consume_queue.py` draws the layout of one.

A starting broker checks all entries of the newest files of all its queues before it serves
requests. Entries may be damaged in any byte. Bytes after the last whole entry are ignored.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from roquet.protocol.binary cimport int32_t, int64_t, uint8_t

cdef enum:
    _BLANK_SIZE = 2147483647


cdef inline bint _is_blank(int64_t physical_offset, int32_t size) noexcept:
    return physical_offset == 0 and size == _BLANK_SIZE


def pack_entries(int64_t physical_offset, list sizes not None, list codes not None):
    """The entries of consecutive records of these sizes, the first one at `physical_offset`."""
    if len(codes) != len(sizes):
        raise ValueError(f"{len(codes)} codes for {len(sizes)} records")
    cdef bytes entries = PyBytes_FromStringAndSize(NULL, len(sizes) * ENTRY_SIZE)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(entries)
    cdef Py_ssize_t index
    cdef int32_t size
    for index in range(len(sizes)):
        size = sizes[index]
        at = put_entry(at, physical_offset, size, codes[index])
        physical_offset += size
    return entries


def sound_count(bytes entries not None):
    """How many of `entries`, from the first on, can be true.

    An entry has an offset and a size, and its record starts after the one before it.
    """
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(entries)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(entries) // ENTRY_SIZE
    cdef Py_ssize_t index
    cdef int64_t physical_offset, offset_before = 0
    cdef int32_t size, size_before = 0
    for index in range(count):
        physical_offset = entry_offset(at)
        size = entry_size(at)
        if physical_offset < 0 or size <= 0:
            return index
        if not _is_blank(physical_offset, size):
            # Neither offset is negative, so their difference is no larger than they are.
            if physical_offset - offset_before < size_before:
                return index
            offset_before = physical_offset
            size_before = size
        at += ENTRY_SIZE
    return count


def leading_blanks(bytes entries not None):
    """How many of `entries`, from the first on, are blank."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(entries)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(entries) // ENTRY_SIZE
    cdef Py_ssize_t index
    for index in range(count):
        if not _is_blank(entry_offset(at), entry_size(at)):
            return index
        at += ENTRY_SIZE
    return count


def count_before(bytes entries not None, int64_t physical_limit):
    """How many of `entries` there are up to the last whose record starts before the limit."""
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(entries)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(entries) // ENTRY_SIZE
    cdef int64_t physical_offset
    at += count * ENTRY_SIZE
    while count:
        at -= ENTRY_SIZE
        physical_offset = entry_offset(at)
        if physical_offset < physical_limit and not _is_blank(
            physical_offset, entry_size(at)
        ):
            break
        count -= 1
    return count

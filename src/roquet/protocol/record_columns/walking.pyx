# cython: boundscheck=False, wraparound=False
"""From record to record by their sizes; how a record is laid out is drawn in `record.py`."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize

from roquet.protocol.binary cimport get_int32, get_int64, int32_t, int64_t, uint8_t
from roquet.protocol.messages.record_layout cimport (
    MAGIC_AT,
    MAGIC_V1,
    PHYSICAL_OFFSET_AT,
    RECORD_SIZE_MIN,
)

cdef enum:
    _MAGIC_V2 = -626843477
    _MAGIC_BLANK = -875286124
    _BLANK_SIZE_MIN = 8
    # Where to begin with: a few pages of numbers.
    _STARTS_MIN = 1024


def walk_records(const uint8_t[::1] data not None, Py_ssize_t position, Py_ssize_t end, base=None):
    """Where the records begin that a walk from `position` finds before `end`, and where it stops.

    The starts are int64 numbers in a bytearray. The walk stops before `end` at what is neither a
    record nor a blank, or does not fit the data. With a `base`, the physical offset of byte 0,
    records must lie where they say. What is inside a record is not looked at.
    """
    cdef bint has_base = base is not None
    cdef int64_t first_offset = base if has_base else 0
    cdef bytearray found = bytearray()
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t size
    cdef bint is_record = False
    if position < 0:
        raise IndexError(f"no walk can begin at byte {position}")
    end = min(end, data.shape[0])
    while position < end:
        size = _size_at(&data[position], data.shape[0] - position, &is_record)
        if not size:
            break
        if is_record:
            if has_base and (
                get_int64(&data[position] + PHYSICAL_OFFSET_AT) != first_offset + position
            ):
                break
            if count * <Py_ssize_t>sizeof(int64_t) == PyByteArray_GET_SIZE(found):
                PyByteArray_Resize(found, max(_STARTS_MIN, 2 * count) * sizeof(int64_t))
            (<int64_t*>PyByteArray_AS_STRING(found))[count] = position
            count += 1
        position += size
    PyByteArray_Resize(found, count * sizeof(int64_t))
    return found, position


cdef Py_ssize_t _size_at(const uint8_t* at, Py_ssize_t room, bint* is_record) noexcept:
    """The size of what begins there, 0 if it does not fit or is nothing."""
    cdef int32_t size, magic
    if room < _BLANK_SIZE_MIN:
        return 0
    size = get_int32(at)
    magic = get_int32(at + MAGIC_AT)
    is_record[0] = magic == MAGIC_V1 or magic == _MAGIC_V2
    if not (is_record[0] or magic == _MAGIC_BLANK):
        return 0
    if size < (RECORD_SIZE_MIN if is_record[0] else _BLANK_SIZE_MIN) or size > room:
        return 0
    return size

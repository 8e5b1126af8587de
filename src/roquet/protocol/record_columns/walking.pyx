# cython: boundscheck=False, wraparound=False
"""From record to record by their sizes; how a record is laid out is drawn in `record.py`."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from libc.string cimport memchr

from roquet.protocol.binary cimport get_int32, get_int64, int32_t, int64_t, uint8_t
from roquet.protocol.messages.record_layout cimport (
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    RECORD_SIZE_MIN,
)

cdef enum:
    _MAGIC_BYTE = 0xDA  # the first one of both
    # This much of a record has to be there to name its place.
    _CLAIM_SIZE = PHYSICAL_OFFSET_AT + 8
    _MAGIC_BLANK = -875286124
    _BLANK_SIZE_MIN = 8
    # To start with: a few pages of numbers.
    _STARTS_MIN = 1024

CLAIM_SIZE = _CLAIM_SIZE


def walk_records(const uint8_t[::1] data not None, Py_ssize_t position, Py_ssize_t end, base=None):
    """Where the records start that a walk from `position` finds before `end`, and where it stops.

    The starts are int64 numbers in a bytearray. The walk stops before `end` at what is neither a
    record nor a blank, or does not fit the data. With a `base`, the physical offset of byte 0,
    records must lie where they claim to. What is inside a record is not looked at.
    """
    cdef bint has_base = base is not None
    cdef int64_t first_offset = base if has_base else 0
    cdef Starts starts = Starts()
    cdef Py_ssize_t size
    cdef bint is_record = False
    if position < 0:
        raise IndexError(f"no walk can start at byte {position}")
    end = min(end, data.shape[0])
    while position < end:
        size = _size_at(&data[position], data.shape[0] - position, &is_record)
        if not size:
            break
        if is_record:
            if has_base and _offset_at(&data[position]) != first_offset + position:
                break
            starts.add(position)
        position += size
    return starts.all_of_them(), position


def find_claims(
    const uint8_t[::1] data not None, Py_ssize_t begin, Py_ssize_t end, int64_t base
):
    """Where, between `begin` and `end`, something claims to be a record right there.

    Every record does; so may what is in a body, by chance or design. `base` is the physical offset
    of byte 0. The starts are int64 numbers in a bytearray; not all of them fit the data.
    """
    cdef Starts starts = Starts()
    cdef const uint8_t* at
    if begin < 0:
        raise IndexError(f"no search can start at byte {begin}")
    end = min(end, data.shape[0] - _CLAIM_SIZE + 1)
    while begin < end:
        at = <const uint8_t*>memchr(&data[begin + MAGIC_AT], _MAGIC_BYTE, end - begin)
        if at is NULL:
            break
        at -= MAGIC_AT
        begin = at - &data[0]
        if (
            _is_magic(get_int32(at + MAGIC_AT))
            and get_int32(at) >= RECORD_SIZE_MIN
            and _offset_at(at) == base + begin
        ):
            starts.add(begin)
        begin += 1
    return starts.all_of_them()


cdef class Starts:
    """A growing list of numbers."""

    cdef bytearray found
    cdef int64_t* at
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity

    def __init__(self):
        self.found = bytearray()

    cdef inline int add(self, int64_t start) except -1:
        if self.count == self.capacity:
            self.capacity = max(_STARTS_MIN, 2 * self.capacity)
            PyByteArray_Resize(self.found, self.capacity * sizeof(int64_t))
            self.at = <int64_t*>PyByteArray_AS_STRING(self.found)
        self.at[self.count] = start
        self.count += 1
        return 0

    cdef bytearray all_of_them(self):
        PyByteArray_Resize(self.found, self.count * sizeof(int64_t))
        return self.found


cdef inline bint _is_magic(int32_t magic) noexcept:
    return magic == MAGIC_V1 or magic == MAGIC_V2


cdef inline int64_t _offset_at(const uint8_t* record) noexcept:
    return get_int64(record + PHYSICAL_OFFSET_AT)


cdef Py_ssize_t _size_at(const uint8_t* at, Py_ssize_t room, bint* is_record) noexcept:
    """The size of what starts there, 0 if it does not fit or is nothing."""
    cdef int32_t size, magic
    if room < _BLANK_SIZE_MIN:
        return 0
    size = get_int32(at)
    magic = get_int32(at + MAGIC_AT)
    is_record[0] = _is_magic(magic)
    if not (is_record[0] or magic == _MAGIC_BLANK):
        return 0
    if size < (RECORD_SIZE_MIN if is_record[0] else _BLANK_SIZE_MIN) or size > room:
        return 0
    return size

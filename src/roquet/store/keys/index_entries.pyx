# cython: boundscheck=False, wraparound=False
"""Writes and finds keys in an index file, whose layout is drawn in `index_file.py`."""

from cpython.buffer cimport (
    PyBUF_SIMPLE,
    PyBUF_WRITABLE,
    PyBuffer_Release,
    PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongAndOverflow

from roquet.protocol.binary cimport (
    get_int32,
    get_int64,
    int32_t,
    int64_t,
    put_int32,
    put_int64,
    uint8_t,
)
from roquet.store.keys.message_keys cimport Key

cdef enum:
    _HEADER_SIZE = 40
    _SLOT_SIZE = 4
    _ENTRY_SIZE = 20
    _SECONDS_MAX = 0x7FFFFFFF
    # At most this many entries of one slot are searched: a walk must end.
    _CHAIN_LENGTH_MAX = 200_000


def put_entries(
    buffer,
    int64_t slot_count,
    int64_t first,
    int64_t begin_timestamp,
    bytes packed_keys not None,
):
    """Write entries from number `first` on, each as the newest one of its slot.

    Times count from `begin_timestamp` on, which in a new file is the end of the file before.
    Returns how many slots were empty.
    """
    cdef const Key* key = <const Key*>PyBytes_AS_STRING(packed_keys)
    cdef Py_ssize_t count = PyBytes_GET_SIZE(packed_keys) // <Py_ssize_t>sizeof(Key)
    cdef int64_t entries_start = _HEADER_SIZE + slot_count * _SLOT_SIZE
    cdef Py_ssize_t index
    cdef Py_ssize_t new_slots = 0
    cdef uint8_t* slot
    cdef uint8_t* entry
    cdef int32_t older
    cdef Py_buffer view
    if slot_count <= 0 or first <= 0:
        raise ValueError(f"{slot_count} slots, and entries from {first} on")
    PyObject_GetBuffer(buffer, &view, PyBUF_WRITABLE)
    try:
        if slot_count > view.len or view.len - entries_start < (first + count) * _ENTRY_SIZE:
            raise IndexError(f"{count} entries from {first} on do not fit")
        entry = <uint8_t*>view.buf + entries_start + first * _ENTRY_SIZE
        for index in range(count):
            if key.key_hash < 0:
                raise ValueError("a negative hash")
            slot = <uint8_t*>view.buf + _HEADER_SIZE + key.key_hash % slot_count * _SLOT_SIZE
            older = get_int32(slot)
            if older <= 0 or older >= first + index:
                # A slot that names a later entry is damaged.
                older = 0
                new_slots += 1
            put_int32(slot, first + index)
            put_int32(entry, key.key_hash)
            put_int64(entry + 4, key.physical_offset)
            put_int32(entry + 12, _seconds(begin_timestamp, key.timestamp))
            put_int32(entry + 16, older)
            entry += _ENTRY_SIZE
            if first + index == 1:
                # From here on times count from the first message of this file.
                begin_timestamp = key.timestamp
            key += 1
    finally:
        PyBuffer_Release(&view)
    return new_slots


def find_entries(
    buffer,
    int64_t slot_count,
    int64_t next_number,
    int64_t key_hash,
    first_ms,
    last_ms,
    Py_ssize_t count_max,
):
    """Physical offsets of messages with this hash, newest first.

    Times count from the first message of the file. The walk ends at an entry that is damaged, or
    older than `first_ms`.
    """
    cdef list found = []
    cdef int64_t first = _bounded(first_ms)
    cdef int64_t last = _bounded(last_ms)
    cdef int64_t entries_start = _HEADER_SIZE + slot_count * _SLOT_SIZE
    cdef const uint8_t* entry
    cdef int64_t number
    cdef int64_t newer = next_number
    cdef int64_t elapsed_ms
    cdef Py_ssize_t length
    cdef Py_buffer view
    if slot_count <= 0 or key_hash < 0:
        raise ValueError(f"{slot_count} slots, and a key with the hash {key_hash}")
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        if slot_count > view.len or view.len < entries_start:
            raise IndexError(f"{slot_count} slots in {view.len} bytes")
        newer = min(newer, (view.len - entries_start) // _ENTRY_SIZE)
        number = get_int32(
            <const uint8_t*>view.buf + _HEADER_SIZE + key_hash % slot_count * _SLOT_SIZE
        )
        for length in range(_CHAIN_LENGTH_MAX):
            # Every entry is older than the one before it, even in a damaged file.
            if not 0 < number < newer or len(found) >= count_max:
                break
            newer = number
            entry = <const uint8_t*>view.buf + entries_start + number * _ENTRY_SIZE
            elapsed_ms = <int64_t>get_int32(entry + 12) * 1000
            if elapsed_ms < 0 or elapsed_ms < first:
                break
            if get_int32(entry) == key_hash and elapsed_ms <= last:
                found.append(get_int64(entry + 4))
            number = get_int32(entry + 16)
    finally:
        PyBuffer_Release(&view)
    return found


cdef inline int64_t _bounded(elapsed_ms) except? -2:
    """What does not fit is as good as a time that no entry can tell: they have 31 bits of seconds."""
    cdef int overflow = 0
    cdef int64_t bounded = PyLong_AsLongAndOverflow(elapsed_ms, &overflow)
    return bounded if overflow == 0 else overflow * <int64_t>_SECONDS_MAX * _SECONDS_MAX


cdef inline int32_t _seconds(int64_t begin, int64_t timestamp) noexcept:
    if begin <= 0 or timestamp <= begin:
        return 0
    return <int32_t>min((timestamp - begin) // 1000, <int64_t>_SECONDS_MAX)

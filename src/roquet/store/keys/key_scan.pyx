# cython: boundscheck=False, wraparound=False
"""The keys of many records, read where they lie in the log, and their hashes.

`message_keys.py` defines which texts are keys, and handles the records that are odd: sizes that do
not add up, letters beyond ASCII. Checksums are not compared here: a damaged record that a key
points to is found when it is read.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memchr

from roquet.protocol.binary cimport Span, int32_t, int64_t, uint8_t, uint32_t
from roquet.protocol.messages.property_text cimport next_property, note_value
from roquet.protocol.messages.record_parts cimport (
    RecordParts,
    locate_record,
    store_timestamp_of,
)
from roquet.store.keys.message_keys cimport Key

cdef enum:
    _TRANSACTION_MASK = 0xC
    _ROLLBACK = 0xC
    _ASCII_MAX = 127


cdef struct Keys:
    Key* items
    Py_ssize_t count
    Py_ssize_t capacity


def scan_keys(buffer, int64_t base, list physical_offsets not None, bint with_tags):
    """The keys of the records that lie there; `base` is the physical offset of byte 0.

    Returns them as `message_keys.py` draws them, in the order of the offsets, and the offsets of the
    odd records.
    """
    cdef Py_buffer view
    cdef Keys keys = Keys(NULL, 0, 0)
    cdef list odd = []
    cdef int64_t physical_offset
    PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE)
    try:
        for physical_offset in physical_offsets:
            if not _add_keys(&keys, &view, base, physical_offset, with_tags):
                odd.append(physical_offset)
        return PyBytes_FromStringAndSize(<char*>keys.items, keys.count * sizeof(Key)), odd
    finally:
        PyMem_Free(keys.items)
        PyBuffer_Release(&view)


cdef int _add_keys(
    Keys* keys, const Py_buffer* view, int64_t base, int64_t physical_offset, bint with_tags
) except -1:
    """Whether the record is well-formed. If it is not, nothing is added."""
    cdef RecordParts record
    cdef Key key
    cdef Span unique_key, several, tags
    if physical_offset < base or not locate_record(
        <const uint8_t*>view.buf + (physical_offset - base),
        view.len - (physical_offset - base),
        &record,
    ):
        return False
    if record.sys_flag & _TRANSACTION_MASK == _ROLLBACK:
        return True
    _find_values(record.properties, &unique_key, &several, &tags)
    if not with_tags:
        tags.size = 0
    if not (
        _is_ascii(record.topic)
        and _is_ascii(unique_key)
        and _is_ascii(several)
        and _is_ascii(tags)
    ):
        return False
    key.physical_offset = physical_offset
    key.timestamp = store_timestamp_of(&record)
    key.unused = 0
    _make_room(keys, 3 + several.size // 2)
    cdef uint32_t prefix = 31 * _extended(0, record.topic) + c"#"
    if unique_key.size:
        _add(keys, &key, _extended(prefix, unique_key))
    _add_several(keys, &key, prefix, several)
    if tags.size:
        prefix = (31 * prefix + c"T") * 31 + c"#"
        _add(keys, &key, _extended(prefix, tags))
    return True


cdef void _find_values(
    Span properties, Span* unique_key, Span* several, Span* tags
) noexcept:
    """Of equal names the last one counts. Missing ones are empty."""
    cdef Span each
    unique_key[0] = several[0] = tags[0] = Span(NULL, 0)
    while next_property(&properties, &each):
        (
            note_value(each, b"UNIQ_KEY\x01", unique_key)
            or note_value(each, b"KEYS\x01", several)
            or note_value(each, b"TAGS\x01", tags)
        )


cdef void _add_several(Keys* keys, Key* key, uint32_t prefix, Span rest) noexcept:
    """They are separated by spaces; an empty text between two spaces is no key."""
    cdef const uint8_t* space
    cdef Span each
    while rest.size > 0:
        space = <const uint8_t*>memchr(rest.start, c" ", <size_t>rest.size)
        each = Span(rest.start, rest.size if space is NULL else space - rest.start)
        if each.size:
            _add(keys, key, _extended(prefix, each))
        rest = Span(each.start + each.size + 1, rest.size - each.size - 1)


cdef inline void _add(Keys* keys, Key* key, uint32_t java_hash) noexcept:
    # The smallest number has no opposite in 32 bits: it becomes 0.
    key.key_hash = <int32_t>java_hash
    if key.key_hash < 0:
        key.key_hash = <int32_t>((0 - java_hash) & 0x7FFFFFFF)
    keys.items[keys.count] = key[0]
    keys.count += 1


cdef int _make_room(Keys* keys, Py_ssize_t count) except -1:
    cdef Key* items
    if keys.capacity - keys.count < count:
        keys.capacity = 2 * keys.capacity + count
        items = <Key*>PyMem_Realloc(keys.items, keys.capacity * sizeof(Key))
        if items is NULL:
            raise MemoryError
        keys.items = items
    return 0


cdef inline uint32_t _extended(uint32_t java_hash, Span text) noexcept:
    """The hash of a longer text."""
    cdef Py_ssize_t index
    for index in range(text.size):
        java_hash = 31 * java_hash + text.start[index]
    return java_hash


cdef inline bint _is_ascii(Span text) noexcept:
    cdef Py_ssize_t index
    cdef uint8_t bits = 0
    for index in range(text.size):
        bits |= text.start[index]
    return bits <= _ASCII_MAX

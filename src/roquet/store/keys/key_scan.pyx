# cython: boundscheck=False, wraparound=False
"""The keys of many records, read where they lie in the log, and their hashes.

Which texts are keys is said in `message_keys.py`, which also takes the records that are odd:
another magic, sizes that do not add up, letters beyond ASCII. How a record is laid out is drawn
in `record.py`. Its checksum is left alone: a key that leads to a damaged record leads nowhere.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memchr, memcmp

from roquet.protocol.binary cimport (
    get_int16,
    get_int32,
    get_int64,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
)
from roquet.store.keys.packed_keys cimport Key
from roquet.protocol.messages.record_layout cimport (
    BODY_AT,
    BORN_HOST_V6,
    MAGIC_AT,
    MAGIC_V1,
    RECORD_SIZE_MIN,
    SEPARATOR,
    STORE_HOST_V6,
    STORE_TIMESTAMP_AT,
    SYS_FLAG_AT,
    TOPIC_SIZE_MAX_V1,
)

cdef enum:
    _LONG_HOST = 12  # so much longer is a host of IPv6
    _TRANSACTION_MASK = 0xC
    _ROLLBACK = 0xC
    _SPACE = 32
    _ASCII_MAX = 127
    _UNIQUE_KEY_SIZE = 9
    _KEYS_SIZE = 5
    _TAGS_SIZE = 5

cdef const char* _UNIQUE_KEY = b"UNIQ_KEY\x01"
cdef const char* _KEYS = b"KEYS\x01"
cdef const char* _TAGS = b"TAGS\x01"


cdef struct Keys:
    Key* items
    Py_ssize_t count
    Py_ssize_t capacity


cdef struct Text:
    const uint8_t* start
    const uint8_t* end


def scan_keys(buffer, int64_t base, list physical_offsets not None, bint with_tags):
    """The keys of the records that lie there; `base` is the physical offset of byte 0.

    Returns them as `packed_keys.py` has them, in the order of the offsets, and the offsets of the
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
    """Whether the record is of the usual kind. If it is not, nothing is added."""
    cdef const uint8_t* start
    cdef const uint8_t* end
    cdef Text topic, unique_key, several, tags
    cdef int32_t size, sys_flag, body_size, topic_size
    cdef Py_ssize_t body_at
    cdef Key key
    if physical_offset < base or view.len - (physical_offset - base) < RECORD_SIZE_MIN:
        return False
    start = <const uint8_t*>view.buf + (physical_offset - base)
    size = get_int32(start)
    sys_flag = get_int32(start + SYS_FLAG_AT)
    if get_int32(start + MAGIC_AT) != MAGIC_V1 or size > view.len - (physical_offset - base):
        return False
    key.timestamp = get_int64(start + STORE_TIMESTAMP_AT)
    body_at = BODY_AT
    if sys_flag & BORN_HOST_V6:
        key.timestamp = get_int64(start + STORE_TIMESTAMP_AT + _LONG_HOST)
        body_at += _LONG_HOST
    if sys_flag & STORE_HOST_V6:
        body_at += _LONG_HOST
    # Here and below there have to be three bytes more, for the other sizes.
    if size < body_at + 3:
        return False
    body_size = get_int32(start + body_at - 4)
    if body_size < 0 or body_size > size - body_at - 3:
        return False
    end = start + size
    topic_size = start[body_at + body_size]
    topic.start = start + body_at + body_size + 1
    topic.end = topic.start + topic_size
    if topic_size > TOPIC_SIZE_MAX_V1 or end - topic.end < 2:
        return False
    if get_int16(topic.end) != end - topic.end - 2 or not _is_ascii(topic):
        return False
    if sys_flag & _TRANSACTION_MASK == _ROLLBACK:
        return True
    _find_values(topic.end + 2, end, &unique_key, &several, &tags)
    if not with_tags:
        tags = Text(NULL, NULL)
    if not (_is_ascii(unique_key) and _is_ascii(several) and _is_ascii(tags)):
        return False
    key.physical_offset = physical_offset
    key.unused = 0
    _make_room(keys, 3 + (several.end - several.start) // 2)
    cdef uint32_t prefix = 31 * _extended(0, topic) + c"#"
    if unique_key.start is not NULL:
        _add(keys, &key, _extended(prefix, unique_key))
    _add_several(keys, &key, prefix, several)
    if tags.start is not NULL:
        prefix = (31 * prefix + c"T") * 31 + c"#"
        _add(keys, &key, _extended(prefix, tags))
    return True


cdef void _find_values(
    const uint8_t* at, const uint8_t* end, Text* unique_key, Text* several, Text* tags
) noexcept:
    """Of equal names the last one counts, and an empty one is not there."""
    cdef const uint8_t* next
    unique_key[0] = several[0] = tags[0] = Text(NULL, NULL)
    while at < end:
        next = <const uint8_t*>memchr(at, SEPARATOR, end - at)
        if next is NULL:
            next = end
        if next - at > _UNIQUE_KEY_SIZE and not memcmp(at, _UNIQUE_KEY, _UNIQUE_KEY_SIZE):
            unique_key[0] = Text(at + _UNIQUE_KEY_SIZE, next)
        elif next - at > _KEYS_SIZE and not memcmp(at, _KEYS, _KEYS_SIZE):
            several[0] = Text(at + _KEYS_SIZE, next)
        elif next - at > _TAGS_SIZE and not memcmp(at, _TAGS, _TAGS_SIZE):
            tags[0] = Text(at + _TAGS_SIZE, next)
        at = next + 1


cdef void _add_several(Keys* keys, Key* key, uint32_t prefix, Text several) noexcept:
    """There are spaces between them, and nothing between two spaces is no key."""
    cdef Text each
    each.start = several.start
    while each.start < several.end:
        each.end = <const uint8_t*>memchr(each.start, _SPACE, several.end - each.start)
        if each.end is NULL:
            each.end = several.end
        if each.end > each.start:
            _add(keys, key, _extended(prefix, each))
        each.start = each.end + 1


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


cdef inline uint32_t _extended(uint32_t java_hash, Text text) noexcept:
    """The hash of a longer text."""
    cdef const uint8_t* at = text.start
    while at < text.end:
        java_hash = 31 * java_hash + at[0]
        at += 1
    return java_hash


cdef inline bint _is_ascii(Text text) noexcept:
    cdef const uint8_t* at = text.start
    cdef uint8_t bits = 0
    while at < text.end:
        bits |= at[0]
        at += 1
    return bits <= _ASCII_MAX

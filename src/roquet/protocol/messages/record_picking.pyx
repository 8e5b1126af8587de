# cython: boundscheck=False, wraparound=False
"""The records of a pull reply that lie in a range of offsets and have one of some tags.

A broker compares hashes of tags, and goes on past a range when it looks for a match; so a
reader looks again. How a record is laid out is drawn in `record.py`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp

from roquet.protocol.binary cimport get_int16, get_int32, get_int64, int32_t, int64_t, uint8_t
from roquet.protocol.messages.record_layout cimport (
    BODY_AT,
    BODY_SIZE_AT,
    BORN_HOST_V6,
    HOST_SIZE_V4,
    HOST_SIZE_V6,
    MAGIC_AT,
    MAGIC_V1,
    QUEUE_OFFSET_AT,
    RECORD_SIZE_MIN,
    SEPARATOR,
    STORE_HOST_V6,
    SYS_FLAG_AT,
)

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import MAGIC_V2

cdef enum:
    # Of the system flag: one record that holds many messages, which have tags of their own.
    _INNER_BATCH = 0x80
    _V6_MORE = HOST_SIZE_V6 - HOST_SIZE_V4
    _TAGS_MARK_SIZE = 5

cdef const char* _TAGS_MARK = b"TAGS\x01"
cdef int32_t _MAGIC_V2 = MAGIC_V2

cdef struct Text:
    const uint8_t* at
    Py_ssize_t size


def pick_records(bytes buffer not None, int64_t begin, int64_t end, frozenset tags=None):
    """Those from offset `begin` on, but before `end`, with one of `tags`, if there are any.

    Returns the records, which are `buffer` itself if nothing is left out, how many they are,
    and the first offset of the range that has no record, whatever its tags; it is `end` if all
    have one, and also if there is a record of many messages. Raises BadMessage.
    """
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(buffer)
    cdef Py_ssize_t buffer_end = PyBytes_GET_SIZE(buffer)
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t kept_start = 0  # of the run of records that are kept
    cdef Py_ssize_t count = 0
    cdef int64_t whole_end = begin
    cdef int64_t offset
    cdef int32_t size
    cdef bint is_batch, is_kept
    cdef list pieces = []
    while position < buffer_end:
        if buffer_end - position < RECORD_SIZE_MIN:
            raise BadMessage(f"{buffer_end - position} bytes are no record")
        size = get_int32(data + position)
        if size < RECORD_SIZE_MIN or size > buffer_end - position:
            raise BadMessage(f"a record of {size} bytes does not fit at byte {position}")
        offset = get_int64(data + position + QUEUE_OFFSET_AT)
        is_batch = get_int32(data + position + SYS_FLAG_AT) & _INNER_BATCH
        if is_batch:
            whole_end = end
        elif offset == whole_end and offset < end:
            whole_end += 1
        is_kept = offset < end and (
            is_batch
            or offset >= begin
            and (tags is None or _tags_of(data + position, size) in tags)
        )
        if is_kept:
            count += 1
        else:
            if position > kept_start:
                pieces.append(buffer[kept_start:position])
            kept_start = position + size
        position += size
    if not kept_start:
        return buffer, count, whole_end
    if position > kept_start:
        pieces.append(buffer[kept_start:position])
    return b"".join(pieces), count, whole_end


cdef object _tags_of(const uint8_t* record, int32_t size):
    """The value of the last property TAGS that has one; None without it. Raises BadMessage."""
    cdef Text properties = _properties_of(record, size)
    cdef const uint8_t* at = properties.at
    cdef const uint8_t* end = at + properties.size
    cdef const uint8_t* next_at
    cdef object found = None
    while at < end:
        next_at = <const uint8_t*>memchr(at, SEPARATOR, end - at)
        if next_at is NULL:
            next_at = end
        if next_at - at > _TAGS_MARK_SIZE and not memcmp(at, _TAGS_MARK, _TAGS_MARK_SIZE):
            found = (at + _TAGS_MARK_SIZE)[: next_at - at - _TAGS_MARK_SIZE]
        at = next_at + 1
    return found


cdef Text _properties_of(const uint8_t* record, int32_t size) except *:
    """Raises BadMessage unless the parts of the record add up to its size."""
    cdef Text properties
    cdef int32_t magic = get_int32(record + MAGIC_AT)
    cdef int32_t sys_flag = get_int32(record + SYS_FLAG_AT)
    cdef int64_t at = BODY_AT
    cdef int64_t topic_size_size = 1 if magic == MAGIC_V1 else 2
    cdef int64_t part_size
    if magic != MAGIC_V1 and magic != _MAGIC_V2:
        raise BadMessage(f"magic {magic} is not that of a record")
    if sys_flag & BORN_HOST_V6:
        at += _V6_MORE
    if sys_flag & STORE_HOST_V6:
        at += _V6_MORE
    if at > size:
        raise BadMessage(f"a record of {size} bytes has no room for its hosts")
    part_size = get_int32(record + at - (BODY_AT - BODY_SIZE_AT))
    if part_size < 0 or part_size > size - at - topic_size_size:
        raise BadMessage(f"a body of {part_size} bytes does not fit its record")
    at += part_size
    if topic_size_size == 1:
        part_size = <signed char>record[at]
    else:
        part_size = get_int16(record + at)
    at += topic_size_size
    if part_size < 0 or part_size > size - at - 2:
        raise BadMessage(f"a topic of {part_size} bytes does not fit its record")
    at += part_size
    properties.size = get_int16(record + at)
    at += 2
    if properties.size != size - at:
        raise BadMessage(f"the parts of a record do not add up to its {size} bytes")
    properties.at = record + at
    return properties

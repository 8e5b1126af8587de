# cython: boundscheck=False, wraparound=False
"""Messages that waited under another name, made ready for where they belong.

REAL_TOPIC and REAL_QID say where that is. How a record is laid out is drawn in `record.py`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memcmp

from roquet.protocol.binary cimport (
    crc31,
    get_int16,
    get_int32,
    get_int64,
    get_uint32,
    int32_t,
    uint8_t,
)
from roquet.protocol.messages.drafts cimport RecordDraft
from roquet.protocol.messages.record_layout cimport (
    ADDRESS_BITS,
    BODY_AT,
    BODY_CRC_AT,
    BODY_SIZE_AT,
    BORN_HOST_AT,
    BORN_TIMESTAMP_AT,
    CHECKSUM_SIZE,
    FLAG_AT,
    HOST_SIZE_V4,
    MAGIC_AT,
    MAGIC_V1,
    PROPERTIES_SIZE_MAX,
    RECONSUME_TIMES_AT,
    RECORD_SIZE_MIN,
    SEPARATOR,
    STORE_HOST_AT,
    SYS_FLAG_AT,
    TOPIC_SIZE_MAX_V1,
)

cdef enum:
    _CHECKSUM_MARK_SIZE = 10
    _TOPIC_MARK_SIZE = 11
    _QUEUE_MARK_SIZE = 9
    _QUEUE_DIGITS_MAX = 9
    _ASCII_MAX = 127

cdef const char* _CHECKSUM_MARK = b"\x02__CRC32#\x01"
cdef const char* _TOPIC_MARK = b"REAL_TOPIC\x01"
cdef const char* _QUEUE_MARK = b"REAL_QID\x01"


def usual_redelivery(bytes record not None, bint has_checksum):
    """The message as it was but for its place; None if anything about the record is unusual."""
    cdef const uint8_t* start = <const uint8_t*>PyBytes_AS_STRING(record)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    if (
        size < RECORD_SIZE_MIN
        or get_int32(start) != size
        or get_int32(start + MAGIC_AT) != MAGIC_V1
        or get_int32(start + SYS_FLAG_AT) & ADDRESS_BITS
    ):
        return None
    cdef Py_ssize_t body_size = get_int32(start + BODY_SIZE_AT)
    if body_size < 0 or body_size > size - RECORD_SIZE_MIN:
        return None
    cdef const uint8_t* body = start + BODY_AT
    if crc31(body, body_size) != get_uint32(start + BODY_CRC_AT):
        return None
    cdef Py_ssize_t topic_size = body[body_size]
    cdef const uint8_t* properties = body + body_size + 1 + topic_size + 2
    cdef Py_ssize_t properties_size = start + size - properties
    if topic_size > TOPIC_SIZE_MAX_V1 or properties_size < 0:
        return None
    if get_int16(properties - 2) != properties_size:
        return None
    # Its own checksum, if it has one, is that of the record that waited.
    if properties_size > CHECKSUM_SIZE and not memcmp(
        properties + properties_size - CHECKSUM_SIZE - 1, _CHECKSUM_MARK, _CHECKSUM_MARK_SIZE
    ):
        properties_size -= CHECKSUM_SIZE
    cdef bytes topic = _topic(properties, properties_size)
    cdef int32_t queue_id = _queue_id(properties, properties_size)
    if topic is None or queue_id < 0:
        return None
    cdef RecordDraft draft = RecordDraft.__new__(RecordDraft)
    draft.queue_id = queue_id
    draft.magic = MAGIC_V1
    draft.flag = get_int32(start + FLAG_AT)
    draft.sys_flag = get_int32(start + SYS_FLAG_AT)
    draft.born_timestamp = get_int64(start + BORN_TIMESTAMP_AT)
    draft.born_host = _bytes_at(start + BORN_HOST_AT, HOST_SIZE_V4)
    draft.store_host = _bytes_at(start + STORE_HOST_AT, HOST_SIZE_V4)
    draft.topic = topic
    draft.properties = _bytes_at(properties, properties_size)
    draft.reconsume_times = get_int32(start + RECONSUME_TIMES_AT)
    # Whoever stored it may have used the last byte that there is for properties.
    draft.has_checksum = has_checksum and (
        properties_size + CHECKSUM_SIZE < PROPERTIES_SIZE_MAX
    )
    draft.settle(_bytes_at(body, body_size))
    return draft


cdef bytes _topic(const uint8_t* properties, Py_ssize_t size):
    """None if there is none, or not a usual one."""
    cdef Py_ssize_t value_size = 0
    cdef Py_ssize_t index
    cdef const uint8_t* value = _value(
        properties, size, _TOPIC_MARK, _TOPIC_MARK_SIZE, &value_size
    )
    if value is NULL or value_size > TOPIC_SIZE_MAX_V1:
        return None
    for index in range(value_size):
        if value[index] > _ASCII_MAX:
            return None
    return _bytes_at(value, value_size)


cdef int32_t _queue_id(const uint8_t* properties, Py_ssize_t size) noexcept:
    """-1 if there is none, or not a usual one."""
    cdef Py_ssize_t value_size = 0
    cdef Py_ssize_t index
    cdef int32_t queue_id = 0
    cdef const uint8_t* value = _value(
        properties, size, _QUEUE_MARK, _QUEUE_MARK_SIZE, &value_size
    )
    if value is NULL or value_size > _QUEUE_DIGITS_MAX:
        return -1
    for index in range(value_size):
        if not 48 <= value[index] <= 57:
            return -1
        queue_id = queue_id * 10 + value[index] - 48
    return queue_id


cdef const uint8_t* _value(
    const uint8_t* at, Py_ssize_t size, const char* mark, Py_ssize_t mark_size, Py_ssize_t* value_size
) noexcept:
    """Of equal names the last one counts, and an empty one is not there."""
    cdef const uint8_t* end = at + size
    cdef const uint8_t* found = NULL
    cdef const uint8_t* next
    while at < end:
        next = <const uint8_t*>memchr(at, SEPARATOR, <size_t>(end - at))
        if next is NULL:
            next = end
        if next - at > mark_size and not memcmp(at, mark, <size_t>mark_size):
            found = at + mark_size
            value_size[0] = next - found
        at = next + 1
    return found


cdef inline bytes _bytes_at(const uint8_t* at, Py_ssize_t size):
    return PyBytes_FromStringAndSize(<const char*>at, size)

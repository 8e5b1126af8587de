# cython: boundscheck=False, wraparound=False
"""Messages that waited under another name, made ready for where they belong.

REAL_TOPIC and REAL_QID name that queue. How a record is laid out is drawn in `record.py`.
"""

from roquet.protocol.binary cimport Span, bytes_of, get_int32, get_int64, int32_t, span_of
from roquet.protocol.messages.drafts cimport RecordDraft
from roquet.protocol.messages.property_text cimport find_value
from roquet.protocol.messages.record_layout cimport (
    BORN_TIMESTAMP_AT,
    CHECKSUM_SIZE,
    FLAG_AT,
    MAGIC_V1,
    PROPERTIES_SIZE_MAX,
    RECONSUME_TIMES_AT,
    TOPIC_SIZE_MAX_V1,
)
from roquet.protocol.messages.record_parts cimport (
    RecordParts,
    ends_in_checksum,
    has_common_layout,
    has_right_body,
    locate_record,
)

cdef enum:
    _QUEUE_DIGITS_MAX = 9
    _ASCII_MAX = 127


def common_redelivery(bytes waiting not None, bint has_checksum):
    """The message as it was but for its place; None if anything about it is uncommon."""
    cdef Span given = span_of(waiting)
    cdef RecordParts record
    if (
        not locate_record(given.start, given.size, &record)
        or record.size != given.size
        or not has_common_layout(given.start)
        or not has_right_body(&record)
    ):
        return None
    # Its own checksum, if it has one, is that of the record that waited.
    if ends_in_checksum(&record):
        record.properties.size -= CHECKSUM_SIZE
    cdef bytes topic = _topic(record.properties)
    cdef int32_t queue_id = _queue_id(record.properties)
    if topic is None or queue_id < 0:
        return None
    cdef RecordDraft draft = RecordDraft.__new__(RecordDraft)
    draft.queue_id = queue_id
    draft.magic = MAGIC_V1
    draft.flag = get_int32(record.start + FLAG_AT)
    draft.sys_flag = record.sys_flag
    draft.born_timestamp = get_int64(record.start + BORN_TIMESTAMP_AT)
    draft.born_host = bytes_of(record.born_host)
    draft.store_host = bytes_of(record.store_host)
    draft.topic = topic
    draft.properties = bytes_of(record.properties)
    draft.reconsume_times = get_int32(record.start + RECONSUME_TIMES_AT)
    # Its properties may already have the maximal size.
    draft.has_checksum = has_checksum and (
        record.properties.size + CHECKSUM_SIZE < PROPERTIES_SIZE_MAX
    )
    draft.complete(bytes_of(record.body))
    return draft


cdef bytes _topic(Span properties):
    """None if there is none, or none of ASCII that fits."""
    cdef Span value = find_value(properties, b"REAL_TOPIC\x01")
    cdef Py_ssize_t index
    if value.start is NULL or value.size > TOPIC_SIZE_MAX_V1:
        return None
    for index in range(value.size):
        if value.start[index] > _ASCII_MAX:
            return None
    return bytes_of(value)


cdef int32_t _queue_id(Span properties) noexcept:
    """-1 if there is none, or not just a few digits."""
    cdef Span value = find_value(properties, b"REAL_QID\x01")
    cdef Py_ssize_t index
    cdef int32_t queue_id = 0
    if value.start is NULL or value.size > _QUEUE_DIGITS_MAX:
        return -1
    for index in range(value.size):
        if not c"0" <= value.start[index] <= c"9":
            return -1
        queue_id = queue_id * 10 + value.start[index] - c"0"
    return queue_id

# cython: boundscheck=False, wraparound=False
"""Messages that waited under another name, made ready for where they belong.

REAL_TOPIC and REAL_QID name that queue. How a record is laid out is drawn in `record.py`.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    get_int32,
    get_int64,
    int32_t,
    int64_t,
    span_of,
)
from roquet.protocol.messages.drafts cimport RecordDraft
from roquet.protocol.messages.property_text cimport find_value
from roquet.protocol.messages.record_layout cimport (
    BORN_TIMESTAMP_AT,
    CHECKSUM_SIZE,
    FLAG_AT,
    MAGIC_V1,
    PHYSICAL_OFFSET_AT,
    PROPERTIES_SIZE_MAX,
    QUEUE_OFFSET_AT,
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

from roquet.protocol.names import HALF_TOPIC

cdef enum:
    _QUEUE_DIGITS_MAX = 9
    _ASCII_MAX = 127
    _TRANSACTION_MASK = 0xC
    _COMMIT = 0x8

cdef bytes _HALF_TOPIC = HALF_TOPIC.encode()


def common_redelivery(bytes waiting not None, bint has_checksum):
    """The message as it was but for its place; None if anything about it is uncommon."""
    cdef RecordParts record
    cdef RecordDraft draft
    if not _locate_common(span_of(waiting), &record):
        return None
    draft = _draft_of(&record)
    if draft is None:
        return None
    # Its properties may already have the maximal size.
    draft.has_checksum = has_checksum and _has_room_for_checksum(&record)
    draft.complete(bytes_of(record.body))
    return draft


def common_commit(
    bytes half not None, bytes producer_group not None, int64_t queue_offset, bint has_checksum
):
    """The message that a half message of this group and offset becomes when it is committed.

    None if it is another message, or if anything about it is uncommon.
    """
    cdef RecordParts record
    cdef RecordDraft draft
    if (
        not _locate_common(span_of(half), &record)
        or not _is_same(record.topic, _HALF_TOPIC)
        or get_int64(record.start + QUEUE_OFFSET_AT) != queue_offset
        or not _is_same(find_value(record.properties, b"PGROUP\x01"), producer_group)
        # Others are not stored as they were, if they are no text.
        or not _is_ascii(record.properties)
        or (has_checksum and not _has_room_for_checksum(&record))
    ):
        return None
    draft = _draft_of(&record)
    if draft is None:
        return None
    draft.sys_flag = draft.sys_flag & ~_TRANSACTION_MASK | _COMMIT
    draft.prepared_transaction_offset = get_int64(record.start + PHYSICAL_OFFSET_AT)
    draft.has_checksum = has_checksum
    draft.complete(bytes_of(record.body))
    return draft


cdef bint _locate_common(Span given, RecordParts* record) noexcept:
    """Whether it is one common record; its properties are then those without its own checksum,
    which is that of the record that waited."""
    if (
        not locate_record(given.start, given.size, record)
        or record.size != given.size
        or not has_common_layout(given.start)
        or not has_right_body(record)
    ):
        return False
    if ends_in_checksum(record):
        record.properties.size -= CHECKSUM_SIZE
    return True


cdef RecordDraft _draft_of(const RecordParts* record):
    """What is the same wherever it goes, to be completed; None if it does not know where it belongs."""
    cdef bytes topic = _topic(record.properties)
    cdef int32_t queue_id = _queue_id(record.properties)
    cdef RecordDraft draft
    if topic is None or queue_id < 0:
        return None
    draft = RecordDraft.__new__(RecordDraft)
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
    return draft


cdef inline bint _has_room_for_checksum(const RecordParts* record) noexcept:
    return record.properties.size + CHECKSUM_SIZE < PROPERTIES_SIZE_MAX


cdef inline bint _is_same(Span text, bytes known) noexcept:
    return text.size == PyBytes_GET_SIZE(known) and not memcmp(
        text.start, PyBytes_AS_STRING(known), <size_t>text.size
    )


cdef bint _is_ascii(Span text) noexcept:
    cdef Py_ssize_t index
    for index in range(text.size):
        if text.start[index] > _ASCII_MAX:
            return False
    return True


cdef bytes _topic(Span properties):
    """None if there is none, or none of ASCII that fits."""
    cdef Span value = find_value(properties, b"REAL_TOPIC\x01")
    if value.start is NULL or value.size > TOPIC_SIZE_MAX_V1 or not _is_ascii(value):
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

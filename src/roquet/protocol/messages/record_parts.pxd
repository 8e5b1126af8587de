"""Reading the record that `record.py` draws, for all compiled code that does.

    locate_record        where its parts lie, once its sizes are known to add up
    has_common_layout    magic V1 and short hosts: every member lies where its number says
    has_right_body       whether the CRC of its body is right
    ends_in_checksum     whether it claims to have a checksum of its own
    has_right_checksum   whether the one that it ends in is right
    has_right_digits     whether it ends in the digits of one, whatever comes before them
"""

from libc.stdint cimport int8_t
from libc.string cimport memcmp, memcpy

from roquet.protocol.binary cimport (
    Span,
    crc31,
    get_int16,
    get_int32,
    get_int64,
    get_uint32,
    int32_t,
    int64_t,
    uint8_t,
    uint32_t,
    uint64_t,
)
from roquet.protocol.messages cimport record_layout as layout


cdef struct RecordParts:
    const uint8_t* start
    Py_ssize_t size
    int32_t sys_flag
    Span born_host
    Span store_host
    Span body
    Span topic
    Span properties  # to the end of the record


cdef inline Py_ssize_t topic_size_width(int32_t magic) noexcept nogil:
    """The width of the field with the size of the topic."""
    return 1 if magic == layout.MAGIC_V1 else 2


cdef inline Py_ssize_t fitting_size(const uint8_t* start, Py_ssize_t room) noexcept nogil:
    """The size that the record at `start` claims; 0 if that is no size, or does not fit."""
    cdef Py_ssize_t size
    if room < layout.RECORD_SIZE_MIN:
        return 0
    size = get_int32(start)
    return size if layout.RECORD_SIZE_MIN <= size <= room else 0


cdef inline bint locate_record(
    const uint8_t* start, Py_ssize_t room, RecordParts* record
) noexcept nogil:
    """Whether a record lies in the first of `room` bytes, and its parts add up to its size.

    If not, `record` is undefined. Each size is compared with the bytes that are left
    before anything after it is read; what is left in the end is the properties.
    """
    cdef const uint8_t* shifted = start
    cdef int32_t magic
    cdef Py_ssize_t width, left
    record.start = start
    record.size = fitting_size(start, room)
    if not record.size:
        return False
    magic = get_int32(start + layout.MAGIC_AT)
    if magic != layout.MAGIC_V1 and magic != layout.MAGIC_V2:
        return False
    width = topic_size_width(magic)
    record.sys_flag = get_int32(start + layout.SYS_FLAG_AT)
    record.born_host = Span(start + layout.BORN_HOST_AT, layout.HOST_SIZE_V4)
    if record.sys_flag & layout.BORN_HOST_V6:
        record.born_host.size = layout.HOST_SIZE_V6
        shifted += layout.LONG_HOST_SHIFT
    record.store_host = Span(shifted + layout.STORE_HOST_AT, layout.HOST_SIZE_V4)
    if record.sys_flag & layout.STORE_HOST_V6:
        record.store_host.size = layout.HOST_SIZE_V6
        shifted += layout.LONG_HOST_SHIFT
    left = record.size - (shifted - start) - layout.BODY_AT - width - layout.PROPERTIES_SIZE_WIDTH
    if left < 0:
        return False
    record.body = Span(shifted + layout.BODY_AT, get_int32(shifted + layout.BODY_SIZE_AT))
    if record.body.size < 0 or record.body.size > left:
        return False
    left -= record.body.size
    record.topic.start = record.body.start + record.body.size + width
    # All sizes are signed.
    record.topic.size = <int8_t>(record.topic.start - 1)[0]
    if width == 2:
        record.topic.size = get_int16(record.topic.start - width)
    if record.topic.size < 0 or record.topic.size > left:
        return False
    left -= record.topic.size
    record.properties.start = record.topic.start + record.topic.size + layout.PROPERTIES_SIZE_WIDTH
    record.properties.size = left
    return get_int16(record.properties.start - layout.PROPERTIES_SIZE_WIDTH) == left


cdef inline int64_t store_timestamp_of(const RecordParts* record) noexcept nogil:
    return get_int64(record.store_host.start - layout.STORE_HOST_AT + layout.STORE_TIMESTAMP_AT)


cdef inline bint has_common_layout(const uint8_t* start) noexcept nogil:
    """There are as many bytes as the smallest record has."""
    return (
        get_int32(start + layout.MAGIC_AT) == layout.MAGIC_V1
        and not get_int32(start + layout.SYS_FLAG_AT) & layout.ADDRESS_BITS
    )


cdef inline bint has_right_body(const RecordParts* record) noexcept nogil:
    cdef uint32_t crc = get_uint32(record.start + layout.BODY_CRC_AT)
    return crc31(record.body.start, record.body.size) == crc


cdef inline const char* checksum_mark() noexcept nogil:
    return b"__CRC32#\x01"


cdef inline bint ends_in_checksum(const RecordParts* record) noexcept nogil:
    cdef const uint8_t* mark = record.start + record.size - layout.CHECKSUM_SIZE
    return (
        record.properties.size >= layout.CHECKSUM_SIZE
        # In two steps, each of which compilers turn into a comparison instead of a call.
        and not memcmp(mark, checksum_mark(), sizeof(uint64_t))
        and mark[sizeof(uint64_t)] == <uint8_t>checksum_mark()[sizeof(uint64_t)]
        # Only a property of its own is a checksum.
        and (mark == record.properties.start or (mark - 1)[0] == layout.SEPARATOR)
    )


cdef inline bint has_right_checksum(const RecordParts* record) noexcept nogil:
    """Of a record that ends in one."""
    return record.start[record.size - 1] == layout.SEPARATOR and has_right_digits(record)


cdef inline bint has_right_digits(const RecordParts* record) noexcept nogil:
    """They are those of all bytes before the mark, or before what should be one."""
    cdef const uint8_t* end = record.start + record.size - 1
    cdef const uint8_t* digit = end
    cdef uint64_t checksum = 0
    # The least significant one comes first. Most records that have no checksum do not end in
    # digits: the rest of them is not read.
    while digit > end - layout.CHECKSUM_DIGITS:
        digit -= 1
        if not c"0" <= digit[0] <= c"9":
            return False
        checksum = checksum * 10 + digit[0] - c"0"
    return checksum == crc31(record.start, record.size - layout.CHECKSUM_SIZE)


cdef inline uint8_t* put_checksum(uint8_t* at, const uint8_t* start) noexcept nogil:
    """Write the checksum of a record that starts at `start` and has no other property to come."""
    cdef uint32_t checksum = crc31(start, at - start)
    cdef int index
    memcpy(at, checksum_mark(), layout.CHECKSUM_MARK_SIZE)
    at += layout.CHECKSUM_MARK_SIZE
    for index in range(layout.CHECKSUM_DIGITS):
        at[index] = <uint8_t>(c"0" + checksum % 10)
        checksum //= 10
    at[layout.CHECKSUM_DIGITS] = layout.SEPARATOR
    return at + layout.CHECKSUM_DIGITS + 1

"""The record that `record.py` draws, for compiled code: its numbers, and how one is read.

    locate_record        where its parts lie, once its sizes are known to add up
    is_usual             magic V1 and short addresses, so that every place is a number below
    ends_in_checksum     whether it claims to have a checksum of its own
    has_right_checksum   whether it has, and the checksum is right
    has_right_digits     whether it ends in the digits of one, whatever comes before them
    has_right_body       whether the CRC of its body is right

All but the first two read what `locate_record` has found.
"""

from libc.string cimport memcmp

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
    uint64_t,
)

cdef enum:
    MAGIC_V1 = -626843481
    MAGIC_V2 = -626843477
    TOPIC_SIZE_MAX_V1 = 127
    TOPIC_SIZE_MAX_V2 = 32767
    PROPERTIES_SIZE_MAX = 32767
    BODY_SIZE_MAX = 1 << 30

    # Where the members lie; those from the store timestamp on, if the hosts are short.
    MAGIC_AT = 4
    BODY_CRC_AT = 8
    QUEUE_ID_AT = 12
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    PHYSICAL_OFFSET_AT = 28
    SYS_FLAG_AT = 36
    BORN_TIMESTAMP_AT = 40
    BORN_HOST_AT = 48
    STORE_TIMESTAMP_AT = 56
    STORE_HOST_AT = 64
    RECONSUME_TIMES_AT = 72
    PREPARED_OFFSET_AT = 76
    BODY_SIZE_AT = 84
    BODY_AT = 88
    # With a body, a topic and properties of no bytes.
    RECORD_SIZE_MIN = 91

    # Of the system flag.
    COMPRESSED = 0x1
    BORN_HOST_V6 = 0x10
    STORE_HOST_V6 = 0x20
    ADDRESS_BITS = 0x30
    HOST_SIZE_V4 = 8
    HOST_SIZE_V6 = 20

    # Between properties.
    SEPARATOR = 2
    # The last property: a mark, ten digits and a separator.
    CHECKSUM_MARK_SIZE = 9
    CHECKSUM_DIGITS = 10
    CHECKSUM_SIZE = 20


cdef struct RecordParts:
    const uint8_t* start
    Py_ssize_t size
    int32_t sys_flag
    Span born_host
    Span store_host
    Span body
    Span topic
    Span properties  # to the end of the record


cdef inline Py_ssize_t topic_size_size(int32_t magic) noexcept nogil:
    """How many bytes say how long the topic is; 0 if no record has this magic."""
    return 1 if magic == MAGIC_V1 else 2 if magic == MAGIC_V2 else 0


cdef inline Py_ssize_t fitting_size(const uint8_t* start, Py_ssize_t room) noexcept nogil:
    """How long the record claims to be that begins there; 0 if none is, or not so long."""
    cdef Py_ssize_t size
    if room < RECORD_SIZE_MIN:
        return 0
    size = get_int32(start)
    return size if RECORD_SIZE_MIN <= size <= room else 0


cdef inline bint locate_record(
    const uint8_t* start, Py_ssize_t room, RecordParts* record
) noexcept nogil:
    """Whether a record lies there, in no more than `room` bytes, whose parts add up to its size.

    If it does not, nothing can be said of `record`. Every size is compared with the bytes that
    are left before anything behind it is read; what is left then are the properties.
    """
    cdef Py_ssize_t left
    cdef Py_ssize_t size_size
    record.start = start
    record.size = fitting_size(start, room)
    if not record.size:
        return False
    size_size = topic_size_size(get_int32(start + MAGIC_AT))
    if not size_size:
        return False
    record.sys_flag = get_int32(start + SYS_FLAG_AT)
    record.born_host = Span(start + BORN_HOST_AT, HOST_SIZE_V4)
    if record.sys_flag & BORN_HOST_V6:
        record.born_host.size = HOST_SIZE_V6
    record.store_host.start = (
        record.born_host.start + record.born_host.size + (STORE_HOST_AT - STORE_TIMESTAMP_AT)
    )
    record.store_host.size = HOST_SIZE_V4
    if record.sys_flag & STORE_HOST_V6:
        record.store_host.size = HOST_SIZE_V6
    record.body.start = (
        record.store_host.start + record.store_host.size + (BODY_AT - RECONSUME_TIMES_AT)
    )
    left = record.size - (record.body.start - start) - size_size - 2
    if left < 0:
        return False
    record.body.size = get_int32(record.body.start - (BODY_AT - BODY_SIZE_AT))
    if record.body.size < 0 or record.body.size > left:
        return False
    left -= record.body.size
    record.topic.start = record.body.start + record.body.size + size_size
    # All sizes are signed.
    record.topic.size = (
        <signed char>record.topic.start[-1] if size_size == 1 else get_int16(record.topic.start - 2)
    )
    if record.topic.size < 0 or record.topic.size > left:
        return False
    left -= record.topic.size
    record.properties = Span(record.topic.start + record.topic.size + 2, left)
    return get_int16(record.properties.start - 2) == left


cdef inline int64_t store_timestamp(const RecordParts* record) noexcept nogil:
    return get_int64(record.store_host.start - (STORE_HOST_AT - STORE_TIMESTAMP_AT))


cdef inline bint is_usual(const uint8_t* start) noexcept nogil:
    """There are as many bytes as the smallest record has."""
    return (
        get_int32(start + MAGIC_AT) == MAGIC_V1
        and not get_int32(start + SYS_FLAG_AT) & ADDRESS_BITS
    )


cdef inline bint ends_in_checksum(const RecordParts* record) noexcept nogil:
    cdef const uint8_t* mark = record.start + record.size - CHECKSUM_SIZE
    return (
        record.properties.size >= CHECKSUM_SIZE
        and not memcmp(mark, b"__CRC32#\x01", CHECKSUM_MARK_SIZE)
        # Only a property of its own is a checksum.
        and (mark == record.properties.start or mark[-1] == SEPARATOR)
    )


cdef inline bint has_right_checksum(const RecordParts* record) noexcept nogil:
    return (
        ends_in_checksum(record)
        and record.start[record.size - 1] == SEPARATOR
        and has_right_digits(record)
    )


cdef inline bint has_right_digits(const RecordParts* record) noexcept nogil:
    """Those of the bytes before them and before what would be their name."""
    cdef const uint8_t* end = record.start + record.size - 1
    cdef const uint8_t* digit = end
    cdef uint64_t checksum = 0
    # The least significant one comes first. Most records that have no checksum do not end in
    # digits: nobody has to look at the rest of them.
    while digit > end - CHECKSUM_DIGITS:
        digit -= 1
        if not c"0" <= digit[0] <= c"9":
            return False
        checksum = checksum * 10 + digit[0] - c"0"
    return checksum == crc31(record.start, record.size - CHECKSUM_SIZE)


cdef inline bint has_right_body(const RecordParts* record) noexcept nogil:
    return crc31(record.body.start, record.body.size) == get_uint32(record.start + BODY_CRC_AT)

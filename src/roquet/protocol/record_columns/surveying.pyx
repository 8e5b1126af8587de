# cython: boundscheck=False, wraparound=False
"""What kind each of many records is, where its parts lie, and the numbers it begins with.

How a record is laid out is drawn in `record.py`. Records of the common kind are surveyed here;
all others are left to the scalar reader, which also finds the words for what is wrong with them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

from roquet.protocol.binary cimport (
    crc31,
    get_int16,
    get_int32,
    get_int64,
    get_uint32,
    int32_t,
    int64_t,
    uint8_t,
)
from roquet.protocol.messages.record_layout cimport (
    BODY_AT,
    BODY_CRC_AT,
    BODY_SIZE_AT,
    BORN_HOST_V6,
    COMPRESSED,
    HOST_SIZE_V4,
    HOST_SIZE_V6,
    MAGIC_AT,
    MAGIC_V1,
    RECORD_SIZE_MIN,
    STORE_HOST_V6,
    SYS_FLAG_AT,
    TOPIC_SIZE_MAX_V1,
)
from roquet.protocol.record_columns.utf8 cimport is_utf8

cdef enum:
    _MAGIC_V2 = -626843477
    _INNER_BATCH = 0x80
    _IRREGULAR_FLAGS = COMPRESSED | BORN_HOST_V6 | STORE_HOST_V6 | _INNER_BATCH
    _LONG_HOST = HOST_SIZE_V6 - HOST_SIZE_V4  # so much longer is a host of IPv6
    _NUMBERS_MAX = 16
    # What becomes of a record.
    _LEFT_OUT = 0
    _REGULAR = 1
    _IRREGULAR = 2

    # What is to be checked of a regular record besides its sizes.
    _BODY_CRC = 1
    _TOPIC_TEXT = 2
    _PROPERTY_TEXT = 4

REGULAR = _REGULAR
IRREGULAR = _IRREGULAR
CHECK_BODY_CRC = _BODY_CRC
CHECK_TOPIC_TEXT = _TOPIC_TEXT
CHECK_PROPERTY_TEXT = _PROPERTY_TEXT


cdef struct Parts:
    # Positions in the data. The properties end with the record.
    int32_t body_start
    int32_t body_end
    int32_t topic_start
    int32_t topic_end
    int32_t properties_start
    int32_t end


cdef struct Span:
    int32_t start
    int32_t end


def survey_records(
    const uint8_t[::1] data not None,
    const int64_t[::1] starts not None,
    frozenset topics,
    int checks,
    list numbers not None,
    int32_t[:, :, ::1] spans not None,
):
    """The kinds of the records at `starts`, one byte each.

    Records of other `topics` are left out. `numbers` are positions in the fixed part, each with an
    array of int32 or int64 that is filled with what regular records have there. The three arrays of
    `spans` are filled with where their bodies, topics and properties lie.
    """
    cdef Py_ssize_t count = starts.shape[0]
    cdef bytes kinds = PyBytes_FromStringAndSize(NULL, count)
    cdef uint8_t* kind_at = <uint8_t*>PyBytes_AS_STRING(kinds)
    cdef Targets targets = Targets(numbers, count)
    cdef TopicFilter wanted = None if topics is None else TopicFilter(topics)
    cdef const uint8_t* record
    cdef Py_ssize_t index, row = 0
    cdef int64_t start
    cdef Parts parts
    if data.shape[0] > 0x7FFFFFFF:
        raise OverflowError(f"{data.shape[0]} bytes are too many for 32-bit positions")
    if spans.shape[0] != 3 or spans.shape[1] < count or spans.shape[2] != 2:
        raise IndexError("the spans have no room for all records")
    cdef Span* bodies = <Span*>&spans[0, 0, 0]
    cdef Span* topic_names = <Span*>&spans[1, 0, 0]
    cdef Span* properties = <Span*>&spans[2, 0, 0]
    for index in range(count):
        start = starts[index]
        if start < 0 or start > data.shape[0] - RECORD_SIZE_MIN:
            raise IndexError(f"no record begins at byte {start}")
        record = &data[start]
        if not _find_parts(record, data.shape[0] - start, &parts):
            kind_at[index] = _IRREGULAR
            continue
        if wanted is not None and not wanted.has(
            record + parts.topic_start, parts.topic_end - parts.topic_start
        ):
            kind_at[index] = _LEFT_OUT
            continue
        if not _is_regular(record, &parts, checks):
            kind_at[index] = _IRREGULAR
            continue
        kind_at[index] = _REGULAR
        bodies[row] = Span(<int32_t>start + parts.body_start, <int32_t>start + parts.body_end)
        topic_names[row] = Span(<int32_t>start + parts.topic_start, <int32_t>start + parts.topic_end)
        properties[row] = Span(<int32_t>start + parts.properties_start, <int32_t>start + parts.end)
        targets.put(record, row)
        row += 1
    return kinds


cdef struct Target:
    Py_ssize_t at
    int32_t* narrow
    int64_t* wide


cdef class Targets:
    """Where the numbers of all records go."""

    cdef list numbers
    cdef Target items[_NUMBERS_MAX]
    cdef Py_ssize_t count

    def __init__(self, list numbers, Py_ssize_t row_count):
        if len(numbers) > _NUMBERS_MAX:
            raise IndexError(f"a record has no {len(numbers)} numbers")
        # They must live as long as the pointers.
        self.numbers = numbers
        self.count = 0
        for at, values in numbers:
            self.items[self.count] = _target(at, values, row_count)
            self.count += 1

    cdef inline void put(self, const uint8_t* record, Py_ssize_t row) noexcept:
        cdef Py_ssize_t index
        cdef Target* target
        for index in range(self.count):
            target = &self.items[index]
            if target.wide is NULL:
                target.narrow[row] = get_int32(record + target.at)
            else:
                target.wide[row] = get_int64(record + target.at)


cdef Target _target(Py_ssize_t at, values, Py_ssize_t row_count) except *:
    cdef int32_t[::1] narrow
    cdef int64_t[::1] wide
    cdef Target target = Target(at, NULL, NULL)
    if at < 0 or at + values.itemsize > BODY_AT:
        raise IndexError(f"no number lies at byte {at} of a record")
    if len(values) < row_count:
        raise IndexError(f"there is no room for {row_count} numbers")
    if values.itemsize == sizeof(int32_t):
        narrow = values
        target.narrow = &narrow[0]
    else:
        wide = values
        target.wide = &wide[0]
    return target


cdef class TopicFilter:
    """Which topics are wanted. Neighbours tend to be of one topic, so the last answer is kept."""

    cdef frozenset topics
    cdef bytes last
    cdef bint has_last

    def __init__(self, frozenset topics):
        self.topics = topics
        self.last = b""
        self.has_last = b"" in topics

    cdef inline bint has(self, const uint8_t* at, Py_ssize_t size) except -1:
        if size != PyBytes_GET_SIZE(self.last) or memcmp(at, PyBytes_AS_STRING(self.last), size):
            self.last = PyBytes_FromStringAndSize(<const char*>at, size)
            self.has_last = self.last in self.topics
        return self.has_last


cdef inline bint _find_parts(const uint8_t* record, Py_ssize_t room, Parts* parts) noexcept:
    """Where the parts of a record lie, whatever its hosts and magic. False if they do not add up."""
    cdef int32_t size = get_int32(record)
    cdef int32_t magic = get_int32(record + MAGIC_AT)
    cdef int32_t sys_flag = get_int32(record + SYS_FLAG_AT)
    cdef int32_t body_at = BODY_AT
    cdef int32_t body_size, topic_size, size_of_topic_size
    if sys_flag & BORN_HOST_V6:
        body_at += _LONG_HOST
    if sys_flag & STORE_HOST_V6:
        body_at += _LONG_HOST
    if magic == MAGIC_V1:
        size_of_topic_size = 1
    elif magic == _MAGIC_V2:
        size_of_topic_size = 2
    else:
        return False
    # Here and below the sizes that follow have to fit, too.
    if size > room or size < body_at + size_of_topic_size + 2:
        return False
    body_size = get_int32(record + body_at - 4)
    if body_size < 0 or body_size > size - body_at - size_of_topic_size - 2:
        return False
    parts.body_start = body_at
    parts.body_end = body_at + body_size
    if size_of_topic_size == 1:
        topic_size = record[parts.body_end]
        if topic_size > TOPIC_SIZE_MAX_V1:
            return False
    else:
        topic_size = get_int16(record + parts.body_end)
    parts.topic_start = parts.body_end + size_of_topic_size
    if topic_size < 0 or topic_size > size - parts.topic_start - 2:
        return False
    parts.topic_end = parts.topic_start + topic_size
    parts.properties_start = parts.topic_end + 2
    parts.end = size
    return get_int16(record + parts.topic_end) == size - parts.properties_start


cdef inline bint _is_regular(const uint8_t* record, const Parts* parts, int checks) noexcept:
    if get_int32(record + MAGIC_AT) != MAGIC_V1:
        return False
    if get_int32(record + SYS_FLAG_AT) & _IRREGULAR_FLAGS:
        return False
    if checks & _TOPIC_TEXT and not is_utf8(
        record + parts.topic_start, parts.topic_end - parts.topic_start
    ):
        return False
    if checks & _PROPERTY_TEXT and not is_utf8(
        record + parts.properties_start, parts.end - parts.properties_start
    ):
        return False
    return not checks & _BODY_CRC or (
        crc31(record + parts.body_start, parts.body_end - parts.body_start)
        == get_uint32(record + BODY_CRC_AT)
    )

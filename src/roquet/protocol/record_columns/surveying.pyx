# cython: boundscheck=False, wraparound=False
"""What kind each of many records is, where its parts lie, and the numbers it starts with.

How a record is laid out is drawn in `record.py`. Records of the common layout are surveyed here;
all others are left to the scalar reader, which also reports what is wrong with them.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcmp

from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    get_int32,
    get_int64,
    int32_t,
    int64_t,
    span_of,
    uint8_t,
)
from roquet.protocol.messages.record_layout cimport BODY_AT, COMPRESSED, INNER_BATCH, RECORD_SIZE_MIN
from roquet.protocol.messages.record_parts cimport (
    RecordParts,
    has_common_layout,
    has_right_body,
    locate_record,
)
from roquet.protocol.record_columns.utf8 cimport is_utf8

cdef enum:
    # In the system flag: what a body has to be unpacked for.
    _PACKED = COMPRESSED | INNER_BATCH
    _NUMBERS_MAX = 16
    # What becomes of a record.
    _LEFT_OUT = 0
    _COMMON = 1
    _UNCOMMON = 2

    # What is to be checked of a common record besides its sizes.
    _BODY_CRC = 1
    _TOPIC_TEXT = 2
    _PROPERTY_TEXT = 4

COMMON = _COMMON
UNCOMMON = _UNCOMMON
CHECK_BODY_CRC = _BODY_CRC
CHECK_TOPIC_TEXT = _TOPIC_TEXT
CHECK_PROPERTY_TEXT = _PROPERTY_TEXT


cdef struct Place:
    # Positions in the data.
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
    array of int32 or int64 that is filled with what common records have there. The three arrays of
    `spans` are filled with where their bodies, topics and properties lie.
    """
    cdef Py_ssize_t count = starts.shape[0]
    cdef bytes kinds = PyBytes_FromStringAndSize(NULL, count)
    cdef uint8_t* kind_at = <uint8_t*>PyBytes_AS_STRING(kinds)
    cdef Targets targets = Targets(numbers, count)
    cdef TopicFilter wanted = None if topics is None else TopicFilter(topics)
    cdef RecordParts record
    cdef Py_ssize_t index, row = 0
    cdef int64_t start
    if data.shape[0] > 0x7FFFFFFF:
        raise OverflowError(f"{data.shape[0]} bytes are too many for 32-bit positions")
    if spans.shape[0] != 3 or spans.shape[1] < count or spans.shape[2] != 2:
        raise IndexError("the spans have no room for all records")
    cdef Place* bodies = <Place*>&spans[0, 0, 0]
    cdef Place* topic_names = <Place*>&spans[1, 0, 0]
    cdef Place* properties = <Place*>&spans[2, 0, 0]
    for index in range(count):
        start = starts[index]
        if start < 0 or start > data.shape[0] - RECORD_SIZE_MIN:
            raise IndexError(f"no record starts at byte {start}")
        if not locate_record(&data[start], data.shape[0] - start, &record):
            kind_at[index] = _UNCOMMON
        elif wanted is not None and not wanted.has(record.topic):
            kind_at[index] = _LEFT_OUT
        elif not _is_common(&record, checks):
            kind_at[index] = _UNCOMMON
        else:
            kind_at[index] = _COMMON
            bodies[row] = _place_of(record.body, &data[0])
            topic_names[row] = _place_of(record.topic, &data[0])
            properties[row] = _place_of(record.properties, &data[0])
            targets.put(record.start, row)
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

    cdef inline bint has(self, Span topic) except -1:
        cdef Span last = span_of(self.last)
        if topic.size != last.size or memcmp(topic.start, last.start, last.size):
            self.last = bytes_of(topic)
            self.has_last = self.last in self.topics
        return self.has_last


cdef inline Place _place_of(Span part, const uint8_t* data) noexcept:
    cdef int32_t start = <int32_t>(part.start - data)
    return Place(start, start + <int32_t>part.size)


cdef inline bint _is_common(const RecordParts* record, int checks) noexcept:
    return (
        has_common_layout(record.start)
        and not record.sys_flag & _PACKED
        and not (checks & _TOPIC_TEXT and not is_utf8(record.topic))
        and not (checks & _PROPERTY_TEXT and not is_utf8(record.properties))
        and not (checks & _BODY_CRC and not has_right_body(record))
    )

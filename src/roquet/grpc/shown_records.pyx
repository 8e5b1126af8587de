# cython: boundscheck=False, wraparound=False
"""Records of the log as receivers get them: from one form of bytes to the other, in one pass.

What a message looks like is said in `message_form.py`. Records that ask for more than to be copied
are left to it: compressed or damaged ones, transactions, messages that have waited or are dead,
texts that are no UTF-8, addresses of IPv6, properties that are there twice.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.buffer cimport PyBUF_READ
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.string cimport memchr, memcmp, memset, strlen

from roquet.grpc.wire_format cimport (
    FIELD_HEAD_SIZE_MAX,
    NUMBER_SIZE_MAX,
    put_head,
    put_number,
    put_span,
    put_text,
)
from roquet.protocol.binary cimport (
    Span,
    bytes_of,
    get_int32,
    get_int64,
    int64_t,
    put_decimal,
    put_int32,
    span_of,
    uint8_t,
    uint64_t,
)
from roquet.protocol.messages cimport record_layout as layout
from roquet.protocol.messages.property_text cimport next_property, starts_with
from roquet.protocol.messages.record_parts cimport (
    RecordParts,
    has_common_layout,
    has_right_body,
    locate_record,
    store_timestamp_of,
)

from hashlib import md5

from roquet.grpc.codes import DigestType, Encoding, MessageType
from roquet.grpc.message_form import SYSTEM_NAMES

cdef enum:
    _PROPERTY_COUNT_MAX = 64
    # Of an address, of a number, of a digest.
    _TEXT_SIZE_MAX = 32
    _DIGEST_SIZE = 32
    _IP_SIZE = 4
    # Fields of a message that have a size of their own, and those that are numbers.
    _TEXT_COUNT_MAX = 16
    _NUMBER_COUNT_MAX = 12
    _HEAD_SIZE = 5  # of a message in DATA

cdef int _MD5 = DigestType.MD5
cdef int _IDENTITY = Encoding.IDENTITY
cdef int _NORMAL = MessageType.NORMAL
cdef int _FIFO = MessageType.FIFO
cdef frozenset _SYSTEM_NAMES = frozenset([name.encode() for name in SYSTEM_NAMES])


cdef struct Properties:
    # NULL where there is none.
    Span tags, keys, message_id, born_host, group, trace_context
    # Those of users, each with a name and a value.
    Span names[_PROPERTY_COUNT_MAX]
    Span values[_PROPERTY_COUNT_MAX]
    Py_ssize_t count


def shown_records(
    list records not None,
    times not None,
    bytes topic not None,
    bytes receipt not None,
    tags,
    int64_t attempts_max,
):
    """Each of them as it goes into DATA, and the size of all their bodies.

    None stands for one that is left: those that are not wanted are, and those that were delivered
    `attempts_max` times. `times` says how often each was at least, `topic` is the Resource that was
    asked for, `receipt` what comes before the offset in each receipt, `tags` are those that are
    wanted, None for all.
    """
    cdef RecordParts parts
    cdef bytes record
    cdef int64_t delivered
    cdef Py_ssize_t body_size = 0
    cdef list shown = []
    for record in records:
        one = None
        if (
            locate_record(
                <const uint8_t*>PyBytes_AS_STRING(record), PyBytes_GET_SIZE(record), &parts
            )
            and has_common_layout(parts.start)
        ):
            delivered = get_int32(parts.start + layout.RECONSUME_TIMES_AT)
            if times:
                delivered = max(delivered, <int64_t>times[len(shown)])
            if 0 <= delivered < attempts_max:
                one = _shown(&parts, delivered + 1, span_of(topic), span_of(receipt), tags)
        if one is not None:
            body_size += parts.body.size
        shown.append(one)
    return shown, body_size


cdef bytes _shown(
    const RecordParts* record, int64_t attempt, Span topic, Span receipt, tags
):
    cdef Properties properties
    cdef uint8_t* room
    cdef uint8_t* end
    cdef uint8_t* at
    cdef Py_ssize_t size
    if (
        record.sys_flag & layout.COMPRESSED
        or get_int64(record.start + layout.BORN_TIMESTAMP_AT) < 0
        or get_int64(record.start + layout.STORE_TIMESTAMP_AT) < 0
        or get_int32(record.start + layout.QUEUE_ID_AT) < 0
        or get_int64(record.start + layout.QUEUE_OFFSET_AT) < 0
        or not has_right_body(record)
        or not _read_properties(record.properties, &properties)
        or not properties.message_id.size
        or (tags is not None and bytes_of(properties.tags) not in tags)
    ):
        return None
    # Keys of one letter take the most: three bytes, instead of two with the space between them.
    size = (
        2 * record.size
        + topic.size
        + receipt.size
        + (3 * properties.count + _TEXT_COUNT_MAX) * FIELD_HEAD_SIZE_MAX
        + _NUMBER_COUNT_MAX * NUMBER_SIZE_MAX
        + 4 * _TEXT_SIZE_MAX
        + _HEAD_SIZE
    )
    room = <uint8_t*>PyMem_Malloc(<size_t>size)
    if room is NULL:
        raise MemoryError
    try:
        end = room + size
        at = end
        if record.body.size:
            at = put_text(at, 4, record.body)
        at = _put_system(at, record, &properties, attempt, receipt)
        at = _put_user_properties(at, &properties)
        at = put_text(at, 1, topic)
        at = put_head(at, 2, end)  # Of the answer, with the message in it.
        size = end - at
        at -= _HEAD_SIZE
        at[0] = 0
        put_int32(at + 1, size)
        return PyBytes_FromStringAndSize(<const char*>at, end - at)
    finally:
        PyMem_Free(room)


cdef uint8_t* _put_system(
    uint8_t* end,
    const RecordParts* record,
    const Properties* properties,
    int64_t attempt,
    Span receipt,
) except NULL:
    """The system properties, from the last one to the first."""
    cdef uint8_t[_TEXT_SIZE_MAX] text
    cdef const uint8_t* start = record.start
    cdef int64_t queue_offset = get_int64(start + layout.QUEUE_OFFSET_AT)
    cdef int64_t queue_id = get_int32(start + layout.QUEUE_ID_AT)
    cdef int kind = _NORMAL
    cdef uint8_t* before
    cdef uint8_t* at = end
    if properties.trace_context.size:
        at = put_text(at, 18, properties.trace_context)
    if properties.group.size:
        at = put_text(at, 17, properties.group)
        kind = _FIFO
    at = put_number(at, 16, <uint64_t>attempt)
    at = put_number(at, 14, <uint64_t>queue_offset)
    if queue_id:
        at = put_number(at, 13, <uint64_t>queue_id)
    before = at
    at = put_span(at, _between(text, put_decimal(text, queue_offset)))
    at = put_head(put_span(at, receipt), 12, before)
    at = put_text(at, 10, _between(text, _put_address(text, record.store_host.start)))
    at = _put_time(at, 9, store_timestamp_of(record))
    if properties.born_host.size:
        at = put_text(at, 8, properties.born_host)
    else:
        at = put_text(at, 8, _between(text, _put_ip(text, record.born_host.start)))
    at = _put_time(at, 7, get_int64(start + layout.BORN_TIMESTAMP_AT))
    at = put_number(at, 6, <uint64_t>kind)
    at = put_number(at, 5, _IDENTITY)
    before = at
    _put_digest(text, record.body)
    at = put_text(at, 2, _between(text, text + _DIGEST_SIZE))
    at = put_head(put_number(at, 1, _MD5), 4, before)
    at = put_text(at, 3, properties.message_id)
    at = _put_keys(at, properties.keys)
    if properties.tags.size:
        at = put_text(at, 1, properties.tags)
    return put_head(at, 3, end)


cdef inline Span _between(const uint8_t* start, const uint8_t* end) noexcept:
    return Span(start, end - start)


cdef uint8_t* _put_user_properties(uint8_t* end, const Properties* properties) noexcept:
    cdef uint8_t* at = end
    cdef uint8_t* before
    cdef Py_ssize_t index
    for index in range(properties.count - 1, -1, -1):
        before = at
        at = put_text(at, 2, properties.values[index])
        at = put_text(at, 1, properties.names[index])
        at = put_head(at, 2, before)
    return at


cdef uint8_t* _put_keys(uint8_t* end, Span keys) noexcept:
    """Each of those with spaces between them."""
    cdef uint8_t* at = end
    cdef Py_ssize_t start
    cdef Py_ssize_t stop = keys.size
    while stop > 0:
        start = stop
        while start > 0 and keys.start[start - 1] != c" ":
            start -= 1
        if start < stop:
            at = put_text(at, 2, Span(keys.start + start, stop - start))
        stop = start - 1
    return at


cdef uint8_t* _put_time(uint8_t* end, int field, int64_t time_ms) noexcept:
    cdef uint8_t* at = end
    if time_ms % 1000:
        at = put_number(at, 2, <uint64_t>(time_ms % 1000 * 1_000_000))
    if time_ms >= 1000:
        at = put_number(at, 1, <uint64_t>(time_ms // 1000))
    return put_head(at, field, end)


cdef uint8_t* _put_ip(uint8_t* at, const uint8_t* host) noexcept:
    cdef int index
    for index in range(4):
        if index:
            at[0] = c"."
            at += 1
        at = put_decimal(at, host[index])
    return at


cdef uint8_t* _put_address(uint8_t* at, const uint8_t* host) noexcept:
    at = _put_ip(at, host)
    at[0] = c":"
    return put_decimal(at + 1, get_int32(host + _IP_SIZE))


cdef int _put_digest(uint8_t* at, Span body) except -1:
    """In digits that are large."""
    cdef bytes digest = md5(
        PyMemoryView_FromMemory(<char*>body.start, body.size, PyBUF_READ), usedforsecurity=False
    ).digest()
    cdef int index
    cdef uint8_t byte
    for index in range(_DIGEST_SIZE // 2):
        byte = <uint8_t>PyBytes_AS_STRING(digest)[index]
        at[2 * index] = <uint8_t>b"0123456789ABCDEF"[byte >> 4]
        at[2 * index + 1] = <uint8_t>b"0123456789ABCDEF"[byte & 15]
    return 0


cdef bint _read_properties(Span rest, Properties* found) except -1:
    """Whether they leave nothing to decide."""
    cdef Span each, name, value
    cdef const uint8_t* equals
    cdef Span[_PROPERTY_COUNT_MAX] seen
    cdef Py_ssize_t count = 0
    memset(found, 0, sizeof(Properties))
    if not _is_text(rest):
        return False
    while next_property(&rest, &each):
        equals = <const uint8_t*>memchr(each.start, 1, <size_t>each.size)
        if equals is NULL:
            continue
        name = Span(each.start, equals - each.start)
        value = Span(equals + 1, each.size - name.size - 1)
        if not name.size or not value.size:
            continue
        if count == _PROPERTY_COUNT_MAX or _is_seen(name, seen, count) or _says_more(name):
            return False
        seen[count] = name
        count += 1
        if _is_same(name, b"TAGS"):
            found.tags = value
        elif _is_same(name, b"KEYS"):
            found.keys = value
        elif _is_same(name, b"UNIQ_KEY"):
            found.message_id = value
        elif _is_same(name, b"__BORNHOST"):
            found.born_host = value
        elif _is_same(name, b"__SHARDINGKEY"):
            found.group = value
        elif _is_same(name, b"TRACE_CONTEXT"):
            found.trace_context = value
        elif bytes_of(name) not in _SYSTEM_NAMES:
            found.names[found.count] = name
            found.values[found.count] = value
            found.count += 1
    return True


cdef inline bint _is_same(Span name, const char* wanted) noexcept:
    return name.size == <Py_ssize_t>strlen(wanted) and not memcmp(
        name.start, wanted, <size_t>name.size
    )


cdef inline bint _is_seen(Span name, const Span* seen, Py_ssize_t count) noexcept:
    cdef Py_ssize_t index
    for index in range(count):
        if seen[index].size == name.size and not memcmp(
            seen[index].start, name.start, <size_t>name.size
        ):
            return True
    return False


cdef inline bint _says_more(Span name) noexcept:
    """Whether the message has waited, is one of a transaction, or is a dead letter."""
    return (
        starts_with(name, b"TIMER_")
        or starts_with(name, b"DELAY")
        or starts_with(name, b"TRAN_MSG")
        or starts_with(name, b"DLQ_ORIGIN_")
    )


cdef bint _is_text(Span text) except -1:
    """UTF-8: others are shown with other characters."""
    cdef Py_ssize_t index
    for index in range(text.size):
        if text.start[index] > 127:
            try:
                text.start[: text.size].decode("utf-8")
            except UnicodeDecodeError:
                return False
            return True
    return True

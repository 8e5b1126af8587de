# cython: boundscheck=False, wraparound=False
"""The fields of a fast pull, which `PullMessageHeader` declares under the same names.

Fields that it does not declare are passed over, as there; those that it reads and that are unused here
must be what it wants them to be.
"""

from roquet.broker.fast_path.header_scan cimport (
    Field,
    ScannedHeader,
    is_text,
    read_bool,
    read_int32,
    read_number,
)
from roquet.protocol.binary cimport Span, int64_t, uint32_t

cdef enum:
    # Fields, as bits.
    _GROUP = 1 << 0
    _TOPIC = 1 << 1
    _QUEUE_ID = 1 << 2
    _QUEUE_OFFSET = 1 << 3
    _COUNT_MAX = 1 << 4
    _SYS_FLAG = 1 << 5
    _COMMIT_OFFSET = 1 << 6
    _SUSPEND_TIMEOUT = 1 << 7
    _SUB_VERSION = 1 << 8
    _NEEDED = (1 << 9) - 1
    _SUBSCRIPTION = 1 << 9
    _EXPRESSION_TYPE = 1 << 10
    _SIZE_MAX = 1 << 11
    _REQUEST_SOURCE = 1 << 12
    _TRUTHS = 1 << 13
    _UNKNOWN = 1 << 14


cdef bint read_pulled(const ScannedHeader* header, Pulled* pulled) noexcept nogil:
    """Whether it is that of a fast pull."""
    cdef uint32_t seen = 0
    cdef uint32_t bit
    cdef Py_ssize_t index
    pulled.subscription = Span(NULL, 0)
    pulled.expression_type = Span(NULL, 0)
    pulled.size_max = 0
    for index in range(header.count):
        bit = _bit_of(header.fields[index].name)
        if bit != _UNKNOWN:
            if seen & bit or not _read_field(bit, &header.fields[index], pulled):
                return False
            seen |= bit
    return seen & _NEEDED == _NEEDED


cdef uint32_t _bit_of(Span name) noexcept nogil:
    if name.size == 5 and is_text(name, b"topic"):
        return _TOPIC
    if name.size == 7:
        if is_text(name, b"queueId"):
            return _QUEUE_ID
        return _SYS_FLAG if is_text(name, b"sysFlag") else _UNKNOWN
    if name.size == 10:
        if is_text(name, b"maxMsgNums"):
            return _COUNT_MAX
        return _SUB_VERSION if is_text(name, b"subVersion") else _UNKNOWN
    if name.size == 11:
        if is_text(name, b"queueOffset"):
            return _QUEUE_OFFSET
        return _SIZE_MAX if is_text(name, b"maxMsgBytes") else _UNKNOWN
    if name.size == 12:
        if is_text(name, b"commitOffset"):
            return _COMMIT_OFFSET
        return _SUBSCRIPTION if is_text(name, b"subscription") else _UNKNOWN
    if is_text(name, b"consumerGroup"):
        return _GROUP
    if is_text(name, b"expressionType"):
        return _EXPRESSION_TYPE
    if is_text(name, b"suspendTimeoutMillis"):
        return _SUSPEND_TIMEOUT
    if is_text(name, b"requestSource"):
        return _REQUEST_SOURCE
    if is_text(name, b"nsd") or is_text(name, b"oway") or is_text(name, b"lo"):
        return _TRUTHS
    return _UNKNOWN


cdef bint _read_field(uint32_t bit, const Field* field, Pulled* pulled) noexcept nogil:
    cdef int64_t number
    cdef bint truth
    if bit == _TRUTHS:
        return read_bool(field.text, &truth)
    if bit == _GROUP:
        pulled.group = field.text
        return not field.is_escaped
    if bit == _TOPIC:
        pulled.topic = field.text
        return not field.is_escaped
    if bit == _SUBSCRIPTION:
        pulled.subscription = field.text
        return not field.is_escaped
    if bit == _EXPRESSION_TYPE:
        pulled.expression_type = field.text
        return not field.is_escaped
    if bit == _QUEUE_OFFSET:
        return read_number(field.text, &pulled.queue_offset)
    if bit == _COMMIT_OFFSET:
        return read_number(field.text, &pulled.commit_offset)
    if bit == _SUB_VERSION:
        return read_number(field.text, &pulled.sub_version)
    if bit == _SUSPEND_TIMEOUT:
        return read_number(field.text, &pulled.suspend_timeout_ms)
    if bit == _QUEUE_ID:
        return read_int32(field.text, &pulled.queue_id)
    if bit == _COUNT_MAX:
        return read_int32(field.text, &pulled.count_max)
    if bit == _SYS_FLAG:
        return read_int32(field.text, &pulled.sys_flag)
    if bit == _SIZE_MAX:
        return read_int32(field.text, &pulled.size_max)
    return read_int32(field.text, &number)  # the source of the request

# cython: boundscheck=False, wraparound=False
"""The fields of a fast pop, which `PopMessageHeader` declares under the same names.

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
from roquet.protocol.binary cimport Span, uint32_t

cdef enum:
    # Fields, as bits.
    _GROUP = 1 << 0
    _TOPIC = 1 << 1
    _QUEUE_ID = 1 << 2
    _COUNT_MAX = 1 << 3
    _INVISIBLE_TIME = 1 << 4
    _POLL_TIME = 1 << 5
    _BORN_TIME = 1 << 6
    _INIT_MODE = 1 << 7
    _NEEDED = (1 << 8) - 1
    _EXPRESSION = 1 << 8
    _EXPRESSION_TYPE = 1 << 9
    _ORDER = 1 << 10
    _ATTEMPT_ID = 1 << 11
    _TRUTHS = 1 << 12
    _UNKNOWN = 1 << 13


cdef bint read_popped(const ScannedHeader* header, Popped* popped) noexcept nogil:
    """Whether it is that of a fast pop."""
    cdef uint32_t seen = 0
    cdef uint32_t bit
    cdef Py_ssize_t index
    popped.expression = Span(NULL, 0)
    popped.expression_type = Span(NULL, 0)
    popped.is_ordered = False
    for index in range(header.count):
        bit = _bit_of(header.fields[index].name)
        if bit != _UNKNOWN:
            if seen & bit or not _read_field(bit, &header.fields[index], popped):
                return False
            seen |= bit
    return seen & _NEEDED == _NEEDED


cdef uint32_t _bit_of(Span name) noexcept nogil:
    if name.size == 5:
        if is_text(name, b"topic"):
            return _TOPIC
        return _ORDER if is_text(name, b"order") else _UNKNOWN
    if name.size == 7:
        if is_text(name, b"queueId"):
            return _QUEUE_ID
        return _EXPRESSION_TYPE if is_text(name, b"expType") else _UNKNOWN
    if name.size == 8:
        if is_text(name, b"pollTime"):
            return _POLL_TIME
        if is_text(name, b"bornTime"):
            return _BORN_TIME
        return _INIT_MODE if is_text(name, b"initMode") else _UNKNOWN
    if is_text(name, b"consumerGroup"):
        return _GROUP
    if is_text(name, b"maxMsgNums"):
        return _COUNT_MAX
    if is_text(name, b"invisibleTime"):
        return _INVISIBLE_TIME
    if is_text(name, b"exp"):
        return _EXPRESSION
    if is_text(name, b"attemptId"):
        return _ATTEMPT_ID
    if is_text(name, b"nsd") or is_text(name, b"oway") or is_text(name, b"lo"):
        return _TRUTHS
    return _UNKNOWN


cdef bint _read_field(uint32_t bit, const Field* field, Popped* popped) noexcept nogil:
    cdef bint truth
    if bit == _GROUP:
        popped.group = field.text
        return not field.is_escaped
    if bit == _TOPIC:
        popped.topic = field.text
        return not field.is_escaped
    if bit == _EXPRESSION:
        popped.expression = field.text
        return not field.is_escaped
    if bit == _EXPRESSION_TYPE:
        popped.expression_type = field.text
        return not field.is_escaped
    if bit == _ORDER:
        return read_bool(field.text, &popped.is_ordered)
    if bit == _TRUTHS:
        return read_bool(field.text, &truth)
    if bit == _INVISIBLE_TIME:
        return read_number(field.text, &popped.invisible_ms)
    if bit == _POLL_TIME:
        return read_number(field.text, &popped.poll_ms)
    if bit == _BORN_TIME:
        return read_number(field.text, &popped.born_ms)
    if bit == _QUEUE_ID:
        return read_int32(field.text, &popped.queue_id)
    if bit == _COUNT_MAX:
        return read_int32(field.text, &popped.count_max)
    if bit == _INIT_MODE:
        return read_int32(field.text, &popped.init_mode)
    return True  # the attempt, of ordered pops

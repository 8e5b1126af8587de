# cython: boundscheck=False, wraparound=False
"""The fields of a fast ack, which `AckMessageHeader` declares under the same names, and its receipt.

Fields that it does not declare are passed over, as there; a receipt is as `pop_receipt.py` draws it,
without zeros before its numbers.
"""

from roquet.broker.fast_path.header_scan cimport (
    Field,
    ScannedHeader,
    is_text,
    read_bool,
    read_int32,
    read_number,
)
from roquet.protocol.binary cimport Span, int64_t, uint8_t, uint32_t

cdef enum:
    # Fields, as bits.
    _GROUP = 1 << 0
    _TOPIC = 1 << 1
    _QUEUE_ID = 1 << 2
    _RECEIPT = 1 << 3
    _OFFSET = 1 << 4
    _NEEDED = (1 << 5) - 1
    _TRUTHS = 1 << 5
    _UNKNOWN = 1 << 6
    _ITEM_COUNT = 8  # of a receipt
    _KIND_INDEX = 4
    _BROKER_INDEX = 5


cdef bint read_acked(const ScannedHeader* header, Acked* acked) noexcept nogil:
    """Whether it is that of a fast ack."""
    cdef uint32_t seen = 0
    cdef uint32_t bit
    cdef Py_ssize_t index
    for index in range(header.count):
        bit = _bit_of(header.fields[index].name)
        if bit != _UNKNOWN:
            if seen & bit or not _read_field(bit, &header.fields[index], acked):
                return False
            seen |= bit
    return seen & _NEEDED == _NEEDED


cdef uint32_t _bit_of(Span name) noexcept nogil:
    if is_text(name, b"consumerGroup"):
        return _GROUP
    if is_text(name, b"topic"):
        return _TOPIC
    if is_text(name, b"queueId"):
        return _QUEUE_ID
    if is_text(name, b"extraInfo"):
        return _RECEIPT
    if is_text(name, b"offset"):
        return _OFFSET
    if is_text(name, b"nsd") or is_text(name, b"oway") or is_text(name, b"lo"):
        return _TRUTHS
    return _UNKNOWN


cdef bint _read_field(uint32_t bit, const Field* field, Acked* acked) noexcept nogil:
    cdef bint truth
    if bit == _GROUP:
        acked.group = field.text
        return not field.is_escaped
    if bit == _TOPIC:
        acked.topic = field.text
        return not field.is_escaped
    if bit == _RECEIPT:
        return not field.is_escaped and _read_receipt(field.text, acked)
    if bit == _QUEUE_ID:
        return read_int32(field.text, &acked.queue_id)
    if bit == _OFFSET:
        return read_number(field.text, &acked.offset)
    return read_bool(field.text, &truth)


cdef bint _read_receipt(Span text, Acked* acked) noexcept nogil:
    cdef const uint8_t* at = text.start
    cdef const uint8_t* end = at + text.size
    cdef const uint8_t* start
    cdef int64_t numbers[_ITEM_COUNT]
    cdef Py_ssize_t index
    for index in range(_ITEM_COUNT):
        if index:
            if at == end:
                return False
            at += 1  # the space before it
        start = at
        while at < end and at[0] != c" ":
            at += 1
        if index == _KIND_INDEX or index == _BROKER_INDEX:
            continue
        if not read_number(Span(start, at - start), &numbers[index]) or numbers[index] < 0:
            return False
    acked.start_offset = numbers[0]
    acked.pop_time_ms = numbers[1]
    acked.revive_queue_id = numbers[3]
    return at == end

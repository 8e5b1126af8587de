# cython: boundscheck=False, wraparound=False
"""The fields of a fast send, which `SendMessageHeaderV2` declares under the same letters.

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
from roquet.protocol.binary cimport int32_t, int64_t, uint32_t

cdef enum:
    _NEEDED = 0xFF  # a to h
    _TRANSACTION_MASK = 0xC


cdef bint read_sent(const ScannedHeader* header, Sent* sent) noexcept nogil:
    """Whether it is that of a fast send."""
    cdef uint32_t seen = 0
    cdef uint32_t bit
    cdef Py_ssize_t index
    cdef const Field* field
    sent.is_batch = False
    sent.properties.size = 0
    sent.properties.start = NULL
    sent.origin.reconsume_times = 0
    for index in range(header.count):
        field = &header.fields[index]
        if field.name.size != 1:
            if not _is_idle(field):
                return False
        elif c"a" <= field.name.start[0] <= c"n":
            bit = <uint32_t>1 << (field.name.start[0] - c"a")
            if seen & bit or not _read_field(field, sent):
                return False
            seen |= bit
    return (
        seen & _NEEDED == _NEEDED
        and sent.origin.queue_id >= 0
        and not sent.origin.sys_flag & _TRANSACTION_MASK
    )


cdef inline bint _read_field(const Field* field, Sent* sent) noexcept nogil:
    cdef uint32_t name = field.name.start[0]
    cdef int64_t number = 0
    cdef bint truth = False
    if name == c"a" or name == c"c" or name == c"n":  # producer group, default topic, broker
        return True
    if name == c"b":
        sent.topic = field.text
        return not field.is_escaped
    if name == c"i":
        sent.properties = field.text
        return True
    if name == c"g":
        return read_number(field.text, &sent.origin.born_timestamp)
    if name == c"k" or name == c"m":
        if not read_bool(field.text, &truth):
            return False
        if name == c"m":
            sent.is_batch = truth
        return True
    if not read_int32(field.text, &number):
        return False
    if name == c"e":
        sent.origin.queue_id = <int32_t>number
    elif name == c"f":
        sent.origin.sys_flag = <int32_t>number
    elif name == c"h":
        sent.flag = number
    elif name == c"j":
        sent.origin.reconsume_times = <int32_t>number
    return True  # And d and l, for the creation of topics, and what counts for retries.


cdef inline bint _is_idle(const Field* field) noexcept nogil:
    """Whether the field has a readable value that makes no difference here."""
    cdef bint truth
    if is_text(field.name, b"nsd") or is_text(field.name, b"oway") or is_text(field.name, b"lo"):
        return read_bool(field.text, &truth)
    return True

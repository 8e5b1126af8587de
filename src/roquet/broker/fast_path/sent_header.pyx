# cython: boundscheck=False, wraparound=False
"""The fields of a fast send, which `SendMessageHeaderV2` declares under the same letters, and
`SendMessageHeader` under names, for code 10.

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
from roquet.protocol.binary cimport Span, int32_t, int64_t, uint32_t

cdef enum:
    _NEEDED = 0xFF  # a to h
    _NEEDED_BACK = 7
    _WITH_NAMES = 10


cdef bint read_sent(const ScannedHeader* header, Sent* sent) noexcept nogil:
    """Whether it is that of a fast send."""
    cdef uint32_t seen = 0
    cdef uint32_t bit
    cdef uint32_t letter
    cdef Py_ssize_t index
    cdef const Field* field
    sent.is_batch = False
    sent.properties.size = 0
    sent.properties.start = NULL
    sent.origin.reconsume_times = 0
    for index in range(header.count):
        field = &header.fields[index]
        letter = _letter_of(field.name) if header.code == _WITH_NAMES else _only_letter(field.name)
        if letter:
            bit = <uint32_t>1 << (letter - c"a")
            if seen & bit or not _read_field(letter, field, sent):
                return False
            seen |= bit
        elif not _is_idle(field):
            return False
    return seen & _NEEDED == _NEEDED and sent.origin.queue_id >= 0


cdef inline uint32_t _only_letter(Span name) noexcept nogil:
    """0 if it is none of a send."""
    return name.start[0] if name.size == 1 and c"a" <= name.start[0] <= c"n" else 0


cdef uint32_t _letter_of(Span name) noexcept nogil:
    """The letter for a name; 0 if a send has no such field."""
    if is_text(name, b"producerGroup"):
        return c"a"
    if is_text(name, b"topic"):
        return c"b"
    if is_text(name, b"defaultTopic"):
        return c"c"
    if is_text(name, b"defaultTopicQueueNums"):
        return c"d"
    if is_text(name, b"queueId"):
        return c"e"
    if is_text(name, b"sysFlag"):
        return c"f"
    if is_text(name, b"bornTimestamp"):
        return c"g"
    if is_text(name, b"flag"):
        return c"h"
    if is_text(name, b"properties"):
        return c"i"
    if is_text(name, b"reconsumeTimes"):
        return c"j"
    if is_text(name, b"unitMode"):
        return c"k"
    if is_text(name, b"maxReconsumeTimes"):
        return c"l"
    return c"m" if is_text(name, b"batch") else 0


cdef inline bint _read_field(uint32_t name, const Field* field, Sent* sent) noexcept nogil:
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


cdef bint read_sent_back(const ScannedHeader* header, SentBack* back) noexcept nogil:
    """Whether it is that of a fast send-back, as `SendBackHeader` declares it."""
    cdef uint32_t seen = 0
    cdef uint32_t bit
    cdef Py_ssize_t index
    cdef bint truth
    cdef const Field* field
    back.has_count_max = False
    for index in range(header.count):
        field = &header.fields[index]
        bit = 0
        if is_text(field.name, b"offset"):
            bit = 1
            if not read_number(field.text, &back.physical_offset):
                return False
        elif is_text(field.name, b"group"):
            bit = 2
            back.group = field.text
            if field.is_escaped:
                return False
        elif is_text(field.name, b"delayLevel"):
            bit = 4
            if not read_int32(field.text, &back.delay_level):
                return False
        elif is_text(field.name, b"maxReconsumeTimes"):
            bit = 8
            back.has_count_max = True
            if not read_int32(field.text, &back.count_max):
                return False
        elif is_text(field.name, b"unitMode"):
            bit = 16
            if not read_bool(field.text, &truth):
                return False
        elif not _is_idle(field):
            return False
        if seen & bit:
            return False
        seen |= bit
    return seen & _NEEDED_BACK == _NEEDED_BACK


cdef inline bint _is_idle(const Field* field) noexcept nogil:
    """Whether the field has a readable value that makes no difference here."""
    cdef bint truth
    if is_text(field.name, b"nsd") or is_text(field.name, b"oway") or is_text(field.name, b"lo"):
        return read_bool(field.text, &truth)
    return True

# cython: boundscheck=False, wraparound=False
"""An AckMessageRequest with usual receipts, read where it lies.

Usual are receipts of messages of the topic itself, neither of a retry topic nor of an ordered pop,
whose numbers have up to 18 digits. `Receipt.read` has their form.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from roquet.grpc.wire_format cimport SIZED, Field, is_shown, next_field
from roquet.protocol.binary cimport Span, int64_t, span_of, uint8_t

from roquet.protocol.messages.pop_receipt import ORDERED_QUEUE_ID, TopicKind

cdef enum:
    _SPACE = 32
    _DIGIT_COUNT_MAX = 18

cdef int64_t _ORDERED = ORDERED_QUEUE_ID
cdef uint8_t _KIND = ord(TopicKind.TOPIC)


def usual_offsets(bytes request not None):
    """Of its messages; None if it is not usual."""
    cdef AckRequest found
    if not read_ack_request(span_of(request), &found):
        return None
    return [found.acks[index].offset for index in range(found.count)]


cdef bint read_ack_request(Span request, AckRequest* found) noexcept:
    """Whether it is usual; if not, `found` is undefined."""
    cdef Field field
    found.count = 0
    found.group = found.topic = Span(NULL, 0)
    while request.size:
        if not next_field(&request, &field) or field.kind != SIZED:
            return False
        if field.number == 1:
            if found.group.size or not _read_name(field.text, &found.group):
                return False
        elif field.number == 2:
            if found.topic.size or not _read_name(field.text, &found.topic):
                return False
        elif field.number != 3 or found.count == ACK_COUNT_MAX:
            return False
        elif not _read_entry(field.text, &found.acks[found.count]):
            return False
        else:
            found.count += 1
    return found.group.size > 0 and found.topic.size > 0 and found.count > 0


cdef bint _read_name(Span resource, Span* name) noexcept:
    """Of a Resource that has one, and nothing else."""
    cdef Field field
    if not next_field(&resource, &field) or field.number != 2 or field.kind != SIZED:
        return False
    name[0] = field.text
    return not resource.size and is_shown(field.text, _SPACE) and field.text.size > 0


cdef bint _read_entry(Span entry, AckedMessage* ack) noexcept:
    cdef Field field
    cdef uint32_t seen = 0
    memset(ack, 0, sizeof(AckedMessage))
    while entry.size:
        if (
            not next_field(&entry, &field)
            or field.kind != SIZED
            or field.number > 2
            or seen & 1 << field.number
            or not field.text.size
            or not is_shown(field.text, _SPACE)
        ):
            return False
        seen |= <uint32_t>1 << field.number
        if field.number == 1:
            ack.message_id = field.text
        else:
            ack.handle = field.text
    return ack.handle.size > 0 and _read_receipt(ack.handle, ack)


cdef bint _read_receipt(Span rest, AckedMessage* ack) noexcept:
    cdef int64_t journal_queue_id
    if (
        not _read_number(&rest, &ack.start_offset)
        or not _read_number(&rest, &ack.pop_time_ms)
        or not _read_number(&rest, &ack.invisible_ms)
        or not _read_number(&rest, &journal_queue_id)
        or journal_queue_id == _ORDERED
        or rest.size < 2
        or rest.start[0] != _KIND
        or rest.start[1] != _SPACE
    ):
        return False
    rest = Span(rest.start + 2, rest.size - 2)
    while rest.size and rest.start[0] != _SPACE:  # The name of the broker.
        rest = Span(rest.start + 1, rest.size - 1)
    if not rest.size:
        return False
    rest = Span(rest.start + 1, rest.size - 1)
    return (
        _read_number(&rest, &ack.queue_id)
        and _read_digits(&rest, &ack.offset)
        and not rest.size
        and ack.queue_id <= 0x7FFFFFFF
    )


cdef inline bint _read_number(Span* rest, int64_t* number) noexcept:
    """And the space after it."""
    if not _read_digits(rest, number) or not rest.size or rest.start[0] != _SPACE:
        return False
    rest[0] = Span(rest.start + 1, rest.size - 1)
    return True


cdef inline bint _read_digits(Span* rest, int64_t* number) noexcept:
    cdef Py_ssize_t count = 0
    number[0] = 0
    while rest.size and c"0" <= rest.start[0] <= c"9":
        if count == _DIGIT_COUNT_MAX:
            return False
        number[0] = 10 * number[0] + (rest.start[0] - c"0")
        rest[0] = Span(rest.start + 1, rest.size - 1)
        count += 1
    return count > 0

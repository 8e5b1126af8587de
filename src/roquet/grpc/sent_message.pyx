# cython: boundscheck=False, wraparound=False
"""A SendMessageRequest with one usual message, read where it lies.

Usual are normal messages, and those of a message group: with an id, in ASCII, with nothing twice
that is said once, and with no field that asks for more than to be stored. What a message may be is
said in `outgoing.py`; whatever it refuses is not usual, and neither is what it never sees: bytes
that protobuf cannot read.
"""

from libc.string cimport memcmp, memset

from roquet.grpc.wire_format cimport SIZED, VARINT, Field, is_shown, is_word, next_field
from roquet.protocol.binary cimport Span, bytes_of, int64_t, span_of, uint32_t, uint64_t

from roquet.grpc.codes import Encoding, MessageType
from roquet.grpc.message_form import SYSTEM_NAMES
from roquet.grpc.outgoing import BODY_SIZE_MAX, GROUP_SIZE_MAX, PROPERTIES_SIZE_MAX

cdef enum:
    _NUMBER_MAX = 0x7FFFFFFF
    _NANOS_MAX = 999_999_999
    _SPACE = 32
    # A name, a value and what stands between them; the longest name of ours has 20 characters.
    _OWN_SIZE = 24
    _DECIMAL_SIZE_MAX = 21

# Seconds of a time whose milliseconds fit well.
cdef uint64_t _SECONDS_MAX = <uint64_t>1 << 40
cdef Py_ssize_t _BODY_SIZE_MAX = BODY_SIZE_MAX
cdef Py_ssize_t _PROPERTIES_SIZE_MAX = PROPERTIES_SIZE_MAX
cdef Py_ssize_t _GROUP_SIZE_MAX = GROUP_SIZE_MAX
cdef uint64_t _TRANSACTION = MessageType.TRANSACTION
cdef uint64_t _GZIP = Encoding.GZIP
cdef frozenset _SYSTEM_NAMES = frozenset([name.encode() for name in SYSTEM_NAMES])


def is_usual_send(bytes request not None):
    """Whether it has one usual message, if its topic takes that."""
    cdef SentMessage sent
    return read_sent_message(span_of(request), &sent)


cdef bint read_sent_message(Span request, SentMessage* sent) except -1:
    """Whether it is usual; if not, `sent` is undefined."""
    cdef Field field
    cdef Span message
    cdef uint32_t seen = 0
    if not next_field(&request, &field) or field.number != 1 or field.kind != SIZED or request.size:
        return False
    message = field.text
    memset(sent, 0, sizeof(SentMessage))
    while message.size:
        if not next_field(&message, &field) or field.kind != SIZED or field.number > 4:
            return False
        if field.number == 2:
            if not _read_user_property(field.text, sent):
                return False
            continue
        if seen & 1 << field.number:
            return False
        seen |= <uint32_t>1 << field.number
        if field.number == 4:
            sent.body = field.text
        elif field.number == 3:
            if not _read_system(field.text, sent):
                return False
        elif not _read_name(field.text, &sent.topic):
            return False
    return (
        0 < sent.body.size <= _BODY_SIZE_MAX
        and sent.texts_size <= _PROPERTIES_SIZE_MAX
        and sent.topic.size > 0
        and is_word(sent.message_id)
        and not _has_name_twice(sent)
    )


cdef Py_ssize_t properties_size_max(const SentMessage* sent) noexcept:
    """What is stored of it as properties has no more bytes, without the topic among them."""
    return (
        sent.texts_size
        + sent.key_count  # Spaces between them.
        + 2 * sent.user_count
        + sent.message_id.size
        + sent.born_host.size
        + sent.group.size
        + sent.trace_context.size
        + 8 * _OWN_SIZE
        + _DECIMAL_SIZE_MAX
    )


cdef bint _read_name(Span resource, Span* name) noexcept:
    """Of a Resource; its namespace is ignored."""
    cdef Field field
    cdef uint32_t seen = 0
    while resource.size:
        if (
            not next_field(&resource, &field)
            or field.kind != SIZED
            or field.number > 2
            or seen & 1 << field.number
            or not is_shown(field.text, _SPACE)
        ):
            return False
        seen |= <uint32_t>1 << field.number
        if field.number == 2:
            name[0] = field.text
    return True


cdef bint _read_user_property(Span pair, SentMessage* sent) except -1:
    cdef Field field
    cdef Span[3] texts
    texts[1].size = texts[2].size = 0
    if sent.user_count == USER_COUNT_MAX:
        return False
    while pair.size:
        if (
            not next_field(&pair, &field)
            or field.kind != SIZED
            or field.number > 2
            or texts[field.number].size
            or not field.text.size
            or not is_shown(field.text, _SPACE)
        ):
            return False
        texts[field.number] = field.text
    if not texts[1].size or not texts[2].size or bytes_of(texts[1]) in _SYSTEM_NAMES:
        return False
    sent.names[sent.user_count] = texts[1]
    sent.values[sent.user_count] = texts[2]
    sent.user_count += 1
    sent.texts_size += texts[1].size + texts[2].size
    return True


cdef bint _read_system(Span system, SentMessage* sent) noexcept:
    cdef Field field
    cdef uint32_t seen = 0
    while system.size:
        if not next_field(&system, &field) or field.number > 18:
            return False
        if field.number == 2:
            if field.kind != SIZED or sent.key_count == KEY_COUNT_MAX or not is_word(field.text):
                return False
            sent.keys[sent.key_count] = field.text
            sent.key_count += 1
            sent.texts_size += field.text.size
            continue
        if seen & 1 << field.number:
            return False
        seen |= <uint32_t>1 << field.number
        if field.kind == VARINT:
            if not _read_number(&field, sent):
                return False
        elif not _read_text(&field, sent):
            return False
    return True


cdef bint _read_number(const Field* field, SentMessage* sent) noexcept:
    if field.value > _NUMBER_MAX:
        return False
    if field.number == 5:
        sent.is_zipped = field.value == _GZIP
        return True
    if field.number == 6:
        return field.value != _TRANSACTION
    return field.number == 13  # The queue that its client thought of.


cdef bint _read_text(const Field* field, SentMessage* sent) noexcept:
    if field.number == 1:
        sent.tag = field.text
        sent.texts_size += field.text.size
        return is_word(field.text) and not _has_bar(field.text)
    if field.number == 3:
        sent.message_id = field.text
        return True
    if field.number == 4:
        return _is_digest(field.text)
    if field.number == 7:
        return _read_time(field.text, &sent.born_ms)
    if field.number == 8:
        sent.born_host = field.text
        return is_shown(field.text, _SPACE)
    if field.number == 17:
        sent.group = field.text
        return is_word(field.text) and field.text.size < _GROUP_SIZE_MAX
    if field.number == 18:
        sent.trace_context = field.text
        return is_shown(field.text, _SPACE)
    return False


cdef bint _has_bar(Span text) noexcept:
    cdef Py_ssize_t index
    for index in range(text.size):
        if text.start[index] == c"|":
            return True
    return False


cdef bint _is_digest(Span digest) noexcept:
    """Whether it can be read: it is not looked at."""
    cdef Field field
    while digest.size:
        if not next_field(&digest, &field) or field.number > 2:
            return False
        if (field.kind == VARINT) != (field.number == 1):
            return False
        if field.kind == SIZED and not is_shown(field.text, _SPACE):
            return False
    return True


cdef bint _read_time(Span time, int64_t* time_ms) noexcept:
    cdef Field field
    cdef uint64_t[3] parts
    parts[1] = parts[2] = 0
    while time.size:
        if not next_field(&time, &field) or field.kind != VARINT or field.number > 2:
            return False
        parts[field.number] = field.value
    if parts[1] > _SECONDS_MAX or parts[2] > _NANOS_MAX:
        return False
    time_ms[0] = <int64_t>(parts[1] * 1000 + parts[2] // 1_000_000)
    return True


cdef bint _has_name_twice(const SentMessage* sent) noexcept:
    cdef Py_ssize_t index, other
    for index in range(sent.user_count):
        for other in range(index):
            if sent.names[index].size == sent.names[other].size and not memcmp(
                sent.names[index].start,
                sent.names[other].start,
                <size_t>sent.names[index].size,
            ):
                return True
    return False

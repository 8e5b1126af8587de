# cython: boundscheck=False, wraparound=False
"""The properties of a fast send on their way into a record, in one pass."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memchr, memcmp, memcpy, memmove, strlen

from roquet.protocol.binary cimport Span, get_int64, put_bytes, put_decimal, put_hex, uint8_t
from roquet.protocol.messages.property_text cimport next_property, starts_with
from roquet.protocol.messages.record_layout cimport CHECKSUM_SIZE, PHYSICAL_OFFSET_AT, SEPARATOR
from roquet.protocol.messages.record_parts cimport RecordParts, ends_in_checksum


def stored_properties(str sent not None, bytes added not None):
    """The text without WAIT, which is between producer and broker, and with one property more.

    None if a property asks for more than to be stored at once: a delay, a timer, a transaction.
    """
    cdef Span text
    text.start = <const uint8_t*>PyUnicode_AsUTF8AndSize(sent, &text.size)
    cdef bytes stored = PyBytes_FromStringAndSize(NULL, text.size + 1 + PyBytes_GET_SIZE(added))
    cdef uint8_t* start = <uint8_t*>PyBytes_AS_STRING(stored)
    cdef Py_ssize_t size = put_stored(start, text)
    if size < 0:
        return None
    size += put_bytes(start + size, added) - (start + size)
    return stored if size == PyBytes_GET_SIZE(stored) else stored[:size]


cdef Py_ssize_t put_stored(uint8_t* start, Span sent) noexcept nogil:
    """Writes what is stored of them, each with a separator after it; the size, or -1 for None.

    There is one byte more than `sent` has. It may lie at `start` itself.
    """
    cdef uint8_t* at = start
    cdef Span each
    while next_property(&sent, &each):
        if (
            starts_with(each, b"DELAY\x01")
            or starts_with(each, b"TIMER_")
            or starts_with(each, b"TRAN_MSG\x01")
        ):
            return -1
        if not starts_with(each, b"WAIT\x01"):
            memmove(at, each.start, <size_t>each.size)
            at += each.size
            at[0] = SEPARATOR
            at += 1
    return at - start


cdef enum:
    _PROPERTY_COUNT_MAX = 32


cdef struct Names:
    Span each[_PROPERTY_COUNT_MAX]
    Py_ssize_t count


cdef int want_of(Span sent) noexcept nogil:
    """The one delay level, or the one transaction, that these ask for; else WANTS_MORE.

    More is: two wishes, a name twice or without a value, one that the broker itself adds, or a level
    that is not written as a number of one or two digits.
    """
    cdef Names names
    cdef Span each
    cdef int level = 0
    cdef bint is_half = False
    cdef bint has_group = False
    names.count = 0
    while next_property(&sent, &each):
        if not _note_name(each, &names) or _is_of_broker(each) or starts_with(each, b"CLUSTER\x01"):
            return WANTS_MORE
        if starts_with(each, b"DELAY\x01"):
            level = _small_number(Span(each.start + 6, each.size - 6))
            if not level:
                return WANTS_MORE
        elif starts_with(each, b"TRAN_MSG\x01"):
            if each.size != 13 or not starts_with(each, b"TRAN_MSG\x01true"):
                return WANTS_MORE
            is_half = True
        has_group |= starts_with(each, b"PGROUP\x01")
    if is_half:
        # Without a group it gets the one of the request.
        return WANTS_TRANSACTION if has_group and not level else WANTS_MORE
    return level


cdef Py_ssize_t put_sent_back(
    uint8_t* start, const RecordParts* record, int level, Span* first_topic
) noexcept nogil:
    """Writes the properties of a message that comes again, or with level 0 those of a dead letter.

    Their size, or -1 if that takes more: with a level it has waited before, or it has anything that
    is not common. There is room for those of the record, its topic, and BACK_SIZE_MAX bytes more.
    `first_topic` is the one of its first delivery.
    """
    cdef Span rest = record.properties
    cdef Span each
    cdef Names names
    cdef uint8_t* at = start
    cdef bint has_delay = False, has_wait = False, has_topic = False, has_id = False
    names.count = 0
    first_topic[0] = record.topic
    if ends_in_checksum(record):
        rest.size -= CHECKSUM_SIZE
    if not _is_ascii(rest) or not _is_ascii(record.topic) or not record.topic.size:
        return -1
    while next_property(&rest, &each):
        if not _note_name(each, &names) or (_is_of_broker(each) and (level or not _is_real(each))):
            return -1
        # Each stays where it was, with the value that it has from now on.
        if starts_with(each, b"DELAY\x01"):
            has_delay = True
            at = put_decimal(_put_words(at, b"DELAY\x01"), level)
        elif starts_with(each, b"WAIT\x01"):
            has_wait = True
            at = _put_words(at, b"WAIT\x01false")
        else:
            at = _put_text(at, each)
            if starts_with(each, b"RETRY_TOPIC\x01"):
                has_topic = True
                first_topic[0] = Span(each.start + 12, each.size - 12)
            has_id |= starts_with(each, b"ORIGIN_MESSAGE_ID\x01")
        at[0] = SEPARATOR
        at += 1
    if not has_delay:
        at = _put_words(put_decimal(_put_words(at, b"DELAY\x01"), level), b"\x02")
    if not has_wait:
        at = _put_words(at, b"WAIT\x01false\x02")
    if not has_topic:
        at = _put_words(_put_text(_put_words(at, b"RETRY_TOPIC\x01"), record.topic), b"\x02")
    if not has_id:
        at = _put_words(at, b"ORIGIN_MESSAGE_ID\x01")
        # The offset id: where the record lies.
        at = put_hex(at, get_int64(record.store_host.start))
        at = _put_words(put_hex(at, get_int64(record.start + PHYSICAL_OFFSET_AT)), b"\x02")
    # Whatever follows adds the last separator by itself.
    return at - 1 - start


cdef inline uint8_t* _put_text(uint8_t* at, Span text) noexcept nogil:
    memcpy(at, text.start, <size_t>text.size)
    return at + text.size


cdef inline uint8_t* _put_words(uint8_t* at, const char* words) noexcept nogil:
    memcpy(at, words, strlen(words))
    return at + strlen(words)


cdef inline bint _is_ascii(Span text) noexcept nogil:
    cdef Py_ssize_t index
    for index in range(text.size):
        if text.start[index] > 127:
            return False
    return True


cdef bint _note_name(Span property, Names* names) noexcept nogil:
    """Whether it has a value, and a name that none before it has."""
    cdef const uint8_t* equals = <const uint8_t*>memchr(property.start, 1, <size_t>property.size)
    cdef Py_ssize_t index
    cdef Py_ssize_t size = equals - property.start
    if (
        names.count == _PROPERTY_COUNT_MAX
        or equals is NULL
        or not size
        or size + 1 == property.size
    ):
        return False
    for index in range(names.count):
        if names.each[index].size == size and not memcmp(
            names.each[index].start, property.start, <size_t>size
        ):
            return False
    names.each[names.count] = Span(property.start, size)
    names.count += 1
    return True


cdef inline bint _is_of_broker(Span property) noexcept nogil:
    """Whether the broker would replace it, or take it for something else."""
    return (
        starts_with(property, b"REAL_TOPIC\x01")
        or starts_with(property, b"REAL_QID\x01")
        or starts_with(property, b"TIMER_")
        or starts_with(property, b"TRANSACTION_")
        or starts_with(property, b"TRAN_PREPARED_")
        or starts_with(property, b"__CRC32#")
    )


cdef inline bint _is_real(Span property) noexcept nogil:
    """Whether it names the queue that the message waited for."""
    return starts_with(property, b"REAL_TOPIC\x01") or starts_with(property, b"REAL_QID\x01")


cdef inline int _small_number(Span text) noexcept nogil:
    """From 1 to 99, written in one way; else 0."""
    cdef int number = 0
    cdef Py_ssize_t index
    if text.size > 2 or text.start[0] == c"0":
        return 0
    for index in range(text.size):
        if not c"0" <= text.start[index] <= c"9":
            return 0
        number = 10 * number + (text.start[index] - c"0")
    return number

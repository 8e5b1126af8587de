# cython: boundscheck=False, wraparound=False
"""The properties of a fast send on their way into a record, in one pass."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memchr, memcmp, memmove

from roquet.protocol.binary cimport Span, put_bytes, uint8_t
from roquet.protocol.messages.property_text cimport next_property, starts_with
from roquet.protocol.messages.record_layout cimport SEPARATOR


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


cdef int want_of(Span sent) noexcept nogil:
    """The one delay level, or the one transaction, that these ask for; else WANTS_MORE.

    More is: two wishes, a name twice or without a value, one that the broker itself adds, or a level
    that is not written as a number of one or two digits.
    """
    cdef Span names[_PROPERTY_COUNT_MAX]
    cdef Span each
    cdef const uint8_t* equals
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t index
    cdef int level = 0
    cdef bint is_half = False
    cdef bint has_group = False
    while next_property(&sent, &each):
        equals = <const uint8_t*>memchr(each.start, 1, <size_t>each.size)
        if count == _PROPERTY_COUNT_MAX or equals is NULL or equals == each.start:
            return WANTS_MORE
        names[count] = Span(each.start, equals - each.start)
        if names[count].size + 1 == each.size or _is_of_broker(each):
            return WANTS_MORE
        for index in range(count):
            if names[index].size == names[count].size and not memcmp(
                names[index].start, names[count].start, <size_t>names[count].size
            ):
                return WANTS_MORE
        if starts_with(each, b"DELAY\x01"):
            level = _small_number(Span(equals + 1, each.size - names[count].size - 1))
            if not level:
                return WANTS_MORE
        elif starts_with(each, b"TRAN_MSG\x01"):
            if each.size != 13 or not starts_with(each, b"TRAN_MSG\x01true"):
                return WANTS_MORE
            is_half = True
        has_group |= starts_with(each, b"PGROUP\x01")
        count += 1
    if is_half:
        # Without a group it gets the one of the request.
        return WANTS_TRANSACTION if has_group and not level else WANTS_MORE
    return level


cdef inline bint _is_of_broker(Span property) noexcept nogil:
    """Whether the broker would replace it, or take it for something else."""
    return (
        starts_with(property, b"CLUSTER\x01")
        or starts_with(property, b"REAL_TOPIC\x01")
        or starts_with(property, b"REAL_QID\x01")
        or starts_with(property, b"TIMER_")
        or starts_with(property, b"TRANSACTION_")
        or starts_with(property, b"TRAN_PREPARED_")
        or starts_with(property, b"__CRC32#")
    )


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

# cython: boundscheck=False, wraparound=False
"""The properties of a fast send on their way into a record, in one pass."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memmove

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

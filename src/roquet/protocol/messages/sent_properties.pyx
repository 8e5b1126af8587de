# cython: boundscheck=False, wraparound=False
"""The properties of a plain send on their way into a record, in one pass."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memchr, memcmp, memcpy

from roquet.protocol.binary cimport put_bytes, uint8_t
from roquet.protocol.messages.record_layout cimport SEPARATOR

cdef enum:
    _WAIT_SIZE = 5
    _DELAY_SIZE = 6
    _TIMER_SIZE = 6
    _TRANSACTION_SIZE = 9


def stored_properties(str sent not None, bytes added not None):
    """The text without WAIT, which is between producer and broker, and with one property more.

    None if a property asks for more than to be stored at once: a delay, a timer, a transaction.
    """
    cdef Py_ssize_t size
    cdef const char* text = PyUnicode_AsUTF8AndSize(sent, &size)
    cdef const char* end = text + size
    cdef const char* start = text
    cdef const char* stop
    cdef bytes stored = PyBytes_FromStringAndSize(NULL, size + 1 + PyBytes_GET_SIZE(added))
    cdef uint8_t* begin = <uint8_t*>PyBytes_AS_STRING(stored)
    cdef uint8_t* at = begin
    while start < end:
        stop = <const char*>memchr(start, SEPARATOR, <size_t>(end - start))
        if stop is NULL:
            stop = end
        size = stop - start
        if (
            _begins(start, size, b"DELAY\x01", _DELAY_SIZE)
            or _begins(start, size, b"TIMER_", _TIMER_SIZE)
            or _begins(start, size, b"TRAN_MSG\x01", _TRANSACTION_SIZE)
        ):
            return None
        if not _begins(start, size, b"WAIT\x01", _WAIT_SIZE):
            memcpy(at, start, <size_t>size)
            at += size
            at[0] = SEPARATOR
            at += 1
        start = stop + 1
    at = put_bytes(at, added)
    return stored if at - begin == PyBytes_GET_SIZE(stored) else stored[: at - begin]


cdef inline bint _begins(
    const char* text, Py_ssize_t size, const char* mark, Py_ssize_t mark_size
) noexcept:
    return size >= mark_size and not memcmp(text, mark, <size_t>mark_size)

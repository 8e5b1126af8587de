# cython: boundscheck=False, wraparound=False
"""The properties of a plain send on their way into a record, in one pass."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memcpy

from roquet.protocol.binary cimport Span, put_bytes, uint8_t
from roquet.protocol.messages.property_text cimport begins_with, next_property
from roquet.protocol.messages.record_layout cimport SEPARATOR


def stored_properties(str sent not None, bytes added not None):
    """The text without WAIT, which is between producer and broker, and with one property more.

    None if a property asks for more than to be stored at once: a delay, a timer, a transaction.
    """
    cdef Span rest, each
    rest.start = <const uint8_t*>PyUnicode_AsUTF8AndSize(sent, &rest.size)
    cdef bytes stored = PyBytes_FromStringAndSize(NULL, rest.size + 1 + PyBytes_GET_SIZE(added))
    cdef uint8_t* begin = <uint8_t*>PyBytes_AS_STRING(stored)
    cdef uint8_t* at = begin
    while next_property(&rest, &each):
        if (
            begins_with(each, b"DELAY\x01")
            or begins_with(each, b"TIMER_")
            or begins_with(each, b"TRAN_MSG\x01")
        ):
            return None
        if not begins_with(each, b"WAIT\x01"):
            memcpy(at, each.start, <size_t>each.size)
            at += each.size
            at[0] = SEPARATOR
            at += 1
    at = put_bytes(at, added)
    return stored if at - begin == PyBytes_GET_SIZE(stored) else stored[: at - begin]

# cython: boundscheck=False, wraparound=False
"""The body of a batch send, written in one go; how it is laid out is drawn in `batch.py`."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.string cimport memcpy, memset

from roquet.protocol.binary cimport (
    Span, int32_t, put_bytes, put_int16, put_int32, span_of, uint8_t,
)
from roquet.protocol.messages.batch_layout cimport (
    ITEM_BODY_SIZE_AT,
    ITEM_FLAG_AT,
    ITEM_HEAD_SIZE,
)
from roquet.protocol.messages.record_layout cimport PROPERTIES_SIZE_MAX

from roquet.protocol.errors import BadMessage, TooLarge

cdef enum:
    _SIZE_MAX = 2147483647


def encode_batch(items):
    """Of items, or tuples of the same. Raises TooLarge for properties that do not fit, and
    BadMessage for numbers that do not."""
    cdef BatchBody batch = BatchBody()
    for flag, body, properties in items:
        batch.add(flag, body, properties)
    return batch.written()


@cython.final
cdef class BatchBody:
    """Item by item; nothing is written before all of them are there."""

    def __init__(self):
        self._flags = []
        self._bodies = []
        self._properties = []
        self._size = 0

    cdef int add(self, flag, body, properties) except -1:
        """Properties are a text, or its bytes. Raises as `encode_batch`."""
        if type(body) is not bytes:
            body = b"".join((body,))
        if type(properties) is not str and type(properties) is not bytes:
            properties = b"".join((properties,))
        self._size += _item_size(flag, <bytes>body, _text(properties).size)
        self._flags.append(flag)
        self._bodies.append(body)
        self._properties.append(properties)
        return 0

    cdef bytes written(self):
        cdef bytes batch = PyBytes_FromStringAndSize(NULL, self._size)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(batch)
        for index in range(len(self._flags)):
            at = _put_item(
                at, self._flags[index], <bytes>self._bodies[index], _text(self._properties[index])
            )
        return batch


cdef inline Span _text(properties) except *:
    """Where it lies, as UTF-8; it is a text or bytes."""
    cdef Span text
    if type(properties) is bytes:
        return span_of(<bytes>properties)
    text.start = <const uint8_t*>PyUnicode_AsUTF8AndSize(properties, &text.size)
    return text


cdef Py_ssize_t _item_size(flag, bytes body, Py_ssize_t properties_size) except -1:
    cdef Py_ssize_t size = ITEM_HEAD_SIZE + PyBytes_GET_SIZE(body) + 2 + properties_size
    cdef int32_t number
    if properties_size > PROPERTIES_SIZE_MAX:
        raise TooLarge("properties", properties_size, PROPERTIES_SIZE_MAX)
    if size > _SIZE_MAX:
        raise BadMessage(f"batch item of {size} bytes")
    try:
        number = flag
    except (OverflowError, TypeError) as error:
        raise BadMessage(f"batch item: {error}") from None
    return size


cdef uint8_t* _put_item(uint8_t* at, int32_t flag, bytes body, Span properties) except NULL:
    cdef Py_ssize_t body_size = PyBytes_GET_SIZE(body)
    put_int32(at, ITEM_HEAD_SIZE + body_size + 2 + properties.size)
    # Here a record has its magic and its CRC.
    memset(at + 4, 0, ITEM_FLAG_AT - 4)
    put_int32(at + ITEM_FLAG_AT, flag)
    put_int32(at + ITEM_BODY_SIZE_AT, body_size)
    at = put_bytes(at + ITEM_HEAD_SIZE, body)
    put_int16(at, <int32_t>properties.size)
    memcpy(at + 2, properties.start, <size_t>properties.size)
    return at + 2 + properties.size

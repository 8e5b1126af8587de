# cython: boundscheck=False, wraparound=False
"""The body of a batch send, written in one go; how it is laid out is drawn in `batch.py`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memset

from roquet.protocol.binary cimport int32_t, put_bytes, put_int16, put_int32, uint8_t
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
    """Of items, or plain tuples of the same. Raises TooLarge for properties that do not fit, and
    BadMessage for numbers that do not."""
    cdef list flags = []
    cdef list bodies = []
    cdef list properties = []
    cdef Py_ssize_t size = 0
    for flag, body, text in items:
        body = _as_bytes(body)
        text = _as_bytes(text)
        size += _item_size(flag, body, text)
        flags.append(flag)
        bodies.append(body)
        properties.append(text)
    cdef bytes batch = PyBytes_FromStringAndSize(NULL, size)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(batch)
    for index in range(len(flags)):
        at = _put_item(at, flags[index], <bytes>bodies[index], <bytes>properties[index])
    return batch


cdef bytes _as_bytes(data):
    return <bytes>data if type(data) is bytes else b"".join((data,))


cdef Py_ssize_t _item_size(flag, bytes body, bytes properties) except -1:
    cdef Py_ssize_t properties_size = PyBytes_GET_SIZE(properties)
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


cdef uint8_t* _put_item(uint8_t* at, int32_t flag, bytes body, bytes properties) except NULL:
    cdef Py_ssize_t body_size = PyBytes_GET_SIZE(body)
    cdef Py_ssize_t properties_size = PyBytes_GET_SIZE(properties)
    put_int32(at, ITEM_HEAD_SIZE + body_size + 2 + properties_size)
    # Here a record has its magic and its CRC.
    memset(at + 4, 0, ITEM_FLAG_AT - 4)
    put_int32(at + ITEM_FLAG_AT, flag)
    put_int32(at + ITEM_BODY_SIZE_AT, body_size)
    at = put_bytes(at + ITEM_HEAD_SIZE, body)
    put_int16(at, <int32_t>properties_size)
    return put_bytes(at + 2, properties)

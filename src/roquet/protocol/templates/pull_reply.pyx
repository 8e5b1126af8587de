# cython: boundscheck=False, wraparound=False
"""The reply to a pull that found messages, filled into a template. See `json_templates`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from roquet.protocol.binary cimport (
    decimal_size,
    int64_t,
    put_bytes,
    put_decimal,
    put_int32,
    uint8_t,
)

from roquet.protocol.headers.messages import PullMessageReplyHeader
from roquet.protocol.templates.json_templates import reply_pieces

cdef enum:
    _PREFIX_SIZE = 8  # of a frame

_MARKS = (1_111_111_111, 1_222_222_222, 1_333_333_333, 1_444_444_444)
cdef list _PIECES = reply_pieces(
    PullMessageReplyHeader(
        suggest_which_broker_id=_MARKS[0],
        next_begin_offset=_MARKS[1],
        min_offset=_MARKS[2],
        max_offset=_MARKS[3],
    ),
    "FOUND",
    _MARKS,
)
cdef Py_ssize_t _PIECES_SIZE = sum(map(len, _PIECES))


# Six parameters, because building a value object would cost as much as the rest of the call.
def found_reply(
    int64_t opaque,
    int64_t broker_id,
    int64_t next_begin_offset,
    int64_t min_offset,
    int64_t max_offset,
    bytes records not None,
):
    """The whole frame."""
    cdef Found found = Found(broker_id, next_begin_offset, min_offset, max_offset, opaque)
    return found_header(&found, PyBytes_GET_SIZE(records)) + records


cdef bytes found_header(const Found* found, Py_ssize_t body_size):
    """The frame but for its body, which has this size."""
    cdef int64_t[VALUE_COUNT] values = [
        found.broker_id,
        found.next_begin_offset,
        found.min_offset,
        found.max_offset,
        found.opaque,
    ]
    cdef Py_ssize_t size = _PIECES_SIZE
    cdef Py_ssize_t index
    for index in range(VALUE_COUNT):
        size += decimal_size(values[index])
    cdef bytes header = PyBytes_FromStringAndSize(NULL, _PREFIX_SIZE + size)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(header)
    # In JSON the byte of the serializer is 0: the size of the header fills a whole int32.
    put_int32(at, 4 + size + body_size)
    put_int32(at + 4, size)
    at += _PREFIX_SIZE
    for index in range(VALUE_COUNT):
        at = put_decimal(put_bytes(at, _PIECES[index]), values[index])
    put_bytes(at, _PIECES[VALUE_COUNT])
    return header

# cython: boundscheck=False, wraparound=False
"""The reply to a pop that took messages, filled into a template. See `json_templates`."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from roquet.protocol.binary cimport (
    Span,
    decimal_size,
    int64_t,
    put_bytes,
    put_decimal,
    put_int32,
    span_of,
    uint8_t,
)

from roquet.protocol.headers.pop import PopMessageReplyHeader
from roquet.protocol.templates.json_templates import reply_pieces

cdef enum:
    _PREFIX_SIZE = 8  # of a frame
    _NUMBER_COUNT = 4  # before the texts

_MARKS = (
    1_111_111_111,
    1_222_222_222,
    1_333_333_333,
    1_444_444_444,
    1_555_555_555,
    1_666_666_666,
)
cdef list _PIECES = reply_pieces(
    PopMessageReplyHeader(
        pop_time=_MARKS[0],
        invisible_time=_MARKS[1],
        revive_qid=_MARKS[2],
        rest_num=_MARKS[3],
        start_offset_info=str(_MARKS[4]),
        msg_offset_info=str(_MARKS[5]),
    ),
    "FOUND",
    _MARKS,
)
cdef Py_ssize_t _PIECES_SIZE = sum(map(len, _PIECES))


def popped_reply(
    tuple numbers not None,
    bytes starts not None,
    bytes offsets not None,
    int64_t opaque,
    bytes records not None,
):
    """The whole frame. The numbers are pop time, invisible time, queue of the journal, and rest."""
    cdef PopReply reply
    reply.pop_time_ms, reply.invisible_ms, reply.revive_queue_id, reply.rest_count = numbers
    reply.starts = span_of(starts)
    reply.offsets = span_of(offsets)
    reply.opaque = opaque
    return popped_header(&reply, PyBytes_GET_SIZE(records)) + records


cdef bytes popped_header(const PopReply* reply, Py_ssize_t body_size):
    """The frame but for its body, which has this size. Nothing in the texts needs an escape."""
    cdef int64_t[_NUMBER_COUNT] numbers = [
        reply.pop_time_ms,
        reply.invisible_ms,
        reply.revive_queue_id,
        reply.rest_count,
    ]
    cdef Py_ssize_t size = _PIECES_SIZE + reply.starts.size + reply.offsets.size
    cdef Py_ssize_t index
    size += decimal_size(reply.opaque)
    for index in range(_NUMBER_COUNT):
        size += decimal_size(numbers[index])
    cdef bytes header = PyBytes_FromStringAndSize(NULL, _PREFIX_SIZE + size)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(header)
    # In JSON the byte of the serializer is 0: the size of the header fills a whole int32.
    put_int32(at, 4 + size + body_size)
    put_int32(at + 4, size)
    at += _PREFIX_SIZE
    for index in range(_NUMBER_COUNT):
        at = put_decimal(put_bytes(at, _PIECES[index]), numbers[index])
    at = _put_span(put_bytes(at, _PIECES[_NUMBER_COUNT]), reply.starts)
    at = _put_span(put_bytes(at, _PIECES[_NUMBER_COUNT + 1]), reply.offsets)
    at = put_decimal(put_bytes(at, _PIECES[_NUMBER_COUNT + 2]), reply.opaque)
    put_bytes(at, _PIECES[_NUMBER_COUNT + 3])
    return header


cdef inline uint8_t* _put_span(uint8_t* at, Span span) noexcept:
    memcpy(at, span.start, <size_t>span.size)
    return at + span.size

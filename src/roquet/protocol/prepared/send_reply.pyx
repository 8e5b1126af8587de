# cython: boundscheck=False, wraparound=False
"""The reply a broker writes most: the message, or all messages of a batch, are stored.

Filled into a prepared frame instead of built and encoded, and only for peers that speak JSON
headers. The frame is made by `encode_command` once, with marks where the values go, so both
ways cannot drift apart.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE

from roquet.protocol.binary cimport (
    decimal_size, int64_t, put_bytes, put_decimal, put_hex, put_int32, uint8_t,
)

from roquet.protocol.headers.sending import SendMessageReplyHeader
from roquet.protocol.prepared.pull_reply import reply_pieces

cdef enum:
    _PREFIX_SIZE = 8  # of a frame
    _OFFSET_SIZE = 16  # of a physical offset in hex


@cython.final
cdef class SendReplyTemplate:
    """`store_host` begins the ids of all messages; region and tracing are settings of a broker."""

    cdef bytes _host, _before_ids, _before_queue_id, _before_queue_offset, _before_opaque, _rest
    cdef Py_ssize_t _pieces_size

    def __init__(self, bytes store_host not None, region_id, *, is_traced):
        marks = (1_111_111_111, 1_222_222_222, 1_333_333_333)
        header = SendMessageReplyHeader(
            msg_id=str(marks[0]),
            queue_id=marks[1],
            queue_offset=marks[2],
            region_id=region_id,
            is_traced=is_traced,
        )
        pieces = reply_pieces(header, None, marks)
        (
            self._before_ids,
            self._before_queue_id,
            self._before_queue_offset,
            self._before_opaque,
            self._rest,
        ) = pieces
        self._pieces_size = sum(map(len, pieces))
        self._host = store_host.hex().upper().encode()

    def fill(
        self, int64_t opaque, list physical_offsets not None, int64_t queue_id, int64_t queue_offset
    ):
        """The whole frame, for messages that lie at these offsets of the log."""
        cdef Py_ssize_t count = len(physical_offsets)
        cdef Py_ssize_t size = (
            self._pieces_size
            + count * (PyBytes_GET_SIZE(self._host) + _OFFSET_SIZE)
            + count - 1  # commas
            + decimal_size(queue_id)
            + decimal_size(queue_offset)
            + decimal_size(opaque)
        )
        cdef bytes frame = PyBytes_FromStringAndSize(NULL, _PREFIX_SIZE + size)
        cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(frame)
        # In JSON the byte of the serializer is 0: the size of the header fills a whole int32.
        put_int32(at, 4 + size)
        put_int32(at + 4, size)
        at = put_bytes(at + _PREFIX_SIZE, self._before_ids)
        for index in range(count):
            if index:
                at[0] = b","
                at += 1
            at = put_hex(put_bytes(at, self._host), <int64_t>physical_offsets[index])
        at = put_decimal(put_bytes(at, self._before_queue_id), queue_id)
        at = put_decimal(put_bytes(at, self._before_queue_offset), queue_offset)
        at = put_decimal(put_bytes(at, self._before_opaque), opaque)
        put_bytes(at, self._rest)
        return frame

# cython: boundscheck=False, wraparound=False
"""The reply a broker writes most: the message, or all messages of a batch, are stored.

Filled into a template instead of built and encoded, and only for peers that speak JSON
headers. The template is made by `encode_command` once, with marks where the values go, so both
ways cannot drift apart.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc

from roquet.protocol.binary cimport (
    decimal_size, int64_t, put_bytes, put_decimal, put_hex, put_int32, uint8_t,
)

from roquet.protocol.headers.messages import SendMessageReplyHeader
from roquet.protocol.templates.json_templates import reply_pieces

cdef enum:
    _PREFIX_SIZE = 8  # of a frame
    _OFFSET_SIZE = 16  # of a physical offset in hex


@cython.final
cdef class SendReplyTemplate:
    """`store_host` starts the ids of all messages; region and tracing are settings of a broker."""

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
        cdef Stored stored
        stored.count = len(physical_offsets)
        stored.queue_id = queue_id
        stored.queue_offset = queue_offset
        stored.physical_offsets = <int64_t*>PyMem_Malloc(max(stored.count, 1) * sizeof(int64_t))
        if stored.physical_offsets is NULL:
            raise MemoryError
        try:
            for index in range(stored.count):
                stored.physical_offsets[index] = physical_offsets[index]
            frame = PyBytes_FromStringAndSize(NULL, self.size_of(opaque, &stored))
            self.put(<uint8_t*>PyBytes_AS_STRING(frame), opaque, &stored)
        finally:
            PyMem_Free(stored.physical_offsets)
        return frame

    cdef Py_ssize_t size_of(self, int64_t opaque, const Stored* stored) noexcept:
        """Of the whole frame."""
        return (
            _PREFIX_SIZE
            + self._pieces_size
            + stored.count * (PyBytes_GET_SIZE(self._host) + _OFFSET_SIZE)
            + stored.count - 1  # commas
            + decimal_size(stored.queue_id)
            + decimal_size(stored.queue_offset)
            + decimal_size(opaque)
        )

    cdef uint8_t* put(self, uint8_t* start, int64_t opaque, const Stored* stored) noexcept:
        """Writes the frame where there is space for it; its end."""
        cdef uint8_t* at = put_bytes(start + _PREFIX_SIZE, self._before_ids)
        for index in range(stored.count):
            if index:
                at[0] = b","
                at += 1
            at = put_hex(put_bytes(at, self._host), stored.physical_offsets[index])
        at = put_decimal(put_bytes(at, self._before_queue_id), stored.queue_id)
        at = put_decimal(put_bytes(at, self._before_queue_offset), stored.queue_offset)
        at = put_decimal(put_bytes(at, self._before_opaque), opaque)
        at = put_bytes(at, self._rest)
        # In JSON the byte of the serializer is 0: the size of the header fills a whole int32.
        put_int32(start, at - start - 4)
        put_int32(start + 4, at - start - _PREFIX_SIZE)
        return at

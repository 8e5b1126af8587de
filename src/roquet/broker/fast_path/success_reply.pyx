# cython: boundscheck=False, wraparound=False
"""The reply that says nothing but that it is done: to acks of either kind."""

cimport cython
from cpython.bytes cimport PyBytes_GET_SIZE

from roquet.protocol.binary cimport decimal_size, int64_t, put_bytes, put_decimal, put_int32, uint8_t

from roquet.protocol.fields import NoFields
from roquet.protocol.templates.json_templates import reply_pieces

cdef enum:
    _PREFIX_SIZE = 8  # of a frame


@cython.final
cdef class SuccessReply:
    """The same for every request but for its opaque."""

    def __init__(self):
        self._start, self._end = reply_pieces(NoFields(), None, ())

    cdef Py_ssize_t size_for(self, int64_t opaque) noexcept:
        return (
            _PREFIX_SIZE
            + PyBytes_GET_SIZE(self._start)
            + decimal_size(opaque)
            + PyBytes_GET_SIZE(self._end)
        )

    cdef int put(self, uint8_t* at, int64_t opaque) except -1:
        """There is as much room as it takes."""
        cdef Py_ssize_t size = self.size_for(opaque)
        # In JSON the byte of the serializer is 0: the size of the header fills a whole int32.
        put_int32(at, size - 4)
        put_int32(at + 4, size - _PREFIX_SIZE)
        at = put_bytes(at + _PREFIX_SIZE, self._start)
        put_bytes(put_decimal(at, opaque), self._end)
        return 0

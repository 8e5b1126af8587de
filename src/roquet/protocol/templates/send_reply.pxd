from roquet.protocol.binary cimport int64_t, uint8_t


cdef struct Stored:
    # Where the messages of one send have gone.
    int64_t queue_id
    int64_t queue_offset  # of the first
    Py_ssize_t count
    int64_t* physical_offsets


cdef class SendReplyTemplate:
    cdef bytes _host, _before_ids, _before_queue_id, _before_queue_offset, _before_opaque, _rest
    cdef Py_ssize_t _pieces_size

    cdef Py_ssize_t size_of(self, int64_t opaque, const Stored* stored) noexcept
    cdef uint8_t* put(self, uint8_t* start, int64_t opaque, const Stored* stored) noexcept

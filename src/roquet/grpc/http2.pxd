from libc.stdint cimport int32_t

from roquet.grpc.header_block cimport HeaderBlock


# Declared without its header, so that modules that only answer calls are compiled without it.
cdef extern from *:
    """
    typedef struct nghttp2_session nghttp2_session;
    """
    ctypedef struct nghttp2_session


cdef class Request:
    cdef readonly HeaderBlock headers
    # The first piece of it; of a REQUEST all of it.
    cdef readonly bytes data


cdef class Ending:
    cdef object ended
    cdef tuple answered, given_up

    cpdef Ending other(self, tuple answered)
    cdef int count(self, bint is_answered) except -1


cdef class _Outgoing:
    # Counts the end of the call; None if that is an event.
    cdef Ending ending
    # The chunk that is sent, how much of it was, and those after it; None if there are none.
    cdef bytes chunk
    cdef Py_ssize_t position
    cdef object later
    cdef tuple trailers
    cdef bint is_finished
    cdef bint is_sent

    cdef int add(self, bytes chunk) except -1


cdef class Http2Session:
    cdef nghttp2_session *_session
    cdef list _events
    # The header block that is being read: frames of others cannot come between.
    cdef HeaderBlock _block
    # Requests of the bytes that are being read, of which nothing was shown yet.
    cdef dict _requests
    cdef char *_buffer
    cdef Py_ssize_t _buffer_size
    cdef dict _outgoing
    cdef object _error
    cdef Py_ssize_t _header_size_max
    cdef int32_t _last_stream_id
    cdef readonly Py_ssize_t pending_size
    cdef readonly int control_count
    # Data was sent since the last ping.
    cdef bint _is_ping_free
    cdef bint _is_closed

    cpdef answer(
        self,
        int32_t stream_id,
        tuple headers,
        bytes data,
        tuple trailers,
        Ending ending=*,
    )
    cdef _Outgoing _respond(self, int32_t stream_id, tuple headers)
    cdef bint is_open(self, int32_t stream_id) noexcept
    cdef Request _show(self, int32_t stream_id)
    cdef int _end(self, int32_t stream_id) except -1
    cdef int _check(self, int code) except -1
    cdef int _reserve(self, Py_ssize_t size) except -1

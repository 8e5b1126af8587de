from libc.stdint cimport uint8_t

from roquet.protocol.binary cimport Span


cdef class HeaderBlock:
    cdef uint8_t* _start
    cdef Py_ssize_t _size, _capacity
    # Where values lie that are asked for at once, from the start on; -1 without any.
    cdef Py_ssize_t _path_at, _path_size, _client_at, _client_size
    # As HPACK counts them.
    cdef Py_ssize_t size
    cdef bint has_method, _is_post, _is_grpc, _has_doubles

    cdef int add(
        self, const uint8_t* name, Py_ssize_t name_size, const uint8_t* value, Py_ssize_t value_size
    ) except -1
    cdef int _note(self, Span name, Span value, Py_ssize_t at) except -1
    cdef bint is_plain_call(self) noexcept
    cdef Span path(self) noexcept
    cdef Span client_id(self) noexcept

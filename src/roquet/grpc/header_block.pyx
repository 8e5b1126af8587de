# cython: boundscheck=False, wraparound=False
"""The headers of one request of HTTP/2, as they came.

    size of the name, size of the value, name, value; again for each header

Most of them are never looked at: they become texts when someone asks for them. Which method is
called, and by which client, is known at once.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from cpython.unicode cimport PyUnicode_DecodeLatin1
from libc.stdint cimport int32_t
from libc.string cimport memcmp, memcpy

cdef enum:
    _HEAD_SIZE = 8
    _CAPACITY_MIN = 512
    # What HPACK counts for a header beside its texts.
    _COUNTED_SIZE = 32

cdef bytes _GRPC = b"application/grpc"


@cython.final
@cython.freelist(64)
cdef class HeaderBlock:
    def __cinit__(self):
        self._path_at = self._client_at = -1

    def __dealloc__(self):
        PyMem_Free(self._start)

    cdef int add(
        self, const uint8_t* name, Py_ssize_t name_size, const uint8_t* value, Py_ssize_t value_size
    ) except -1:
        """The caller has an end to `size`."""
        cdef int32_t[2] sizes
        cdef Py_ssize_t value_at = self._size + _HEAD_SIZE + name_size
        cdef Py_ssize_t end = value_at + value_size
        cdef Py_ssize_t capacity
        cdef void* grown
        if end > self._capacity:
            capacity = max(2 * end, <Py_ssize_t>_CAPACITY_MIN)
            grown = PyMem_Realloc(self._start, capacity)
            if grown is NULL:
                raise MemoryError
            self._start = <uint8_t*>grown
            self._capacity = capacity
        sizes[0], sizes[1] = <int32_t>name_size, <int32_t>value_size
        memcpy(self._start + self._size, sizes, _HEAD_SIZE)
        memcpy(self._start + self._size + _HEAD_SIZE, name, <size_t>name_size)
        memcpy(self._start + value_at, value, <size_t>value_size)
        self._size = end
        self.size += name_size + value_size + _COUNTED_SIZE
        self._note(Span(name, name_size), Span(value, value_size), value_at)
        return 0

    cdef int _note(self, Span name, Span value, Py_ssize_t at) except -1:
        """If it is one of those that are asked for at once."""
        if name.size == 5 and not memcmp(name.start, b":path", 5):
            self._has_doubles |= self._path_at >= 0
            self._path_at, self._path_size = at, value.size
        elif name.size == 7 and not memcmp(name.start, b":method", 7):
            self._has_doubles |= self.has_method
            self.has_method = True
            self._is_post = value.size == 4 and not memcmp(value.start, b"POST", 4)
        elif name.size == 12 and not memcmp(name.start, b"content-type", 12):
            self._has_doubles |= self._is_grpc
            self._is_grpc = value.size >= len(_GRPC) and not memcmp(
                value.start, <const char*>_GRPC, <size_t>len(_GRPC)
            )
        elif name.size == 14 and not memcmp(name.start, b"x-mq-client-id", 14):
            self._has_doubles |= self._client_at >= 0
            self._client_at, self._client_size = at, value.size
        return 0

    cdef bint is_plain_call(self) noexcept:
        """Whether it is a call of gRPC by a client that has an id, each of it said once."""
        return (
            self._is_post
            and self._is_grpc
            and self._path_at >= 0
            and self._client_size > 0
            and not self._has_doubles
        )

    cdef Span path(self) noexcept:
        """Of a plain call."""
        return Span(self._start + self._path_at, self._path_size)

    cdef Span client_id(self) noexcept:
        """Of a plain call."""
        return Span(self._start + self._client_at, self._client_size)

    def texts(self):
        """By their names; of a name that comes again, the values with commas between them."""
        cdef int32_t[2] sizes
        cdef Py_ssize_t at = 0
        cdef const char* name
        cdef dict found = {}
        while at < self._size:
            memcpy(sizes, self._start + at, _HEAD_SIZE)
            name = <const char*>self._start + at + _HEAD_SIZE
            key = PyUnicode_DecodeLatin1(name, sizes[0], NULL)
            text = PyUnicode_DecodeLatin1(name + sizes[0], sizes[1], NULL)
            found[key] = f"{found[key]},{text}" if key in found else text
            at += _HEAD_SIZE + sizes[0] + sizes[1]
        return found

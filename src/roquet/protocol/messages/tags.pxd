from libc.stdint cimport int32_t

from roquet.protocol.binary cimport Span

cdef Span find_tags(Span properties) noexcept
cdef int32_t code_of(Span tags) except? -1

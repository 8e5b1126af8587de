from roquet.protocol.binary cimport Span, uint8_t

cdef Py_ssize_t put_stored(uint8_t* start, Span sent) noexcept nogil

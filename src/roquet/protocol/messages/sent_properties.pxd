from roquet.protocol.binary cimport Span, uint8_t

cdef enum:
    # What a send may want instead of being stored at once; a delay level is greater than 0.
    WANTS_MORE = 0
    WANTS_TRANSACTION = -1


cdef Py_ssize_t put_stored(uint8_t* start, Span sent) noexcept nogil
cdef int want_of(Span sent) noexcept nogil

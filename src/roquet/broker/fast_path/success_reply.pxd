from roquet.protocol.binary cimport int64_t, uint8_t


cdef class SuccessReply:
    # Around the opaque.
    cdef bytes _start, _end

    cdef Py_ssize_t size_for(self, int64_t opaque) noexcept
    cdef int put(self, uint8_t* at, int64_t opaque) except -1

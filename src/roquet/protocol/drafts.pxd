from libc.stdint cimport int32_t, uint8_t


cdef int32_t tags_code(const uint8_t* text, Py_ssize_t size, bint* is_tagged) except? -1

from roquet.protocol.binary cimport int64_t

cdef enum:
    VALUE_COUNT = 5


cdef struct Found:
    # In the order of the reply.
    int64_t broker_id, next_begin_offset, min_offset, max_offset, opaque


cdef bytes found_header(const Found* found, Py_ssize_t body_size)

cdef class WholeFrames:
    cdef readonly bytes data
    # Of the frame that comes next, and of the byte behind the last one.
    cdef public Py_ssize_t position
    cdef readonly Py_ssize_t end

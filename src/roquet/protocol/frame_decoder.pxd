cdef class WholeFrames:
    cdef readonly bytes data
    # Of the next frame, and of the byte after the last one.
    cdef public Py_ssize_t position
    cdef readonly Py_ssize_t end

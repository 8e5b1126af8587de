cdef class Occupancy:
    cdef readonly Py_ssize_t count, size
    # Whoever leaves has to tell the window: somebody waits for that.
    cdef public bint is_watched
    cdef Py_ssize_t _count_max, _size_max

    cpdef bint has_room(self, Py_ssize_t size) noexcept
    cpdef bint try_enter(self, Py_ssize_t size) noexcept
    cpdef int leave(self, Py_ssize_t size) except -1

"""How many are inside and how large they are; who waits outside is the affair of `window.py`."""

cimport cython


@cython.final
cdef class Occupancy:
    """Bounded in count and bytes. Something larger enters when it is empty, or it could never."""

    def __init__(self, Py_ssize_t count_max, Py_ssize_t size_max):
        self._count_max = count_max
        self._size_max = size_max
        self.count = 0
        self.size = 0
        self.is_watched = False

    cpdef bint has_room(self, Py_ssize_t size) noexcept:
        return not self.count or (
            self.count < self._count_max and self.size + size <= self._size_max
        )

    cpdef bint try_enter(self, Py_ssize_t size) noexcept:
        """Whether there was room, which is taken then."""
        if not self.has_room(size):
            return False
        self.count += 1
        self.size += size
        return True

    cpdef int leave(self, Py_ssize_t size) except -1:
        assert self.count > 0
        self.count -= 1
        self.size -= size
        return 0

"""Plain numbers that every send and every pull adds to, whichever way it goes."""


cdef class Tally:
    """Messages, their bytes, and in how many sends or pulls they came."""

    cpdef int add(self, int64_t count, int64_t size) except -1:
        self.count += count
        self.size += size
        self.times += 1
        return 0


cdef class Ways:
    """How many requests of one kind went through the lane, and how many the ordinary way."""

    @property
    def share(self):
        """Of the lane; 0 before there were any."""
        cdef int64_t total = self.plain + self.ordinary
        return self.plain / <double>total if total else 0.0

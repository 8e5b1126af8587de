"""Counters of sends and pulls, for the fast path and the slow one alike."""


cdef class Tally:
    """Messages, their bytes, and in how many sends or pulls they came."""

    cpdef int add(self, int64_t count, int64_t size) except -1:
        self.count += count
        self.size += size
        self.times += 1
        return 0


cdef class PathCounts:
    """How many requests of one kind took the fast path, and how many the slow one."""

    @property
    def share(self):
        """Of the fast path; 0 before there were any."""
        cdef int64_t total = self.fast + self.slow
        return self.fast / <double>total if total else 0.0

# cython: boundscheck=False, wraparound=False
"""Messages of one queue that were taken and are not finished: the book that commits look into.

Messages finish in any order. A returning group resumes at the committed offset, so that must not
pass any message which is not finished:

    added        5   6   7  10  11     the broker filtered 8 and 9 out
    finished     5       7  10
    commit           6
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memmove

from roquet.protocol.binary cimport int64_t

cdef enum:
    _CAPACITY_MIN = 64
    _FINISHED = -1


cdef struct Entry:
    int64_t offset
    Py_ssize_t size  # or _FINISHED


@cython.final
cdef class OffsetBook:
    """Offsets and sizes of unfinished messages. It belongs to the event loop."""

    # Everything before this offset was added, or was never there.
    cdef readonly int64_t next_offset
    cdef readonly Py_ssize_t count, size
    # In the order of their offsets, as messages come; the first and the last are not finished.
    cdef Entry* _entries
    cdef Py_ssize_t _first, _end, _capacity

    def __init__(self, int64_t start):
        self.next_offset = start

    def __dealloc__(self):
        PyMem_Free(self._entries)

    @property
    def commit_offset(self):
        """Where the group may start again without missing a message."""
        return self._entries[self._first].offset if self.count else self.next_offset

    @property
    def span(self):
        """From the first unfinished message to the last one."""
        if not self.count:
            return 0
        return self._entries[self._end - 1].offset - self._entries[self._first].offset

    def add_all(self, messages):
        """Those that are new: the reading was not beyond their offset already."""
        cdef list new = []
        cdef int64_t offset
        for message in messages:
            offset = message.queue_offset
            if offset >= self.next_offset:
                self._add(Entry(offset, message.size))
                new.append(message)
        return new

    def skip_to(self, int64_t offset):
        """No message of interest comes before this offset any more."""
        self.next_offset = max(self.next_offset, offset)

    cpdef int finish(self, int64_t offset) except -1:
        """For what is finished already, or was never added, it does nothing."""
        cdef Py_ssize_t index = self._index_of(offset)
        cdef Entry* entry = self._entries + index
        if index == self._end or entry.offset != offset or entry.size == _FINISHED:
            return 0
        self.count -= 1
        self.size -= entry.size
        entry.size = _FINISHED
        while self._first < self._end and self._entries[self._first].size == _FINISHED:
            self._first += 1
        while self._first < self._end and self._entries[self._end - 1].size == _FINISHED:
            self._end -= 1
        return 0

    def finish_all(self, offsets):
        for offset in offsets:
            self.finish(offset)

    cdef int _add(self, Entry entry) except -1:
        if self._end == self._capacity:
            self._make_room()
        self._entries[self._end] = entry
        self._end += 1
        self.count += 1
        self.size += entry.size
        self.next_offset = entry.offset + 1
        return 0

    cdef int _make_room(self) except -1:
        cdef Py_ssize_t used = self._end - self._first
        cdef Py_ssize_t capacity = max(2 * used, _CAPACITY_MIN)
        cdef Entry* entries
        if self._first:
            memmove(self._entries, self._entries + self._first, used * sizeof(Entry))
            self._first, self._end = 0, used
        entries = <Entry*>PyMem_Realloc(self._entries, capacity * sizeof(Entry))
        if entries is NULL:
            raise MemoryError
        self._entries = entries
        self._capacity = capacity
        return 0

    cdef Py_ssize_t _index_of(self, int64_t offset) noexcept:
        """Of the first entry that does not lie before the offset."""
        cdef Py_ssize_t low = self._first
        cdef Py_ssize_t high = self._end
        cdef Py_ssize_t middle
        while low < high:
            middle = (low + high) // 2
            if self._entries[middle].offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

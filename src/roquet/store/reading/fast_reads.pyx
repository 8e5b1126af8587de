# cython: boundscheck=False, wraparound=False
"""The fast path of reads, most of all for pulls: the messages exist and lie in one file of the log.

Everything else is left to the slow path, `MessageReader`, which returns the reason as a status;
then nothing has changed here.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from roquet.protocol.binary cimport Span, int64_t, uint8_t
from roquet.store.queue_entries cimport ENTRY_SIZE, entry_offset
from roquet.store.reading.gathering cimport Gathering
from roquet.store.write_cursors cimport LogCursor, QueueCursor

from roquet.store.reading.queue_reading import FRESH_SIZE, SCAN_COUNT_MIN

cdef Py_ssize_t _SCAN_COUNT_MIN = SCAN_COUNT_MIN


@cython.final
cdef class FastReads:
    """Of one store; `obey` is called before the first read."""

    def __init__(self, LogCursor log not None, dict queues not None, *, bint is_sync):
        """`queues` by encoded topic and id."""
        self._log = log
        self._queues = queues
        self._is_sync = is_sync
        self._fresh_size = FRESH_SIZE

    def obey(self, config):
        self._check_reads = config.check_reads
        self._in_memory_size = config.in_memory_size
        self._count_max_in_memory = config.read_count_max_in_memory
        self._size_max_in_memory = config.read_size_max_in_memory
        self._count_max_on_disk = config.read_count_max_on_disk
        self._size_max_on_disk = config.read_size_max_on_disk

    def read(self, bytes topic not None, int64_t queue_id, int64_t offset, limits):
        """The records, and the bounds of the queue; None for what the slow path has to answer."""
        cdef QueueBounds bounds
        cdef Gathering found = self.find(topic, queue_id, offset, limits, &bounds)
        return None if found is None else (found, bounds.min_offset, bounds.max_offset)

    cdef bint find_bounds(self, bytes topic, int64_t queue_id, QueueBounds* bounds) except -1:
        """Whether there is such a queue; both bounds are 0 if not."""
        cdef QueueCursor queue = self._queues.get((topic, queue_id))
        bounds.min_offset = bounds.max_offset = 0
        if queue is None:
            return False
        bounds.min_offset = queue.min_offset
        bounds.max_offset = self._max_offset(queue)
        return True

    cdef Gathering find(
        self, bytes topic, int64_t queue_id, int64_t offset, limits, QueueBounds* bounds
    ):
        """The records; None for what the slow path has to answer."""
        cdef QueueCursor queue = self._queues.get((topic, queue_id))
        if queue is None:
            return None
        try:
            return self._find(queue, topic, queue_id, offset, limits, bounds)
        except OSError:
            # A file cannot be opened now. The slow path reports why.
            return None

    cdef Gathering _find(
        self,
        QueueCursor queue,
        bytes topic,
        int64_t queue_id,
        int64_t offset,
        limits,
        QueueBounds* bounds,
    ):
        cdef Gathering found
        cdef Py_buffer view
        cdef int64_t start, count
        bounds.min_offset = queue.min_offset
        bounds.max_offset = self._max_offset(queue)
        if not bounds.min_offset <= offset < bounds.max_offset:
            return None
        found = Gathering.__new__(Gathering)
        found.ask_for(limits)
        count = min(_scan_count(found), bounds.max_offset - offset)
        # Nearly always the entries are in the file that is written to, which is at hand.
        entries = queue.mapping
        start = queue.position - (queue.max_offset - offset) * ENTRY_SIZE
        if entries is None or start < 0:
            file = _file_at(queue.files, offset * ENTRY_SIZE)
            if file is None:
                return None
            entries = file.mapping
            start = offset * ENTRY_SIZE - <int64_t>file.start
        PyObject_GetBuffer(entries, &view, PyBUF_SIMPLE)
        try:
            found.begin(
                Span(
                    <const uint8_t*>view.buf + start, min(count * ENTRY_SIZE, view.len - start)
                ),
                offset,
                topic,
                queue_id,
            )
            return found if self._gather(found, limits.is_bulk) else None
        finally:
            found.entries = Span(NULL, 0)
            PyBuffer_Release(&view)

    cdef bint _gather(self, Gathering found, bint is_bulk) except -1:
        """Whether everything that was asked for is here."""
        cdef int64_t first
        if found.entries.size < ENTRY_SIZE:
            return False
        first = entry_offset(found.entries.start)
        file = self._log.file
        if file is None or first < self._log.file_start:
            file = _file_at(self._log.files, first)
            if file is None:
                return False
        self._limit(found, first, is_bulk)
        found.take_common(
            self._log.mapping if file is self._log.file else file.mapping,
            file.start,
            self._log.end,
            file.is_verified,
            file.checksums_from,
            max(self._log.end - self._fresh_size, self._log.written_from)
            if self._check_reads
            else 0,
        )
        return found.count and found._find_entry() is NULL

    cdef int64_t _max_offset(self, QueueCursor queue) except -1:
        """As in `MessageStore`: what is not safe yet cannot be read yet."""
        cdef int64_t end = self._log.synced_end if self._is_sync else self._log.end
        end = min(end, self._log.confirmed_end)
        return queue.max_offset if end == self._log.end else queue.offset_before(end)

    cdef void _limit(self, Gathering found, int64_t first, bint is_bulk) noexcept:
        """As in `MessageReader`."""
        if is_bulk:
            return
        if self._log.end - first > self._in_memory_size:
            found.count_max = min(found.count_max, self._count_max_on_disk)
            found.size_max = min(found.size_max, self._size_max_on_disk)
        else:
            found.count_max = min(found.count_max, self._count_max_in_memory)
            found.size_max = min(found.size_max, self._size_max_in_memory)


cdef object _file_at(list files, int64_t offset):
    """As in `MappedRun`, if all files have one size and none is missing; else None."""
    if not files:
        return None
    cdef int64_t start = files[0].start
    cdef int64_t size = files[0].size
    if offset < start or (offset - start) // size >= len(files):
        return None
    file = files[(offset - start) // size]
    return file if <int64_t>file.start == start + (offset - start) // size * size else None


cdef Py_ssize_t _scan_count(Gathering found) noexcept:
    """As in `MessageReader`: a filter may drop most of them."""
    if found.matches_code is None and found.matches_record is None:
        return max(1, found.count_max)
    return max(_SCAN_COUNT_MIN, found.count_max)


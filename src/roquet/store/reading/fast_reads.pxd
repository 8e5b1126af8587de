from roquet.protocol.binary cimport int64_t
from roquet.store.reading.gathering cimport Gathering
from roquet.store.write_cursors cimport LogCursor, QueueCursor


cdef struct QueueBounds:
    int64_t min_offset, max_offset


cdef class FastReads:
    cdef LogCursor _log
    cdef dict _queues
    cdef bint _is_sync, _check_reads
    cdef int64_t _in_memory_size, _fresh_size
    # Limits of reads from memory and, smaller, of reads from disk.
    cdef Py_ssize_t _count_max_in_memory, _count_max_on_disk
    cdef int64_t _size_max_in_memory, _size_max_on_disk

    cdef bint find_bounds(self, bytes topic, int64_t queue_id, QueueBounds* bounds) except -1
    cdef Gathering find(
        self, bytes topic, int64_t queue_id, int64_t offset, limits, QueueBounds* bounds
    )
    cdef Gathering _find(
        self,
        QueueCursor queue,
        bytes topic,
        int64_t queue_id,
        int64_t offset,
        limits,
        QueueBounds* bounds,
    )
    cdef bint _gather(self, Gathering found, bint is_bulk) except -1
    cdef int64_t _max_offset(self, QueueCursor queue) except -1
    cdef void _limit(self, Gathering found, int64_t first, bint is_bulk) noexcept

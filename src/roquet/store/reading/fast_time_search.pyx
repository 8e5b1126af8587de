# cython: boundscheck=False, wraparound=False
"""The search of `offset_by_time` in queue_reading.py, for a queue without gaps.

Each message that is looked at has an entry, and a record there with a correct checksum, unless this
process wrote it moments ago. If one has not, the search is left to the slow path, which goes on to the next that can be read.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer

from roquet.protocol.binary cimport Span, get_int64, int64_t, uint8_t
from roquet.protocol.messages.record_layout cimport PHYSICAL_OFFSET_AT
from roquet.protocol.messages.record_parts cimport (
    RecordParts,
    ends_in_checksum,
    has_common_layout,
    has_right_checksum,
    locate_record,
    store_timestamp_of,
)
from roquet.store.queue_entries cimport ENTRY_SIZE, entry_offset, entry_size
from roquet.store.write_cursors cimport LogCursor, QueueCursor

cdef enum:
    _NO_TIME = -1


def fast_offset_by_time(
    QueueCursor queue not None,
    LogCursor log not None,
    int64_t max_offset,
    int64_t timestamp,
    *,
    bint is_upper,
    int64_t fresh_from,
):
    """The offset; None if the slow path has to search.

    Records from `fresh_from` on are not compared with their checksums.
    """
    cdef _View entries = _View(queue.files, max_offset * ENTRY_SIZE)
    cdef _View records = _View(log.files, log.end)
    cdef int64_t low = queue.min_offset
    cdef int64_t high = max_offset
    cdef int64_t middle, found
    try:
        while low < high:
            middle = (low + high) // 2
            found = _store_time(entries, records, middle, fresh_from)
            if found == _NO_TIME:
                return None
            if found > timestamp or (found == timestamp and not is_upper):
                high = middle
            else:
                low = middle + 1
    except OSError:
        # A file cannot be opened now. The slow path reports why.
        return None
    finally:
        entries.release()
        records.release()
    return max(low - 1, queue.min_offset) if is_upper else low


cdef int64_t _store_time(
    _View entries, _View records, int64_t offset, int64_t fresh_from
) except -2:
    cdef Span entry = entries.bytes_from(offset * ENTRY_SIZE)
    cdef Span place
    cdef RecordParts record
    cdef int64_t physical_offset
    if entry.size < ENTRY_SIZE:
        return _NO_TIME
    physical_offset = entry_offset(entry.start)
    place = records.bytes_from(physical_offset)
    if (
        not locate_record(place.start, place.size, &record)
        or record.size != entry_size(entry.start)
        or not has_common_layout(record.start)
        or get_int64(record.start + PHYSICAL_OFFSET_AT) != physical_offset
        or not ends_in_checksum(&record)
        or not (physical_offset >= fresh_from or has_right_checksum(&record))
    ):
        return _NO_TIME
    return max(_NO_TIME, store_timestamp_of(&record))


@cython.final
cdef class _View:
    """Bytes of files, of which one is held at a time: a search soon stays in one."""

    cdef list _files
    cdef int64_t _end, _start, _size
    cdef Py_buffer _buffer
    cdef bint _is_held

    def __init__(self, list files, int64_t end):
        self._files = files
        self._end = end

    cdef Span bytes_from(self, int64_t position) except *:
        """Up to the end of the file, or of all; empty if there are none."""
        cdef int64_t end
        if not self._is_held or not self._start <= position < self._start + self._size:
            if not self._hold(position):
                return Span(NULL, 0)
        end = min(self._start + self._size, self._end)
        if position >= end:
            return Span(NULL, 0)
        return Span(<const uint8_t*>self._buffer.buf + (position - self._start), end - position)

    cdef bint _hold(self, int64_t position) except -1:
        """Whether there is such a file; all have one size, and none is missing."""
        cdef int64_t start, size, index
        self.release()
        if not self._files:
            return False
        start = self._files[0].start
        size = self._files[0].size
        index = (position - start) // size
        if position < start or index >= len(self._files):
            return False
        file = self._files[index]
        if <int64_t>file.start != start + index * size:
            return False
        PyObject_GetBuffer(file.mapping, &self._buffer, PyBUF_SIMPLE)
        self._is_held = True
        self._start = file.start
        self._size = self._buffer.len
        return True

    cdef void release(self) noexcept:
        if self._is_held:
            PyBuffer_Release(&self._buffer)
            self._is_held = False

# cython: boundscheck=False, wraparound=False
"""The fast path of appends: the files that are written to have room, and nothing has to be created.

The result is that of `MessageStore.append`, by the same numbers (`write_cursors.pyx`). A new queue,
a new file, more space on disk or a refusal are left to the slow path, `appends.py`.
"""

cimport cython
from cpython.buffer cimport PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer

from roquet.protocol.binary cimport Span, int64_t, span_of, uint8_t
from roquet.protocol.messages.drafts cimport Item, RecordDraft
from roquet.protocol.messages.tags cimport code_of, find_tags
from roquet.store.queue_entries cimport ENTRY_SIZE, put_entry
from roquet.store.write_cursors cimport LogCursor, QueueCursor

from roquet.store.keys.key_index import BATCH_COUNT

cdef Py_ssize_t _FILED_AT_ONCE = BATCH_COUNT


@cython.final
cdef class FastAppends:
    """Created by the store from its own parts; `index` is None if keys are not indexed."""

    def __init__(
        self,
        LogCursor log not None,
        dict queues not None,
        index,
        admission,
        flusher,
        *,
        Py_ssize_t body_size_max,
        bint is_sync,
    ):
        self.log = log
        self.body_size_max = body_size_max
        self._queues = queues
        self._index = index
        self._unfiled = [] if index is None else index.unfiled
        self._admission = admission
        self._flusher = flusher
        self._is_sync = is_sync

    cdef bint is_open(self) except -1:
        """Whether the store accepts messages now."""
        return self._admission.refusal is None

    cdef QueueCursor find(self, bytes topic, int64_t queue_id):
        """None if there is no such queue, or no room in it."""
        cdef QueueCursor queue = self._queues.get((topic, queue_id))
        if queue is None or queue.position >= queue.reserved_position:
            return None
        return queue

    cdef bint append(
        self,
        QueueCursor queue,
        RecordDraft common,
        const Item* items,
        Py_ssize_t count,
        int64_t store_timestamp,
        int64_t* physical_offsets,
        const int64_t* code,
    ) except -1:
        """Store `items`, all or none, and set their offsets; False without space: no change.

        `code` is that of their entries; NULL for the hash of their tags.
        """
        cdef LogCursor log = self.log
        cdef int64_t physical_offset = log.end
        cdef int64_t size = 0
        cdef Py_ssize_t index
        cdef Span shared_tags = find_tags(span_of(common.kept_properties))
        cdef Span tags
        cdef Py_buffer records, entries
        cdef uint8_t* record
        cdef uint8_t* entry
        for index in range(count):
            size += items[index].size
        if (
            physical_offset + size > log.used_end
            or queue.position + count * ENTRY_SIZE > queue.reserved_position
        ):
            return False
        PyObject_GetBuffer(log.mapping, &records, PyBUF_WRITABLE)
        try:
            PyObject_GetBuffer(queue.mapping, &entries, PyBUF_WRITABLE)
            try:
                record = <uint8_t*>records.buf + (physical_offset - log.file_start)
                entry = <uint8_t*>entries.buf + queue.position
                for index in range(count):
                    tags = shared_tags
                    if tags.start is NULL:
                        tags = find_tags(items[index].properties)
                    record = common.put(
                        record,
                        &items[index],
                        queue.max_offset + index,
                        physical_offset,
                        store_timestamp,
                    )
                    entry = put_entry(
                        entry,
                        physical_offset,
                        items[index].size,
                        code_of(tags) if code is NULL else code[0],
                    )
                    physical_offsets[index] = physical_offset
                    physical_offset += items[index].size
            finally:
                PyBuffer_Release(&entries)
        finally:
            PyBuffer_Release(&records)
        log.last_store_timestamp = store_timestamp
        log.end = physical_offset
        queue.position += count * ENTRY_SIZE
        queue.max_offset += count
        self._note_unfiled(physical_offsets, count)
        return True

    cdef int want_flush(self) except -1:
        """With sync flush, have what was appended synced soon."""
        if self._is_sync:
            self._flusher.want()
        return 0

    cdef int _note_unfiled(self, const int64_t* physical_offsets, Py_ssize_t count) except -1:
        cdef Py_ssize_t index
        if self._index is None or not self._index.is_following:
            return 0
        for index in range(count):
            self._unfiled.append(physical_offsets[index])
        if len(self._unfiled) >= _FILED_AT_ONCE:
            self._index.file_unfiled(self.log)
        return 0

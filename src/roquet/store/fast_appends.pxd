from roquet.protocol.binary cimport int64_t
from roquet.protocol.messages.drafts cimport Item, RecordDraft
from roquet.store.write_cursors cimport LogCursor, QueueCursor


cdef class FastAppends:
    cdef readonly LogCursor log
    cdef readonly Py_ssize_t body_size_max
    cdef object _admission, _index, _flusher
    cdef dict _queues
    cdef list _unfiled
    cdef bint _is_sync

    cdef bint is_open(self) except -1
    cdef QueueCursor find(self, bytes topic, int64_t queue_id)
    cdef bint append(
        self,
        QueueCursor queue,
        RecordDraft common,
        const Item* items,
        Py_ssize_t count,
        int64_t store_timestamp,
        int64_t* physical_offsets,
        const int64_t* code,
    ) except -1
    cdef int want_flush(self) except -1
    cdef int _note_unfiled(self, const int64_t* physical_offsets, Py_ssize_t count) except -1

from roquet.protocol.binary cimport Span, int64_t, uint8_t
from roquet.protocol.messages.drafts cimport RecordDraft
from roquet.protocol.scratch cimport Scratch
from roquet.store.fast_appends cimport FastAppends


cdef class RecordTexts:
    cdef FastAppends appends
    cdef RecordDraft _draft
    cdef bytes _topic, _host
    # The texts of the properties of a pop, of an ack and of several, before the time and after it.
    cdef bytes _pop_start, _pop_next, _ack_start, _acks_start
    # Make the pieces of bodies, by group and topic.
    cdef object _pop_pieces, _ack_pieces, _acks_pieces
    cdef dict _pops, _ack, _acks
    cdef Scratch _scratch

    cdef int64_t put_pop(
        self,
        int64_t journal_queue_id,
        key,
        offsets,
        int64_t invisible_ms,
        int64_t next_offset,
        int64_t now_ms,
    ) except -2
    cdef int64_t put_acks(
        self, int64_t journal_queue_id, key, offsets, int64_t now_ms
    ) except -2
    cdef int64_t _append(
        self, int64_t journal_queue_id, Span body, Span properties, int64_t now_ms
    ) except -2
    cdef tuple _pieces(self, dict known, write, queue)
    cdef uint8_t* _room(self, tuple pieces, bytes properties, Py_ssize_t count) except NULL

from roquet.broker.pop.in_flight cimport InFlight
from roquet.broker.pop.record_texts cimport RecordTexts
from roquet.protocol.binary cimport int64_t


cdef class FastNotes:
    cdef RecordTexts _texts
    cdef InFlight in_flight
    # Of the journal; see there.
    cdef dict _next_offsets
    cdef set _popped
    cdef object _clock, _wake_before

    cpdef int64_t note_pop(
        self, key, offsets, int64_t invisible_ms, int64_t next_offset, int64_t now_ms
    ) except -2
    cpdef int64_t note_acks(self, key, offsets) except -2
    cdef int _pass(self, int64_t journal_queue_id, int64_t offset) except -1

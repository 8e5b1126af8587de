from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.popped_header cimport Popped
from roquet.broker.pop.fast_notes cimport FastNotes
from roquet.broker.tables.tally cimport Tally
from roquet.protocol.binary cimport Span, int64_t
from roquet.protocol.scratch cimport Scratch
from roquet.store.reading.fast_reads cimport FastReads


cdef class PopDecision:
    # What was decided by: settings that may be replaced, and words of the pop.
    cdef object config, group_settings, topic_settings
    cdef bytes expression, expression_type
    cdef str group, topic
    cdef bytes encoded_group, encoded_topic
    # What was decided: None if such pops take the slow path.
    cdef object wanted
    cdef int64_t queue_count, size_max
    cdef tuple retry_topics
    # Made once: limits of reads by count, and the queues.
    cdef dict limits, queues
    # Looked up once.
    cdef Tally gets


cdef class PoppedBatch:
    # Messages of one queue: what `Batch` of `pop/taken.py` is.
    cdef object key, offsets
    cdef int64_t queue_id, start, first, next_offset
    cdef Py_ssize_t count
    cdef bytes body
    # Messages that are left, in this queue and those before it.
    cdef int64_t rest_count


cdef class FastPops:
    cdef object _broker, _clock, _find_topic, _find_group, _offsets, _statistics, _store
    cdef object _journal, _first_queue
    # Those of the journal, for the pop at hand.
    cdef FastNotes _notes
    cdef FastReads _reads
    cdef Tally _gets
    cdef dict _known, _resets
    cdef bint _is_sync
    # What the pop at hand has found, and what is left of it to take.
    cdef list _batches
    cdef int64_t _count_left, _size_left
    # How much is left where it did not look.
    cdef int64_t _rest_count
    cdef Scratch _scratch

    cdef Py_ssize_t take(self, const ScannedHeader* header, list replies) except -2
    cdef bint _plan(self, PopDecision pop, const Popped* popped, int64_t now_ms) except -1
    cdef bint _has_retries(self, PopDecision pop) except -1
    cdef int _look_at(
        self, PopDecision pop, const Popped* popped, int64_t queue_id, known, int64_t now_ms
    ) except -1
    cdef bint _has_room(self, PopDecision pop, int64_t queue_id) except -1
    cdef PoppedBatch _found(
        self, PopDecision pop, int64_t queue_id, int64_t start, object limits, int64_t now_ms
    )
    cdef bint _hand_out(self, PopDecision pop, int64_t invisible_ms, int64_t now_ms) except -1
    cdef int _note(self, PoppedBatch batch, int64_t invisible_ms, int64_t now_ms) except -1
    cdef Py_ssize_t _answer(
        self,
        PopDecision pop,
        const Popped* popped,
        int64_t opaque,
        int64_t now_ms,
        list replies,
    ) except -2
    cdef PopDecision _pop(self, const Popped* popped)
    cdef PopDecision _decide(self, bytes group, bytes topic, const Popped* popped)

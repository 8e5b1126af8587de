from libc.stdint cimport int32_t, int64_t

from roquet.broker.tables.tally cimport Tally
from roquet.grpc.http2 cimport Ending, Http2Session
from roquet.grpc.sent_message cimport SentMessage
from roquet.protocol.binary cimport Span
from roquet.protocol.messages.drafts cimport RecordDraft
from roquet.protocol.scratch cimport Scratch
from roquet.store.fast_appends cimport FastAppends
from roquet.store.write_cursors cimport QueueCursor


cdef class TopicDecision:
    # What was decided by, and may be replaced.
    cdef object settings, config
    # What was decided.
    cdef str name
    cdef bytes encoded_name
    cdef Py_ssize_t queue_count
    cdef bint takes_normal, takes_groups
    cdef RecordDraft draft
    # Looked up once.
    cdef list queues
    cdef Tally puts


cdef class FastSends:
    cdef object _broker, _find_topic, _long_polls
    cdef FastAppends _appends
    cdef Tally _puts
    cdef Ending _ending
    cdef tuple _headers, _trailers
    cdef dict _topics
    cdef TopicDecision _last_topic
    cdef bytes _born_host
    cdef int64_t _now_ms
    cdef Scratch _scratch

    cdef bint begin(self, bytes born_host, int64_t now_ms) except -1
    cdef bint take(self, Http2Session session, int32_t stream_id, Span request) except -1
    cdef TopicDecision _topic(self, Span name)
    cdef TopicDecision _decide(self, bytes name)
    cdef int64_t _queue_id(self, TopicDecision topic, Span group) except -1
    cdef bint _append(
        self, TopicDecision topic, int64_t queue_id, const SentMessage* sent, int64_t* offset
    ) except -1
    cdef Span _properties(self, TopicDecision topic, const SentMessage* sent) except *
    cdef bytes _answer(self, Span message_id, int64_t offset)

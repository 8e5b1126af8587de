from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.reply_buffer cimport ReplyBuffer
from roquet.broker.fast_path.sends cimport Diversion, FastSends
from roquet.broker.fast_path.sent_header cimport SentBack
from roquet.protocol.binary cimport Span, int64_t


cdef class GroupDecision:
    # What was decided by, and may be replaced.
    cdef object settings, topic_settings, config
    cdef str name, retry_topic, dlq_topic
    # What was decided: 0 if its send-backs take the slow path.
    cdef Py_ssize_t queue_count
    cdef int64_t count_max
    cdef int level_count
    # By queue and level; and for dead letters, None if those take the slow path.
    cdef dict diversions
    cdef Diversion dead_letters


cdef class FastSendBacks:
    cdef object _broker, _find_topic, _find_group, _statistics
    cdef FastSends _sends
    cdef bytes _store_host, _schedule_topic
    # The reply, around its opaque.
    cdef bytes _reply_start, _reply_end
    cdef bint _is_sync
    cdef dict _groups

    cdef bint take(self, const ScannedHeader* header, ReplyBuffer replies) except -1
    cdef bint _store_again(
        self,
        GroupDecision group,
        const ScannedHeader* header,
        const SentBack* back,
        mapping,
        int64_t file_start,
    ) except -1
    cdef bint _store_from(
        self,
        GroupDecision group,
        const ScannedHeader* header,
        const SentBack* back,
        Span file,
        int64_t file_start,
    ) except -1
    cdef Diversion _retry(self, GroupDecision group, int level)
    cdef Diversion _dead_letters(self, GroupDecision group)
    cdef GroupDecision _group(self, Span name)
    cdef GroupDecision _decide_group(self, bytes name)
    cdef int _answer_back(self, int64_t opaque, ReplyBuffer replies) except -1

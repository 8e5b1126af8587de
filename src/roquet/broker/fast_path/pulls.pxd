from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.pulled_header cimport Pulled
from roquet.broker.tables.tally cimport Tally
from roquet.protocol.binary cimport int64_t
from roquet.store.reading.gathering cimport Gathering
from roquet.store.reading.fast_reads cimport QueueBounds, FastReads


cdef class PullDecision:
    # What was decided by: settings and heartbeats that may be replaced, and words of the pull.
    cdef object config, group_settings, topic_settings, members, subscription_data, message_model
    cdef int64_t count_max, size_max, sub_version
    cdef bint has_own_subscription
    cdef bytes subscription, expression_type
    cdef str group, topic
    cdef bytes encoded_group, encoded_topic
    # What was decided: None if such pulls take the slow path.
    cdef object limits
    cdef int64_t queue_count
    # Looked up once.
    cdef Tally gets


cdef class FastPulls:
    cdef object _broker, _find_topic, _find_group, _find_members, _offsets, _statistics
    cdef FastReads _reads
    cdef Tally _gets
    cdef dict _known, _resets, _pulled_to
    cdef PullDecision _last
    # Whose tables were read since the first pull.
    cdef PullDecision _looked_up

    cdef void begin(self) noexcept
    cdef Py_ssize_t take(self, connection, const ScannedHeader* header, list replies) except -2
    cdef Py_ssize_t _hand_out(
        self,
        PullDecision pull,
        const Pulled* pulled,
        int64_t opaque,
        Gathering gathering,
        const QueueBounds* bounds,
        list replies,
    ) except -2
    cdef Py_ssize_t _answer(
        self,
        PullDecision pull,
        const Pulled* pulled,
        const ScannedHeader* header,
        connection,
        list replies,
    ) except -2
    cdef PullDecision _pull(self, const Pulled* pulled)
    cdef bint _holds(self, PullDecision pull) except -1
    cdef bint _is_subscribed_alike(self, PullDecision pull) except -1
    cdef PullDecision _decide(self, bytes group, bytes topic, const Pulled* pulled)

from libc.stdint cimport int32_t, int64_t

from roquet.grpc.ack_request cimport AckRequest
from roquet.grpc.http2 cimport Ending, Http2Session
from roquet.protocol.binary cimport Span
from roquet.protocol.scratch cimport Scratch


cdef class GroupDecision:
    # What was decided by, and may be replaced.
    cdef object settings
    # What was decided.
    cdef bytes encoded_name, encoded_topic
    cdef str name, topic
    # By their numbers, as the journal names them.
    cdef dict queues


cdef class FastAck:
    cdef object _connection
    cdef Http2Session _session
    cdef Ending _ending
    cdef int32_t _stream_id
    # As they came, and what to answer if nothing is refused.
    cdef bytes _request, _answer
    # The pop of each entry.
    cdef list _keys


cdef class FastAcks:
    cdef object _broker, _find_topic, _turn, _clients
    cdef Ending _ending
    cdef dict _groups
    cdef GroupDecision _last_group
    cdef int64_t _now_ms
    cdef Scratch _scratch

    cdef void begin(self, int64_t now_ms) noexcept
    cdef bint take(
        self,
        object connection,
        Http2Session session,
        int32_t stream_id,
        Span client_id,
        Span request,
    ) except -1
    cdef GroupDecision _group(self, Span group, Span topic)
    cdef GroupDecision _decide(self, bytes group, bytes topic)
    cdef bint _holds(self, Span client_id) except -1
    cdef bytes _answer(self, const AckRequest* found)

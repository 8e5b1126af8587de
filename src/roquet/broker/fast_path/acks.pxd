from roquet.broker.fast_path.acked_header cimport Acked
from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.reply_buffer cimport ReplyBuffer
from roquet.broker.fast_path.success_reply cimport SuccessReply
from roquet.protocol.binary cimport int64_t
from roquet.store.reading.fast_reads cimport FastReads, QueueBounds


cdef class AckRun:
    cdef object connection, key
    cdef bytes group, topic
    cdef Acked first
    cdef QueueBounds bounds
    cdef list offsets, opaques
    # The replies to all of them, if they are noted.
    cdef bytes frames

    cdef bint goes_on_with(self, const Acked* acked) noexcept


cdef class FastAcks:
    cdef object _broker, _ack_turn, _find_topic
    cdef FastReads _reads
    cdef SuccessReply _success
    cdef ReplyBuffer _replies
    # Acks that are not handed over yet, and how many more may be deferred.
    cdef AckRun _run
    cdef int64_t _room

    cdef bint take(self, connection, const ScannedHeader* header) except -1
    cdef AckRun _start(self, connection, const Acked* acked)
    cdef Py_ssize_t finish(self) except -1

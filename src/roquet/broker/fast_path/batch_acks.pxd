from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.broker.fast_path.success_reply cimport SuccessReply
from roquet.protocol.binary cimport Span, int64_t
from roquet.store.reading.fast_reads cimport FastReads


cdef class FastBatchAcks:
    cdef object _broker, _ack_turn, _journal
    cdef FastReads _reads
    cdef SuccessReply _success
    cdef bint _is_sync

    cdef Py_ssize_t take(self, const ScannedHeader* header, Span body, list replies) except -2
    cdef bint _note(self, ack) except -1
    cdef bytes _reply(self, int64_t opaque)

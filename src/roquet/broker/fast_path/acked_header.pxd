from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.protocol.binary cimport Span, int64_t


cdef struct Acked:
    Span group, topic
    int64_t queue_id, offset
    # Of the receipt.
    int64_t start_offset, pop_time_ms, revive_queue_id


cdef bint read_acked(const ScannedHeader* header, Acked* acked) noexcept nogil

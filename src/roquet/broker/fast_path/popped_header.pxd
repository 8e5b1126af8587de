from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.protocol.binary cimport Span, int64_t


cdef struct Popped:
    Span group, topic, expression, expression_type  # the last two may begin nowhere
    int64_t queue_id, count_max, invisible_ms, poll_ms, born_ms, init_mode
    bint is_ordered


cdef bint read_popped(const ScannedHeader* header, Popped* popped) noexcept nogil

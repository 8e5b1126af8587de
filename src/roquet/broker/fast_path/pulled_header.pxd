from roquet.broker.fast_path.header_scan cimport ScannedHeader
from roquet.protocol.binary cimport Span, int64_t


cdef struct Pulled:
    Span group, topic, subscription, expression_type  # the last two may begin nowhere
    int64_t queue_id, queue_offset, count_max, sys_flag, commit_offset, sub_version
    int64_t suspend_timeout_ms
    int64_t size_max  # 0 if the pull has none


cdef bint read_pulled(const ScannedHeader* header, Pulled* pulled) noexcept nogil

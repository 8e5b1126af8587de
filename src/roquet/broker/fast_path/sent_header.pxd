from roquet.broker.fast_path.header_scan cimport Field, ScannedHeader
from roquet.protocol.binary cimport Span, int64_t
from roquet.protocol.messages.drafts cimport Origin


cdef struct Sent:
    Origin origin
    int64_t flag
    bint is_batch
    Span topic
    Span properties  # as JSON has them


cdef struct SentBack:
    int64_t physical_offset, delay_level, count_max
    bint has_count_max
    Span group


cdef bint read_sent_back(const ScannedHeader* header, SentBack* back) noexcept nogil
cdef bint read_sent(const ScannedHeader* header, Sent* sent) noexcept nogil

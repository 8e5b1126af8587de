from roquet.protocol.binary cimport Span, int64_t

cdef enum:
    ACK_COUNT_MAX = 64


cdef struct AckedMessage:
    Span message_id, handle
    # Of its receipt.
    int64_t start_offset, pop_time_ms, invisible_ms, queue_id, offset


cdef struct AckRequest:
    Span group, topic
    AckedMessage acks[ACK_COUNT_MAX]
    Py_ssize_t count


cdef bint read_ack_request(Span request, AckRequest* found) noexcept

from roquet.protocol.binary cimport Span, int64_t


cdef struct PopReply:
    int64_t pop_time_ms, invisible_ms, revive_queue_id, rest_count
    # Where check points start, and the offsets of messages, as `broker/pop/receipts.py` has them.
    Span starts, offsets
    int64_t opaque


cdef bytes popped_header(const PopReply* reply, Py_ssize_t body_size)

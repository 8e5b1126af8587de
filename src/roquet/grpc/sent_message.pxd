from roquet.protocol.binary cimport Span, int64_t

cdef enum:
    KEY_COUNT_MAX = 16
    USER_COUNT_MAX = 32


cdef struct SentMessage:
    Span topic, body
    # Without a start where there is none.
    Span tag, message_id, born_host, group, trace_context
    # 0 where there is none.
    int64_t born_ms
    bint is_zipped
    Span keys[KEY_COUNT_MAX]
    Py_ssize_t key_count
    Span names[USER_COUNT_MAX]
    Span values[USER_COUNT_MAX]
    Py_ssize_t user_count
    # Of its tag, keys and user properties.
    Py_ssize_t texts_size


cdef bint read_sent_message(Span request, SentMessage* sent) except -1
cdef Py_ssize_t properties_size_max(const SentMessage* sent) noexcept

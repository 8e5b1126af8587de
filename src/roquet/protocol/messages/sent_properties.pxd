from roquet.protocol.binary cimport Span, uint8_t
from roquet.protocol.messages.record_parts cimport RecordParts

cdef enum:
    # What `put_sent_back` adds, but for the topic.
    BACK_SIZE_MAX = 128


cdef enum:
    # What a send may want instead of being stored at once; a delay level is greater than 0.
    WANTS_MORE = 0
    WANTS_TRANSACTION = -1


cdef Py_ssize_t put_stored(uint8_t* start, Span sent) noexcept nogil
cdef int want_of(Span sent) noexcept nogil
cdef Py_ssize_t put_sent_back(
    uint8_t* start, const RecordParts* record, int level, Span* first_topic
) noexcept nogil

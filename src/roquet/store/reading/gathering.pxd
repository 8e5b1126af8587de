from roquet.protocol.binary cimport Span, int32_t, int64_t, uint8_t
from roquet.protocol.messages.record_filter cimport RecordFilter
from roquet.protocol.messages.record_parts cimport RecordParts


cdef struct File:
    const uint8_t* data
    int64_t start  # in the log
    int64_t size
    bint is_verified
    int64_t checksums_from
    int64_t fresh_from


cdef class Gathering:
    cdef readonly Py_ssize_t count
    cdef readonly int64_t size
    cdef readonly int64_t offset
    cdef Py_ssize_t count_max
    cdef int64_t size_max
    cdef object matches_code, matches_record
    # The latter, if it is one.
    cdef RecordFilter record_filter
    # Borrowed: not to be read after the lender has released them.
    cdef Span entries
    cdef bytes own_entries
    cdef Py_ssize_t position
    cdef int32_t queue_id
    cdef bytes topic
    cdef list pieces

    # The two halves of the constructor: how many entries are needed depends on what is asked for.
    cdef int ask_for(self, limits) except -1
    cdef int begin(self, Span entries, int64_t offset, bytes topic, int64_t queue_id) except -1
    cpdef bint take_common(
        self,
        mapping,
        int64_t file_start,
        int64_t end,
        bint is_verified,
        int64_t checksums_from,
        int64_t fresh_from,
    ) except -1
    cdef bytes whole_body(self)
    cdef const uint8_t* _find_entry(self) except? NULL
    cdef bint _take_run(self, const File* file) except -1
    cdef void _fetch(self, const File* file, Py_ssize_t ahead, Py_ssize_t count) noexcept
    cdef bint _is_common_record(
        self, Span place, const File* file, RecordParts* record
    ) noexcept
    cdef bint _is_wanted(self, const RecordParts* record) except -1

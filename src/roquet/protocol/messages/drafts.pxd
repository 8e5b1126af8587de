from roquet.protocol.binary cimport Span, int32_t, int64_t, uint8_t, uint32_t


cdef struct Item:
    # What a message has for itself, where others share the rest.
    int32_t flag
    uint32_t body_crc
    Py_ssize_t size  # of its record
    Span body
    Span properties


cdef struct Origin:
    # What the messages of one send have in common, and those of the next send do not.
    int32_t queue_id, sys_flag, reconsume_times
    int64_t born_timestamp


cdef class RecordDraft:
    cdef readonly int32_t queue_id, flag, sys_flag, reconsume_times, magic
    cdef readonly int64_t born_timestamp, prepared_transaction_offset
    cdef readonly bytes born_host, store_host, topic, properties
    cdef readonly object body
    cdef readonly bint has_checksum
    # Found out by `complete`.
    cdef readonly uint32_t body_crc
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t body_size
    cdef bytes kept_properties

    cdef int complete(self, object body) except -1
    cdef int turn_to(self, const Origin* origin, bytes born_host) except -1
    cdef int _note_addresses(self) except -1
    cdef Py_ssize_t size_of(self, Py_ssize_t body_size, Span own) except -1
    cdef Py_ssize_t _properties_size(self, Span own) noexcept
    cdef uint8_t* put(
        self,
        uint8_t* start,
        const Item* item,
        int64_t queue_offset,
        int64_t physical_offset,
        int64_t store_timestamp,
    ) noexcept


cdef int open_target(
    object buffer, Py_buffer* target, Py_ssize_t position, Py_ssize_t size
) except -1

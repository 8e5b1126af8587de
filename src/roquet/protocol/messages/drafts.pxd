from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t


cdef struct Item:
    # What a message has for itself, where others share the rest.
    int32_t flag
    uint32_t body_crc
    Py_ssize_t size  # of its record
    const uint8_t* body
    Py_ssize_t body_size
    const uint8_t* properties
    Py_ssize_t properties_size
    int32_t tags_code


cdef class RecordDraft:
    cdef readonly int32_t queue_id, flag, sys_flag, reconsume_times, magic
    cdef readonly int64_t born_timestamp, prepared_transaction_offset
    cdef readonly bytes born_host, store_host, topic, properties
    cdef readonly object body
    cdef readonly bint has_checksum
    # Found out by `settle`.
    cdef readonly uint32_t body_crc
    cdef readonly Py_ssize_t size
    cdef Py_ssize_t body_size
    cdef bytes kept_properties

    cdef int settle(self, object body) except -1
    cdef int _note_addresses(self) except -1
    cdef Py_ssize_t _size_of(
        self, Py_ssize_t body_size, const uint8_t* own, Py_ssize_t own_size
    ) except -1
    cdef Py_ssize_t _properties_size(self, const uint8_t* own, Py_ssize_t own_size) noexcept
    cdef uint8_t* _put(
        self,
        uint8_t* start,
        const Item* item,
        int64_t queue_offset,
        int64_t physical_offset,
        int64_t store_timestamp,
    ) noexcept


cdef int32_t tags_code(const uint8_t* text, Py_ssize_t size, bint* is_tagged) except? -1

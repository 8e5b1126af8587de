"""An entry of a queue, as `consume_queue.py` draws it, for compiled code."""

from roquet.protocol.binary cimport get_int32, get_int64, int32_t, int64_t, put_int32, put_int64, uint8_t

cdef enum:
    ENTRY_SIZE = 20
    _SIZE_AT = 8
    _CODE_AT = 12


cdef inline int64_t entry_offset(const uint8_t* entry) noexcept nogil:
    """The physical offset of its record."""
    return get_int64(entry)


cdef inline int32_t entry_size(const uint8_t* entry) noexcept nogil:
    """The size of its record."""
    return get_int32(entry + _SIZE_AT)


cdef inline int64_t entry_code(const uint8_t* entry) noexcept nogil:
    return get_int64(entry + _CODE_AT)


cdef inline uint8_t* put_entry(
    uint8_t* at, int64_t physical_offset, int32_t size, int64_t code
) noexcept nogil:
    """Returns where the next one goes."""
    put_int64(at, physical_offset)
    put_int32(at + _SIZE_AT, size)
    put_int64(at + _CODE_AT, code)
    return at + ENTRY_SIZE

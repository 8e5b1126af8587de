"""Numbers in bytes, the most significant byte first, as everything of RocketMQ has them.

Nothing here checks where it reads or writes: the caller has.
"""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "zlib.h":
    unsigned long crc32_z(unsigned long crc, const uint8_t* at, size_t size) noexcept nogil


cdef inline uint16_t get_uint16(const uint8_t* at) noexcept nogil:
    return <uint16_t>(at[0] << 8 | at[1])


cdef inline int16_t get_int16(const uint8_t* at) noexcept nogil:
    return <int16_t>get_uint16(at)


cdef inline uint32_t get_uint32(const uint8_t* at) noexcept nogil:
    return (<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3]


cdef inline int32_t get_int32(const uint8_t* at) noexcept nogil:
    return <int32_t>get_uint32(at)


cdef inline int64_t get_int64(const uint8_t* at) noexcept nogil:
    return <int64_t>(<uint64_t>get_uint32(at) << 32 | get_uint32(at + 4))


cdef inline void put_int16(uint8_t* at, int32_t value) noexcept nogil:
    at[0] = <uint8_t>(value >> 8)
    at[1] = <uint8_t>value


cdef inline void put_int32(uint8_t* at, int64_t value) noexcept nogil:
    cdef uint32_t bits = <uint32_t>value
    at[0] = <uint8_t>(bits >> 24)
    at[1] = <uint8_t>(bits >> 16)
    at[2] = <uint8_t>(bits >> 8)
    at[3] = <uint8_t>bits


cdef inline void put_int64(uint8_t* at, int64_t value) noexcept nogil:
    put_int32(at, value >> 32)
    put_int32(at + 4, value)


cdef inline uint32_t crc31(const uint8_t* at, Py_ssize_t size) noexcept nogil:
    """A CRC-32 without its sign, as RocketMQ keeps them."""
    return <uint32_t>(crc32_z(0, at, <size_t>size) & 0x7FFFFFFF)

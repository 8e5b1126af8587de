"""Numbers in bytes, the most significant byte first, as RocketMQ writes them all, and texts.

Nothing here checks where it reads or writes: the caller has.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

cdef extern from "roquet/protocol/crc32.h":
    uint32_t roquet_crc32(const uint8_t* at, size_t size) noexcept nogil


cdef struct Span:
    # Bytes that are owned elsewhere.
    const uint8_t* start
    Py_ssize_t size


cdef inline Span span_of(bytes data) noexcept:
    return Span(<const uint8_t*>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))


cdef inline bytes bytes_of(Span span):
    return PyBytes_FromStringAndSize(<const char*>span.start, span.size)


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
    return roquet_crc32(at, <size_t>size) & 0x7FFFFFFF


cdef inline uint8_t* put_bytes(uint8_t* at, bytes data) noexcept:
    memcpy(at, PyBytes_AS_STRING(data), <size_t>PyBytes_GET_SIZE(data))
    return at + PyBytes_GET_SIZE(data)


cdef inline uint8_t* put_hex(uint8_t* at, int64_t value) noexcept nogil:
    """Sixteen digits."""
    cdef int shift = 60
    while shift >= 0:
        at[0] = <uint8_t>b"0123456789ABCDEF"[<uint64_t>value >> shift & 15]
        at += 1
        shift -= 4
    return at


cdef inline Py_ssize_t decimal_size(int64_t value) noexcept nogil:
    cdef uint64_t rest = <uint64_t>value
    cdef Py_ssize_t size = 1
    if value < 0:
        rest = 0 - rest
        size = 2
    while rest >= 10:
        rest //= 10
        size += 1
    return size


cdef inline uint8_t* put_decimal(uint8_t* at, int64_t value) noexcept nogil:
    cdef uint64_t rest = <uint64_t>value
    cdef uint8_t* end = at + decimal_size(value)
    cdef uint8_t* digit = end
    if value < 0:
        at[0] = b"-"
        rest = 0 - rest
    while True:
        digit -= 1
        digit[0] = <uint8_t>(48 + rest % 10)
        rest //= 10
        if not rest:
            return end

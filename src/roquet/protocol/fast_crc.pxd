"""CRC-32, as zlib makes it, at the speed of memory where the processor multiplies without carries.

Sixteen bytes at a time are folded into the next sixteen, four of them side by side; what is left in
the end is reduced to 32 bits. The constants are powers of x modulo the polynomial, back to front,
as in Intel's "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction". Short texts,
odd ends and other processors are left to zlib.
"""

from libc.stdint cimport uint8_t, uint32_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <stddef.h>
    #include <zlib.h>

    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>

    /* As many bytes as four registers hold, or more, and a multiple of 16. */
    __attribute__((target("pclmul,sse4.1")))
    static uint32_t roquet_folded_crc32(uint32_t crc, const uint8_t *at, size_t size)
    {
        const __m128i by_64 = _mm_set_epi64x(0x01c6e41596, 0x0154442bd4);
        const __m128i by_16 = _mm_set_epi64x(0x00ccaa009e, 0x01751997d0);
        const __m128i by_8 = _mm_set_epi64x(0, 0x0163cd6124);
        const __m128i polynomial = _mm_set_epi64x(0x01f7011641, 0x01db710641);
        const __m128i low_halves = _mm_setr_epi32(~0, 0, ~0, 0);
        const __m128i *from = (const __m128i *)at;
        __m128i folded[4], other;
        int lane;
        for (lane = 0; lane < 4; lane++)
            folded[lane] = _mm_loadu_si128(from + lane);
        folded[0] = _mm_xor_si128(folded[0], _mm_cvtsi32_si128((int)crc));
        for (from += 4, size -= 64; size >= 64; from += 4, size -= 64)
            for (lane = 0; lane < 4; lane++) {
                other = _mm_clmulepi64_si128(folded[lane], by_64, 0x00);
                folded[lane] = _mm_clmulepi64_si128(folded[lane], by_64, 0x11);
                folded[lane] = _mm_xor_si128(folded[lane], other);
                folded[lane] = _mm_xor_si128(folded[lane], _mm_loadu_si128(from + lane));
            }
        for (lane = 1; lane < 4; lane++) {
            other = _mm_clmulepi64_si128(folded[0], by_16, 0x00);
            folded[0] = _mm_clmulepi64_si128(folded[0], by_16, 0x11);
            folded[0] = _mm_xor_si128(_mm_xor_si128(folded[0], other), folded[lane]);
        }
        for (; size >= 16; from++, size -= 16) {
            other = _mm_clmulepi64_si128(folded[0], by_16, 0x00);
            folded[0] = _mm_clmulepi64_si128(folded[0], by_16, 0x11);
            folded[0] = _mm_xor_si128(_mm_xor_si128(folded[0], other), _mm_loadu_si128(from));
        }
        /* To 64 bits, to 32, and the remainder. */
        other = _mm_clmulepi64_si128(folded[0], by_16, 0x10);
        folded[0] = _mm_xor_si128(_mm_srli_si128(folded[0], 8), other);
        other = _mm_srli_si128(folded[0], 4);
        folded[0] = _mm_clmulepi64_si128(_mm_and_si128(folded[0], low_halves), by_8, 0x00);
        folded[0] = _mm_xor_si128(folded[0], other);
        other = _mm_clmulepi64_si128(_mm_and_si128(folded[0], low_halves), polynomial, 0x10);
        other = _mm_clmulepi64_si128(_mm_and_si128(other, low_halves), polynomial, 0x00);
        return (uint32_t)_mm_extract_epi32(_mm_xor_si128(folded[0], other), 1);
    }

    static inline uint32_t roquet_crc32(const uint8_t *at, size_t size)
    {
        size_t folded = size & ~(size_t)15;
        if (folded < 64 || !__builtin_cpu_supports("pclmul") || !__builtin_cpu_supports("sse4.1"))
            return (uint32_t)crc32_z(0, at, size);
        uint32_t crc = ~roquet_folded_crc32(~(uint32_t)0, at, folded);
        return size == folded ? crc : (uint32_t)crc32_z(crc, at + folded, size - folded);
    }
    #else
    static inline uint32_t roquet_crc32(const uint8_t *at, size_t size)
    {
        return (uint32_t)crc32_z(0, at, size);
    }
    #endif
    """
    uint32_t fast_crc32 "roquet_crc32"(const uint8_t* at, size_t size) noexcept nogil

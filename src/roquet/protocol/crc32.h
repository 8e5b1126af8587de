/* CRC-32 as zlib computes it, by carry-less multiplication where the processor has it.
 *
 * Every record that is stored or read is checked with it, and zlib, a table at a time, takes a
 * quarter of a pull. The method is that of Gopal et al., "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ" (Intel, 2009), for the bit-reflected polynomial 0x04C11DB7:
 * four lanes of 16 bytes are folded over the data, then into one, and that is reduced to 32 bits.
 * What does not fill a lane at the end borrows from the one before it; less than one is left to zlib.
 */
#ifndef ROQUET_CRC32_H
#define ROQUET_CRC32_H

#include <stddef.h>
#include <stdint.h>
#include <zlib.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define ROQUET_LANE_SIZE 16

/* x^n mod P, reflected: n = 4*128+32, 4*128-32; 128+32, 128-32; 64. Then P and 1/P. */
#define ROQUET_FOLD_64 _mm_set_epi64x(0x01c6e41596, 0x0154442bd4)
#define ROQUET_FOLD_16 _mm_set_epi64x(0x00ccaa009e, 0x01751997d0)
#define ROQUET_FOLD_8 _mm_set_epi64x(0, 0x0163cd6124)
#define ROQUET_BARRETT _mm_set_epi64x(0x01f7011641, 0x01db710641)

__attribute__((target("pclmul,sse4.1")))
static inline __m128i roquet_fold(__m128i lane, __m128i by, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(lane, by, 0x00);
    __m128i high = _mm_clmulepi64_si128(lane, by, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

__attribute__((target("pclmul,sse4.1")))
static inline __m128i roquet_lane(const uint8_t *at) {
    return _mm_loadu_si128((const __m128i *)at);
}

/* Places of bytes in a lane, for shuffles; from another start the same bytes, moved. 0x80 is zero. */
static const uint8_t roquet_places[48] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
};

/* `lane` and the last bytes, fewer than 16, as two lanes: first what there is too much, then a full
 * one. There are 16 bytes before `at`. */
__attribute__((target("pclmul,sse4.1")))
static inline __m128i roquet_fold_rest(__m128i lane, const uint8_t *at, size_t size) {
    __m128i first = _mm_shuffle_epi8(lane, roquet_lane(roquet_places + size));
    __m128i moved = _mm_shuffle_epi8(lane, roquet_lane(roquet_places + 16 + size));
    /* Zero, where a byte of the lane before has its place. */
    __m128i places = roquet_lane(roquet_places + size);
    __m128i rest = _mm_andnot_si128(
        _mm_cmplt_epi8(places, _mm_setzero_si128()), roquet_lane(at + size - 16));
    return roquet_fold(first, ROQUET_FOLD_16, _mm_or_si128(moved, rest));
}

/* Of 16 bytes or more; `crc` and the result are inverted, as inside of zlib. */
__attribute__((target("pclmul,sse4.1")))
static uint32_t roquet_crc32_of_lanes(uint32_t crc, const uint8_t *at, size_t size) {
    const __m128i words = _mm_set_epi32(0, -1, 0, -1);
    __m128i a = _mm_xor_si128(roquet_lane(at), _mm_cvtsi32_si128((int)crc));
    __m128i quotient;
    if (size >= 64) {
        __m128i b = roquet_lane(at + 16), c = roquet_lane(at + 32), d = roquet_lane(at + 48);
        for (at += 64, size -= 64; size >= 64; at += 64, size -= 64) {
            a = roquet_fold(a, ROQUET_FOLD_64, roquet_lane(at));
            b = roquet_fold(b, ROQUET_FOLD_64, roquet_lane(at + 16));
            c = roquet_fold(c, ROQUET_FOLD_64, roquet_lane(at + 32));
            d = roquet_fold(d, ROQUET_FOLD_64, roquet_lane(at + 48));
        }
        a = roquet_fold(a, ROQUET_FOLD_16, b);
        a = roquet_fold(a, ROQUET_FOLD_16, c);
        a = roquet_fold(a, ROQUET_FOLD_16, d);
    } else {
        at += 16;
        size -= 16;
    }
    for (; size >= 16; at += 16, size -= 16) {
        a = roquet_fold(a, ROQUET_FOLD_16, roquet_lane(at));
    }
    if (size) {
        a = roquet_fold_rest(a, at, size);
    }
    /* 128 bits to 96, to 64. */
    a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, ROQUET_FOLD_16, 0x10));
    a = _mm_xor_si128(
        _mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, words), ROQUET_FOLD_8, 0x00));
    /* 64 to 32, by Barrett's reduction. */
    quotient = _mm_clmulepi64_si128(_mm_and_si128(a, words), ROQUET_BARRETT, 0x10);
    quotient = _mm_clmulepi64_si128(_mm_and_si128(quotient, words), ROQUET_BARRETT, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, quotient), 1);
}
#endif

static inline uint32_t roquet_crc32(const uint8_t *at, size_t size) {
#if defined(__x86_64__) && defined(__GNUC__)
    if (size >= ROQUET_LANE_SIZE && __builtin_cpu_supports("pclmul")
        && __builtin_cpu_supports("sse4.1")) {
        return ~roquet_crc32_of_lanes(~(uint32_t)0, at, size);
    }
#endif
    return (uint32_t)crc32_z(0, at, size);
}

#endif

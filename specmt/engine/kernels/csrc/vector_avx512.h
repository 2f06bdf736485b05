// Sixteen floats in one register of AVX-512, and what products of weights are made of.
//
// The same functions as in vector_avx2.h and vector_neon.h, with the same bits.

#pragma once

#include <immintrin.h>

namespace {

constexpr int REGISTERS = 32;  // that hold 16 floats

using Floats = __m512;
using Spread = __m512;  // one number in all lanes

INLINE Spread spread(float x) { return _mm512_set1_ps(x); }
INLINE Floats floats(float x) { return _mm512_set1_ps(x); }
INLINE Floats add(Floats a, Floats b) { return _mm512_add_ps(a, b); }
INLINE Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
INLINE Floats multiply(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
INLINE Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
INLINE Floats fma(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }           // a b + c, rounded once
INLINE Floats subtract_product(Floats c, Floats a, Floats b) { return _mm512_fnmadd_ps(a, b, c); }  // c − a b, likewise
INLINE Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); }                       // a > b ? a : b
INLINE Floats magnitude(Floats x) { return _mm512_abs_ps(x); }
INLINE Floats nearest(Floats x) { return _mm512_roundscale_ps(x, 8); }  // whole number, even ones among two
INLINE Floats times_power(Floats x, Floats n) { return _mm512_scalef_ps(x, n); }  // x 2^n for whole −150 ≤ n ≤ 0
INLINE Floats where_negative(Floats x, Floats yes, Floats no) {
    return _mm512_mask_mov_ps(no, _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), yes);
}

INLINE Floats load(const float* x) { return _mm512_loadu_ps(x); }
INLINE Floats load(const uint16_t* x) {  // bfloat16: the upper half of a float
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}
INLINE Floats load(const Half* x) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
INLINE void store(float* to, Floats x) { _mm512_storeu_ps(to, x); }

// The first so many lanes; the others are 0, or what is asked for.
INLINE __mmask16 mask_of(int count) {
    return count >= LANES ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1u << count) - 1);
}
INLINE Floats load_first(const float* x, int count) { return _mm512_maskz_loadu_ps(mask_of(count), x); }
INLINE Floats load_first(const float* x, int count, Floats rest) {
    return _mm512_mask_loadu_ps(rest, mask_of(count), x);
}
INLINE Floats keep_first(Floats x, int count) { return _mm512_maskz_mov_ps(mask_of(count), x); }
INLINE void store_first(float* to, Floats x, int count) { _mm512_mask_storeu_ps(to, mask_of(count), x); }

// A bit for each lane that is so.
INLINE unsigned are_equal(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
INLINE unsigned are_greater(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
INLINE unsigned are_not_less(Floats a, Floats b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }

// Both by halves: lane i and i + 8, then 4, 2, 1.
INLINE float sum_of(Floats x) { return _mm512_reduce_add_ps(x); }
INLINE float highest_in(Floats x) { return _mm512_reduce_max_ps(x); }
INLINE void store_sums(float* to, Floats a, Floats b, Floats c, Floats d) {
    const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
    __m512 all = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    all = _mm512_add_ps(all, _mm512_permute_ps(all, 0x4E));
    all = _mm512_add_ps(all, _mm512_permute_ps(all, 0xB1));
    _mm_storeu_ps(to, _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, all)));
}

#if SPECMT_BFLOAT16

// Two products at a time, rounded as the instruction does it.
using PairRow = uint16_t;
using Pairs = __m512bh;
using PairSpread = __m512bh;

INLINE void store(uint16_t* to, Floats x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(x));
}
INLINE void store_pairs(PairRow* to, Floats x) { store(to, x); }
INLINE Pairs load_pairs(const uint16_t* w) { return (__m512bh)_mm512_loadu_si512(w); }
INLINE PairSpread spread_pair(const PairRow* x) { return (__m512bh)_mm512_set1_epi32(four_bytes(x)); }
INLINE Floats add_products(Floats sum, PairSpread x, Pairs w) { return _mm512_dpbf16_ps(sum, x, w); }

#else

// Rounds to bfloat16, as its instruction does it: tiny numbers become 0.
INLINE __m512i round_pairs(Floats x) {
    const __m512i bits = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 tiny = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7F800000));
    rounded = _mm512_mask_and_epi32(rounded, tiny, bits, _mm512_set1_epi32(INT32_MIN));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x400000));
}
INLINE void store(uint16_t* to, Floats x) {
    const __m256i halves = _mm512_cvtepi32_epi16(_mm512_srli_epi32(round_pairs(x), 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
}

// Products of floats that are numbers of bfloat16: rows are kept so.
using PairRow = float;
struct Pairs {
    __m512 even, odd;
};
using PairSpread = Pairs;

INLINE void store_pairs(PairRow* to, Floats x) {
    const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000));
    store(to, _mm512_castsi512_ps(_mm512_and_si512(round_pairs(x), upper)));
}
INLINE Pairs load_pairs(const uint16_t* w) {
    const __m512i both = _mm512_loadu_si512(w), upper = _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(both, 16)), _mm512_castsi512_ps(_mm512_and_si512(both, upper))};
}
INLINE PairSpread spread_pair(const PairRow* x) { return {spread(x[0]), spread(x[1])}; }
INLINE Floats add_products(Floats sum, PairSpread x, Pairs w) { return fma(x.odd, w.odd, fma(x.even, w.even, sum)); }

#endif

// Not __m512i, of which GCC does not keep arrays in registers here.
using Whole = int32_t __attribute__((vector_size(64)));
using Bytes = __m512i;

INLINE Bytes load_bytes(const int8_t* w) { return _mm512_loadu_si512(w); }
INLINE Bytes load_levels(const uint8_t* w, int upper) {
    const __m512i codes = _mm512_loadu_si512(w), half = _mm512_set1_epi8(15);
    const __m512i levels = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(LEVELS)));
    return _mm512_shuffle_epi8(levels, _mm512_and_si512(upper ? _mm512_srli_epi16(codes, 4) : codes, half));
}
INLINE Whole whole(int32_t x) { return (Whole)_mm512_set1_epi32(x); }
INLINE Whole load_whole(const int32_t* x) { return (Whole)_mm512_loadu_si512(x); }
INLINE __m512i spread_four(const void* x) { return _mm512_set1_epi32(four_bytes(x)); }

#if SPECMT_VNNI

// The instruction multiplies unsigned by signed numbers: rows are moved up by 128 and sums down again.
using ByteRow = uint8_t;
using ByteSpread = __m512i;

INLINE ByteSpread spread_bytes(const ByteRow* x) { return spread_four(x); }
INLINE Whole add_products(Whole sum, ByteSpread x, Bytes w) { return (Whole)_mm512_dpbusd_epi32((__m512i)sum, x, w); }
INLINE Floats to_floats(Whole sum, const int32_t* offset) {
    return _mm512_cvtepi32_ps(_mm512_sub_epi32((__m512i)sum, _mm512_loadu_si512(offset)));
}
INLINE int32_t store_bytes(ByteRow* to, Floats x) {
    const __m512i moved = _mm512_add_epi32(_mm512_cvtps_epi32(x), _mm512_set1_epi32(128));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(moved));
    return 0;
}
INLINE Floats load_rounded(const ByteRow* x) {
    const __m512i moved = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
    return _mm512_cvtepi32_ps(_mm512_sub_epi32(moved, _mm512_set1_epi32(128)));
}

#else

// Magnitudes by weights that have taken over the rows' signs: two such products fill no 16 bits.
using ByteRow = int8_t;
struct ByteSpread {
    __m512i magnitude;
    __mmask64 negative;
};

INLINE ByteSpread spread_bytes(const ByteRow* x) {
    const __m512i four = spread_four(x);
    return {_mm512_abs_epi8(four), _mm512_movepi8_mask(four)};
}
INLINE Whole add_products(Whole sum, ByteSpread x, Bytes w) {
    const __m512i weights = _mm512_mask_sub_epi8(w, x.negative, _mm512_setzero_si512(), w);
    const __m512i pairs = _mm512_maddubs_epi16(x.magnitude, weights);
    return (Whole)_mm512_add_epi32((__m512i)sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}
INLINE Floats to_floats(Whole sum, const int32_t*) { return _mm512_cvtepi32_ps((__m512i)sum); }
INLINE int32_t store_bytes(ByteRow* to, Floats x) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
    return 0;
}
INLINE Floats load_rounded(const ByteRow* x) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
}

#endif

}  // namespace

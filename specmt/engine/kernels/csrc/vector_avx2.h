// Sixteen floats in two registers of AVX2, and what products of weights are made of.
//
// The same functions as in vector_avx512.h, which says what they are, with the same bits.

#pragma once

#include <immintrin.h>

namespace {

constexpr int REGISTERS = 8;  // pairs of them

struct Floats {
    __m256 low, high;
};
using Spread = __m256;

// Both halves alike.
template <class F>
INLINE Floats each(F f) {
    return {f(0), f(1)};
}

INLINE Spread spread(float x) { return _mm256_set1_ps(x); }
INLINE Floats floats(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE Floats add(Floats a, Floats b) { return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)}; }
INLINE Floats subtract(Floats a, Floats b) { return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)}; }
INLINE Floats multiply(Floats a, Floats b) { return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)}; }
INLINE Floats divide(Floats a, Floats b) { return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)}; }
INLINE Floats fma(Floats a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
}
INLINE Floats fma(Spread a, Floats b, Floats c) {
    return {_mm256_fmadd_ps(a, b.low, c.low), _mm256_fmadd_ps(a, b.high, c.high)};
}
INLINE Floats subtract_product(Floats c, Floats a, Floats b) {
    return {_mm256_fnmadd_ps(a.low, b.low, c.low), _mm256_fnmadd_ps(a.high, b.high, c.high)};
}
INLINE Floats larger(Floats a, Floats b) { return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)}; }
INLINE Floats magnitude(Floats x) {
    const __m256 sign = _mm256_set1_ps(-0.0f);
    return {_mm256_andnot_ps(sign, x.low), _mm256_andnot_ps(sign, x.high)};
}
INLINE Floats nearest(Floats x) { return {_mm256_round_ps(x.low, 8), _mm256_round_ps(x.high, 8)}; }
INLINE __m256 power(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
INLINE __m256 times_power(__m256 x, __m256 n) {
    // In two steps, of which the first is exact, so that tiny results are rounded once.
    const __m256i whole = _mm256_cvtps_epi32(n), first = _mm256_srai_epi32(whole, 1);
    return _mm256_mul_ps(_mm256_mul_ps(x, power(first)), power(_mm256_sub_epi32(whole, first)));
}
INLINE Floats times_power(Floats x, Floats n) { return {times_power(x.low, n.low), times_power(x.high, n.high)}; }
INLINE __m256 where_negative(__m256 x, __m256 yes, __m256 no) {
    return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ));
}
INLINE Floats where_negative(Floats x, Floats yes, Floats no) {
    return {where_negative(x.low, yes.low, no.low), where_negative(x.high, yes.high, no.high)};
}

INLINE Floats load(const float* x) { return {_mm256_loadu_ps(x), _mm256_loadu_ps(x + 8)}; }
INLINE __m128i load_eight(const void* x) { return _mm_loadu_si128(static_cast<const __m128i*>(x)); }
INLINE Floats load(const uint16_t* x) {
    return each([&](int half) {
        const __m256i wide = _mm256_cvtepu16_epi32(load_eight(x + half * 8));
        return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
    });
}
INLINE Floats load(const Half* x) { return {_mm256_cvtph_ps(load_eight(x)), _mm256_cvtph_ps(load_eight(x + 8))}; }
INLINE void store(float* to, Floats x) {
    _mm256_storeu_ps(to, x.low);
    _mm256_storeu_ps(to + 8, x.high);
}

INLINE __m256i mask_of(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE Floats load_first(const float* x, int count) {
    return {_mm256_maskload_ps(x, mask_of(count)), _mm256_maskload_ps(x + 8, mask_of(count - 8))};
}
INLINE Floats choose_first(Floats x, int count, Floats rest) {
    return {_mm256_blendv_ps(rest.low, x.low, _mm256_castsi256_ps(mask_of(count))),
            _mm256_blendv_ps(rest.high, x.high, _mm256_castsi256_ps(mask_of(count - 8)))};
}
INLINE Floats load_first(const float* x, int count, Floats rest) {
    return choose_first(load_first(x, count), count, rest);
}
INLINE Floats keep_first(Floats x, int count) { return choose_first(x, count, floats(0.0f)); }
INLINE void store_first(float* to, Floats x, int count) {
    _mm256_maskstore_ps(to, mask_of(count), x.low);
    _mm256_maskstore_ps(to + 8, mask_of(count - 8), x.high);
}

template <int HOW>
INLINE unsigned compare(Floats a, Floats b) {
    return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a.low, b.low, HOW))) |
           static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a.high, b.high, HOW))) << 8;
}
INLINE unsigned are_equal(Floats a, Floats b) { return compare<_CMP_EQ_OQ>(a, b); }
INLINE unsigned are_greater(Floats a, Floats b) { return compare<_CMP_GT_OQ>(a, b); }
INLINE unsigned are_not_less(Floats a, Floats b) { return compare<_CMP_NLT_UQ>(a, b); }

INLINE __m256 fold(Floats a, Floats b) {  // by 8, then by 4: four lanes of each
    const __m256 first = _mm256_add_ps(a.low, a.high), second = _mm256_add_ps(b.low, b.high);
    return _mm256_add_ps(_mm256_permute2f128_ps(first, second, 0x20), _mm256_permute2f128_ps(first, second, 0x31));
}
INLINE void store_sums(float* to, Floats a, Floats b, Floats c, Floats d) {
    const __m256 ab = fold(a, b), cd = fold(c, d);
    const __m256 two = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xEE));
    const __m256 one = _mm256_hadd_ps(two, two);  // a c a c, b d b d
    _mm_storeu_ps(to, _mm_unpacklo_ps(_mm256_castps256_ps128(one), _mm256_extractf128_ps(one, 1)));
}
INLINE float sum_of(Floats x) {
    const __m256 eight = _mm256_add_ps(x.low, x.high);
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_add_ps(four, _mm_permute_ps(four, 0x4E));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_movehdup_ps(four)));
}
INLINE float highest_in(Floats x) {
    const __m256 eight = _mm256_max_ps(x.low, x.high);
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    four = _mm_max_ps(four, _mm_permute_ps(four, 0x4E));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_movehdup_ps(four)));
}

INLINE __m256i round_pairs(__m256 x) {
    const __m256i bits = _mm256_castps_si256(x), tiny_bits = _mm256_set1_epi32(0x7F800000);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7FFF)));
    const __m256i tiny = _mm256_cmpeq_epi32(_mm256_and_si256(bits, tiny_bits), _mm256_setzero_si256());
    rounded = _mm256_blendv_epi8(rounded, _mm256_and_si256(bits, _mm256_set1_epi32(INT32_MIN)), tiny);
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_blendv_epi8(rounded, _mm256_or_si256(bits, _mm256_set1_epi32(0x400000)), nan);
}
INLINE void store(uint16_t* to, Floats x) {
    const __m256i low = _mm256_srli_epi32(round_pairs(x.low), 16), high = _mm256_srli_epi32(round_pairs(x.high), 16);
    const __m256i halves = _mm256_permute4x64_epi64(_mm256_packus_epi32(low, high), 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), halves);
}

using PairRow = float;
struct Pairs {
    Floats even, odd;
};
struct PairSpread {
    Spread even, odd;
};

INLINE void store_pairs(PairRow* to, Floats x) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int32_t>(0xFFFF0000));
    store(to, {_mm256_castsi256_ps(_mm256_and_si256(round_pairs(x.low), upper)),
               _mm256_castsi256_ps(_mm256_and_si256(round_pairs(x.high), upper))});
}
INLINE Pairs load_pairs(const uint16_t* w) {
    const __m256i upper = _mm256_set1_epi32(static_cast<int32_t>(0xFFFF0000));
    __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
    __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w) + 1);
    asm("" : "+x"(low), "+x"(high));  // loaded once: compilers would rather load each twice
    return {{_mm256_castsi256_ps(_mm256_slli_epi32(low, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(high, 16))},
            {_mm256_castsi256_ps(_mm256_and_si256(low, upper)), _mm256_castsi256_ps(_mm256_and_si256(high, upper))}};
}
INLINE PairSpread spread_pair(const PairRow* x) { return {spread(x[0]), spread(x[1])}; }
INLINE Floats add_products(Floats sum, PairSpread x, Pairs w) { return fma(x.odd, w.odd, fma(x.even, w.even, sum)); }

using Eight = int32_t __attribute__((vector_size(32)));
struct Whole {
    Eight low, high;
};
struct Bytes {
    __m256i low, high;
};

INLINE Whole whole(int32_t x) { return {(Eight)_mm256_set1_epi32(x), (Eight)_mm256_set1_epi32(x)}; }
INLINE Bytes load_bytes(const int8_t* w) {
    const auto* halves = reinterpret_cast<const __m256i*>(w);
    return {_mm256_loadu_si256(halves), _mm256_loadu_si256(halves + 1)};
}
INLINE __m256i load_levels(const __m256i* w, int upper) {
    const __m256i codes = _mm256_loadu_si256(w), half = _mm256_set1_epi8(15);
    const __m256i levels = _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(LEVELS)));
    return _mm256_shuffle_epi8(levels, _mm256_and_si256(upper ? _mm256_srli_epi16(codes, 4) : codes, half));
}
INLINE Bytes load_levels(const uint8_t* w, int upper) {
    const auto* halves = reinterpret_cast<const __m256i*>(w);
    return {load_levels(halves, upper), load_levels(halves + 1, upper)};
}
INLINE __m256i spread_four(const void* x) { return _mm256_set1_epi32(four_bytes(x)); }
INLINE Floats to_floats(__m256i low, __m256i high) { return {_mm256_cvtepi32_ps(low), _mm256_cvtepi32_ps(high)}; }
INLINE __m128i narrow(Floats x) {  // to whole numbers of 16 bits, then of 8
    const __m256i both = _mm256_packs_epi32(_mm256_cvtps_epi32(x.low), _mm256_cvtps_epi32(x.high));
    const __m256i ordered = _mm256_permute4x64_epi64(both, 0xD8);
    return _mm_packs_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1));
}

#if SPECMT_VNNI

using ByteRow = uint8_t;
using ByteSpread = __m256i;

INLINE ByteSpread spread_bytes(const ByteRow* x) { return spread_four(x); }
INLINE Whole add_products(Whole sum, ByteSpread x, Bytes w) {
    return {(Eight)_mm256_dpbusd_avx_epi32((__m256i)sum.low, x, w.low),
            (Eight)_mm256_dpbusd_avx_epi32((__m256i)sum.high, x, w.high)};
}
INLINE Floats to_floats(Whole sum, const int32_t* offset) {
    const auto* halves = reinterpret_cast<const __m256i*>(offset);
    return to_floats(_mm256_sub_epi32((__m256i)sum.low, _mm256_loadu_si256(halves)),
                     _mm256_sub_epi32((__m256i)sum.high, _mm256_loadu_si256(halves + 1)));
}
INLINE int32_t store_bytes(ByteRow* to, Floats x) {
    const __m128i moved = _mm_xor_si128(narrow(x), _mm_set1_epi8(INT8_MIN));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), moved);
    return 0;
}
INLINE Floats load_rounded(const ByteRow* x) {
    return each([&](int half) {
        const __m256i moved = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x + half * 8)));
        return _mm256_cvtepi32_ps(_mm256_sub_epi32(moved, _mm256_set1_epi32(128)));
    });
}

#else

// Magnitudes by weights whose bits are turned over where the row is negative, which makes each 1 less than the weight with
// the other sign: what that takes away is what sums begin with. Two such products fill no 16 bits. Other instructions for
// signs wait for the units that multiply.
struct ByteRow {  // of four numbers the magnitudes, then their signs
    uint8_t bytes[2];
};
struct ByteSpread {
    __m256i magnitudes, signs;
};

INLINE ByteSpread spread_bytes(const ByteRow* x) { return {spread_four(x), spread_four(x + 2)}; }
INLINE Eight add_products(Eight sum, ByteSpread x, __m256i w) {
    const __m256i pairs = _mm256_maddubs_epi16(x.magnitudes, _mm256_xor_si256(w, x.signs));
    return (Eight)_mm256_add_epi32((__m256i)sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
INLINE Whole add_products(Whole sum, ByteSpread x, Bytes w) {
    return {add_products(sum.low, x, w.low), add_products(sum.high, x, w.high)};
}
INLINE Floats to_floats(Whole sum, const int32_t*) { return to_floats((__m256i)sum.low, (__m256i)sum.high); }
INLINE int32_t store_bytes(ByteRow* to, Floats x) {
    const __m128i zero = _mm_setzero_si128(), rounded = narrow(x);
    const __m128i magnitudes = _mm_abs_epi8(rounded), signs = _mm_cmpgt_epi8(zero, rounded);
    auto* halves = reinterpret_cast<__m128i*>(to);
    _mm_storeu_si128(halves, _mm_unpacklo_epi32(magnitudes, signs));
    _mm_storeu_si128(halves + 1, _mm_unpackhi_epi32(magnitudes, signs));
    const __m128i sums = _mm_sad_epu8(_mm_and_si128(magnitudes, signs), zero);
    return _mm_cvtsi128_si32(sums) + _mm_extract_epi32(sums, 2);
}
INLINE Floats load_rounded(const ByteRow* x) {
    return each([&](int half) {
        const __m128i four = load_eight(x + half * 8), signs = _mm_shuffle_epi32(four, 0xED);
        const __m128i numbers = _mm_sub_epi8(_mm_xor_si128(_mm_shuffle_epi32(four, 0xE8), signs), signs);
        return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(numbers));
    });
}

#endif

}  // namespace

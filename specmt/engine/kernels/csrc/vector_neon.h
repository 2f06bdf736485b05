// Sixteen floats in four registers of NEON, and what products of weights are made of.
//
// The same functions as in vector_avx512.h, which says what they are, with the same bits.

#pragma once

#include <arm_neon.h>

namespace {

constexpr int REGISTERS = 8;  // times four

struct Floats {
    float32x4_t part[4];
};
using Spread = float32x4_t;

template <class F>
INLINE Floats each(F f) {
    return {{f(0), f(1), f(2), f(3)}};
}

INLINE Spread spread(float x) { return vdupq_n_f32(x); }
INLINE Floats floats(float x) {
    return each([&](int) { return vdupq_n_f32(x); });
}
INLINE Floats add(Floats a, Floats b) {
    return each([&](int i) { return vaddq_f32(a.part[i], b.part[i]); });
}
INLINE Floats subtract(Floats a, Floats b) {
    return each([&](int i) { return vsubq_f32(a.part[i], b.part[i]); });
}
INLINE Floats multiply(Floats a, Floats b) {
    return each([&](int i) { return vmulq_f32(a.part[i], b.part[i]); });
}
INLINE Floats divide(Floats a, Floats b) {
    return each([&](int i) { return vdivq_f32(a.part[i], b.part[i]); });
}
INLINE Floats fma(Floats a, Floats b, Floats c) {
    return each([&](int i) { return vfmaq_f32(c.part[i], a.part[i], b.part[i]); });
}
INLINE Floats fma(Spread a, Floats b, Floats c) {
    return each([&](int i) { return vfmaq_f32(c.part[i], a, b.part[i]); });
}
INLINE Floats subtract_product(Floats c, Floats a, Floats b) {
    return each([&](int i) { return vfmsq_f32(c.part[i], a.part[i], b.part[i]); });
}
INLINE float32x4_t larger(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
INLINE Floats larger(Floats a, Floats b) {
    return each([&](int i) { return larger(a.part[i], b.part[i]); });
}
INLINE Floats magnitude(Floats x) {
    return each([&](int i) { return vabsq_f32(x.part[i]); });
}
INLINE Floats nearest(Floats x) {
    return each([&](int i) { return vrndnq_f32(x.part[i]); });
}
INLINE float32x4_t power(int32x4_t n) { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23)); }
INLINE Floats times_power(Floats x, Floats n) {
    // In two steps, of which the first is exact, so that tiny results are rounded once.
    return each([&](int i) {
        const int32x4_t whole = vcvtnq_s32_f32(n.part[i]), first = vshrq_n_s32(whole, 1);
        return vmulq_f32(vmulq_f32(x.part[i], power(first)), power(vsubq_s32(whole, first)));
    });
}
INLINE Floats where_negative(Floats x, Floats yes, Floats no) {
    return each([&](int i) { return vbslq_f32(vcltzq_f32(x.part[i]), yes.part[i], no.part[i]); });
}

INLINE Floats load(const float* x) {
    return each([&](int i) { return vld1q_f32(x + 4 * i); });
}
INLINE Floats load(const uint16_t* x) {
    return each([&](int i) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(x + 4 * i), 16)); });
}
INLINE Floats load(const Half* x) {
    return each([&](int i) {
        return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(reinterpret_cast<const uint16_t*>(x) + 4 * i)));
    });
}
INLINE void store(float* to, Floats x) {
    for (int i = 0; i < 4; ++i) vst1q_f32(to + 4 * i, x.part[i]);
}

INLINE Floats load_first(const float* x, int count, Floats rest) {
    if (count >= LANES) return load(x);
    float lanes[LANES];
    store(lanes, rest);
    std::memcpy(lanes, x, count * sizeof(float));
    return load(lanes);
}
INLINE Floats load_first(const float* x, int count) { return load_first(x, count, floats(0.0f)); }
INLINE Floats keep_first(Floats x, int count) {
    if (count >= LANES) return x;
    float lanes[LANES];
    store(lanes, x);
    return load_first(lanes, count);
}
INLINE void store_first(float* to, Floats x, int count) {
    if (count >= LANES) return store(to, x);
    float lanes[LANES];
    store(lanes, x);
    std::memcpy(to, lanes, count * sizeof(float));
}

template <class F>
INLINE unsigned compare(F f) {
    const uint16x8_t low = vcombine_u16(vmovn_u32(f(0)), vmovn_u32(f(1)));
    const uint16x8_t high = vcombine_u16(vmovn_u32(f(2)), vmovn_u32(f(3)));
    const uint8x8_t bits = vcreate_u8(0x8040201008040201);
    const unsigned first = vaddv_u8(vand_u8(vmovn_u16(low), bits)), second = vaddv_u8(vand_u8(vmovn_u16(high), bits));
    return first | second << 8;
}
INLINE unsigned are_equal(Floats a, Floats b) {
    return compare([&](int i) { return vceqq_f32(a.part[i], b.part[i]); });
}
INLINE unsigned are_greater(Floats a, Floats b) {
    return compare([&](int i) { return vcgtq_f32(a.part[i], b.part[i]); });
}
INLINE unsigned are_not_less(Floats a, Floats b) {
    return compare([&](int i) { return vmvnq_u32(vcltq_f32(a.part[i], b.part[i])); });
}

INLINE float32x4_t fold(Floats x) {  // by 8, then by 4
    return vaddq_f32(vaddq_f32(x.part[0], x.part[2]), vaddq_f32(x.part[1], x.part[3]));
}
INLINE float32x4_t fold(float32x4_t a, float32x4_t b) {  // by 2: two lanes of each
    return vaddq_f32(vcombine_f32(vget_low_f32(a), vget_low_f32(b)), vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
}
INLINE void store_sums(float* to, Floats a, Floats b, Floats c, Floats d) {
    vst1q_f32(to, vpaddq_f32(fold(fold(a), fold(b)), fold(fold(c), fold(d))));
}
INLINE float sum_of(Floats x) {
    const float32x4_t four = fold(x);
    const float32x2_t two = vadd_f32(vget_low_f32(four), vget_high_f32(four));
    return vget_lane_f32(two, 0) + vget_lane_f32(two, 1);
}
INLINE float highest_in(Floats x) {
    const float32x4_t four = larger(larger(x.part[0], x.part[2]), larger(x.part[1], x.part[3]));
    return vmaxvq_f32(four);
}

INLINE uint32x4_t round_pairs(float32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFF)));
    const uint32x4_t usual = vtstq_u32(bits, vdupq_n_u32(0x7F800000));
    const uint32x4_t number = vbslq_u32(usual, rounded, vandq_u32(bits, vdupq_n_u32(0x80000000)));
    return vbslq_u32(vceqq_f32(x, x), number, vorrq_u32(bits, vdupq_n_u32(0x400000)));
}
INLINE void store(uint16_t* to, Floats x) {
    for (int i = 0; i < 4; ++i) vst1_u16(to + 4 * i, vshrn_n_u32(round_pairs(x.part[i]), 16));
}

#if SPECMT_BFLOAT16

// Two products at a time, rounded as the instruction does it.
using PairRow = uint16_t;
struct Pairs {
    bfloat16x8_t part[4];
};
using PairSpread = bfloat16x8_t;

INLINE void store_pairs(PairRow* to, Floats x) { store(to, x); }
INLINE Pairs load_pairs(const uint16_t* w) {
    const auto eight = [&](int i) { return vreinterpretq_bf16_u16(vld1q_u16(w + 8 * i)); };
    return {{eight(0), eight(1), eight(2), eight(3)}};
}
INLINE PairSpread spread_pair(const PairRow* x) { return vreinterpretq_bf16_s32(vdupq_n_s32(four_bytes(x))); }
INLINE Floats add_products(Floats sum, PairSpread x, Pairs w) {
    return each([&](int i) { return vbfdotq_f32(sum.part[i], w.part[i], x); });
}

#else

using PairRow = float;
struct Pairs {
    Floats even, odd;
};
struct PairSpread {
    Spread even, odd;
};

INLINE float32x4_t upper_half(uint32x4_t x) { return vreinterpretq_f32_u32(vandq_u32(x, vdupq_n_u32(0xFFFF0000))); }
INLINE void store_pairs(PairRow* to, Floats x) {
    store(to, each([&](int i) { return upper_half(round_pairs(x.part[i])); }));
}
INLINE Pairs load_pairs(const uint16_t* w) {
    const auto four = [&](int i) { return vreinterpretq_u32_u16(vld1q_u16(w + 8 * i)); };
    return {each([&](int i) { return vreinterpretq_f32_u32(vshlq_n_u32(four(i), 16)); }),
            each([&](int i) { return upper_half(four(i)); })};
}
INLINE PairSpread spread_pair(const PairRow* x) { return {spread(x[0]), spread(x[1])}; }
INLINE Floats add_products(Floats sum, PairSpread x, Pairs w) { return fma(x.odd, w.odd, fma(x.even, w.even, sum)); }

#endif

struct Whole {
    int32x4_t part[4];
};
struct Bytes {
    int8x16_t part[4];
};
using ByteRow = int8_t;
using ByteSpread = int8x16_t;

INLINE Whole whole(int32_t x) { return {{vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x)}}; }
INLINE Bytes load_bytes(const int8_t* w) { return {{vld1q_s8(w), vld1q_s8(w + 16), vld1q_s8(w + 32), vld1q_s8(w + 48)}}; }
INLINE Bytes load_levels(const uint8_t* w, int upper) {
    const int8x16_t levels = vld1q_s8(LEVELS);
    const auto sixteen = [&](int i) {
        const uint8x16_t codes = vld1q_u8(w + 16 * i);
        return vqtbl1q_s8(levels, upper ? vshrq_n_u8(codes, 4) : vandq_u8(codes, vdupq_n_u8(15)));
    };
    return {{sixteen(0), sixteen(1), sixteen(2), sixteen(3)}};
}
INLINE ByteSpread spread_bytes(const ByteRow* x) { return vreinterpretq_s8_s32(vdupq_n_s32(four_bytes(x))); }
INLINE Whole add_products(Whole sum, ByteSpread x, Bytes w) {
    return {{vdotq_s32(sum.part[0], w.part[0], x), vdotq_s32(sum.part[1], w.part[1], x),
             vdotq_s32(sum.part[2], w.part[2], x), vdotq_s32(sum.part[3], w.part[3], x)}};
}
INLINE Floats to_floats(Whole sum, const int32_t*) {
    return each([&](int i) { return vcvtq_f32_s32(sum.part[i]); });
}
INLINE int32_t store_bytes(ByteRow* to, Floats x) {
    const auto rounded = [&](int i) { return vmovn_s32(vcvtnq_s32_f32(x.part[i])); };
    const int16x8_t low = vcombine_s16(rounded(0), rounded(1)), high = vcombine_s16(rounded(2), rounded(3));
    vst1q_s8(to, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
    return 0;
}
INLINE Floats load_rounded(const ByteRow* x) {
    const int8x16_t bytes = vld1q_s8(x);
    const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
    return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(low))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(low))),
             vcvtq_f32_s32(vmovl_s16(vget_low_s16(high))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(high)))}};
}

}  // namespace

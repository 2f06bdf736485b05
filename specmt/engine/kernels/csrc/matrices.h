// The same on products of matrices (BF16 and I8MM of ARM): two rows by two outputs in one instruction.

#pragma once

#include "gemm.h"

namespace {

// What an instruction makes of a type, and how many rows it is for at least. Eight bytes of a row
// stand side by side: two units of weights, of which there is an even number.
template <class T>
struct Matrices;

template <>
struct Matrices<BFloat16> {
    using Sum = float32x4_t;
    static constexpr int LEAST = 1;  // so that a row is rounded alike, whatever it is batched with
    INLINE static Sum multiply_add(Sum sum, uint8x16_t x, uint8x16_t w) {
        return vbfmmlaq_f32(sum, vreinterpretq_bf16_u8(x), vreinterpretq_bf16_u8(w));
    }
    INLINE static Sum join(Sum a, Sum b, bool second) {
        return second ? vcombine_f32(vget_high_f32(a), vget_high_f32(b)) : vcombine_f32(vget_low_f32(a), vget_low_f32(b));
    }
};

template <>
struct Matrices<Int8> {
    using Sum = int32x4_t;
    static constexpr int LEAST = 2;
    INLINE static Sum multiply_add(Sum sum, uint8x16_t x, uint8x16_t w) {
        return vmmlaq_s32(sum, vreinterpretq_s8_u8(x), vreinterpretq_s8_u8(w));
    }
    INLINE static Sum join(Sum a, Sum b, bool second) {
        return second ? vcombine_s32(vget_high_s32(a), vget_high_s32(b)) : vcombine_s32(vget_low_s32(a), vget_low_s32(b));
    }
};

// The same as `block`, for one panel. Of an odd number of rows the last one is its own partner.
template <class T, int PAIRS>
void paired_block(int rows, const Rows<T>& x, const Linear& linear, int panel, Epilogue epilogue, float* out,
                  int64_t out_stride) {
    using M = Matrices<T>;
    constexpr int BYTES = LANES * 4;  // of a unit of weights: four bytes of each output
    const int units = linear.inputs / T::STEP;
    const auto* w = static_cast<const uint8_t*>(linear.weight) + static_cast<int64_t>(panel) * units * BYTES;
    const uint8_t* place[2 * PAIRS];
    for (int r = 0; r < 2 * PAIRS; ++r) place[r] = reinterpret_cast<const uint8_t*>(x.from(std::min(r, rows - 1)).values);
    typename M::Sum sum[PAIRS][8];
#pragma GCC unroll 16
    for (int r = 0; r < PAIRS; ++r)
#pragma GCC unroll 16
        for (int n = 0; n < 8; ++n) sum[r][n] = typename M::Sum{};
    for (int u = 0; u < units; u += 2, w += 2 * BYTES) {
        uint8x16_t pair[PAIRS];
#pragma GCC unroll 16
        for (int r = 0; r < PAIRS; ++r)
            pair[r] = vcombine_u8(vld1_u8(place[2 * r] + 4 * u), vld1_u8(place[2 * r + 1] + 4 * u));
#pragma GCC unroll 16
        for (int i = 0; i < 4; ++i) {
            const uint32x4_t first = vreinterpretq_u32_u8(vld1q_u8(w + 16 * i));
            const uint32x4_t next = vreinterpretq_u32_u8(vld1q_u8(w + BYTES + 16 * i));
            const uint8x16_t low = vreinterpretq_u8_u32(vzip1q_u32(first, next));
            const uint8x16_t high = vreinterpretq_u8_u32(vzip2q_u32(first, next));
#pragma GCC unroll 16
            for (int r = 0; r < PAIRS; ++r) {
                sum[r][2 * i] = M::multiply_add(sum[r][2 * i], pair[r], low);
                sum[r][2 * i + 1] = M::multiply_add(sum[r][2 * i + 1], pair[r], high);
            }
        }
    }
    const Outputs outputs(linear, panel);
#pragma GCC unroll 16
    for (int r = 0; r < 2 * PAIRS; ++r) {
        const auto of_row = [&](int i) { return M::join(sum[r / 2][2 * i], sum[r / 2][2 * i + 1], r % 2); };
        const typename T::Sum whole{{of_row(0), of_row(1), of_row(2), of_row(3)}};
        if (r < rows) finish<T>(whole, outputs, x, r, epilogue, out, out_stride);
    }
}

template <class T, int PAIRS = 3>
void paired_rows(int rows, const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
                 int64_t out_stride) {
    if constexpr (PAIRS > 1)
        if (rows <= 2 * PAIRS - 2)
            return paired_rows<T, PAIRS - 1>(rows, x, linear, panels, epilogue, out, out_stride);
    for (int panel = panels.begin; panel < panels.end; ++panel)
        paired_block<T, PAIRS>(rows, x, linear, panel, epilogue, out, out_stride);
}

}  // namespace

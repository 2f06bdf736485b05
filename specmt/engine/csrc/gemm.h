// Linear layers over packed panels of weights, for every number of rows and type.

#pragma once

#include <cstring>

#include "simd.h"
#include "structures.h"

namespace {

// Rows as a type wants them.
template <class T>
struct Rows {
    const typename T::Value* values;
    int64_t stride;
    const float* scales;  // of each row; int8 only

    Rows from(int row) const { return {values + row * stride, stride, scales ? scales + row : nullptr}; }
};

struct Float32 {
    using Value = float;
    using Kept = float;  // of keys and values
    using Vector = __m512;
    using Sum = __m512;
    static constexpr int STEP = 1;
    static constexpr int MANY = 7;  // rows; measured
    static Sum zero() { return _mm512_setzero_ps(); }
    static Vector load(const Value* w) { return _mm512_loadu_ps(w); }
    static Vector spread(const Value* x) { return _mm512_set1_ps(*x); }
    static Sum multiply_add(Sum sum, Vector x, Vector w) { return _mm512_fmadd_ps(x, w, sum); }
    static __m512 finish(Sum sum, const Linear&, int, float) { return sum; }
};

struct BFloat16 {
    using Value = uint16_t;
    using Kept = uint16_t;
    using Vector = __m512bh;
    using Sum = __m512;
    static constexpr int STEP = 2;
    static constexpr int MANY = 8;
    static Sum zero() { return _mm512_setzero_ps(); }
    static Vector load(const Value* w) { return (__m512bh)_mm512_loadu_si512(w); }
    static Vector spread(const Value* x) {
        int32_t pair;
        std::memcpy(&pair, x, sizeof pair);
        return (__m512bh)_mm512_set1_epi32(pair);
    }
    static Sum multiply_add(Sum sum, Vector x, Vector w) { return _mm512_dpbf16_ps(sum, x, w); }
    static constexpr int LEAST = 1;  // rows that tiles are for
    using TileSum = float;
    static Sum load_sum(const float* sum) { return _mm512_load_ps(sum); }
    template <int SUM, int X, int W>
    static void multiply_tiles() {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUM), "i"(X), "i"(W));
    }
    static __m512 finish(Sum sum, const Linear&, int, float) { return sum; }
    static float convert(const float* from, Value* to, int count) {
        copy(from, to, count);
        return 1.0f;
    }
};

// Weights scaled by output, rows by their own largest value, so that no row depends on another. The instruction
// multiplies unsigned by signed numbers: rows are moved up by 128 and sums down again.
struct Int8 {
    using Value = uint8_t;
    using Kept = uint16_t;
    using Vector = __m512i;
    // Not __m512i, of which GCC does not keep arrays in registers here.
    using Sum = int32_t __attribute__((vector_size(64)));
    static constexpr int STEP = 4;
    static constexpr int MANY = 9;
    static Sum zero() { return Sum{}; }
    static Vector load(const Value* w) { return _mm512_loadu_si512(w); }
    static Vector spread(const Value* x) {
        int32_t four;
        std::memcpy(&four, x, sizeof four);
        return _mm512_set1_epi32(four);
    }
    static Sum multiply_add(Sum sum, Vector x, Vector w) { return (Sum)_mm512_dpbusd_epi32((__m512i)sum, x, w); }
    static constexpr int LEAST = 13;
    using TileSum = int32_t;
    static Sum load_sum(const int32_t* sum) { return (Sum)_mm512_load_si512(sum); }
    template <int SUM, int X, int W>
    static void multiply_tiles() {
        asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUM), "i"(X), "i"(W));
    }
    static __m512 finish(Sum sum, const Linear& linear, int column, float scale) {
        const __m512i whole = _mm512_sub_epi32((__m512i)sum, _mm512_loadu_si512(linear.offset + column));
        return _mm512_mul_ps(_mm512_cvtepi32_ps(whole),
                             _mm512_mul_ps(_mm512_loadu_ps(linear.scale + column), _mm512_set1_ps(scale)));
    }
    static float convert(const float* from, Value* to, int count) {
        __m512 most = _mm512_setzero_ps();
        for (int i = 0; i < count; i += LANES) most = _mm512_max_ps(most, _mm512_abs_ps(_mm512_loadu_ps(from + i)));
        const float highest = _mm512_reduce_max_ps(most);
        const __m512 inverse = _mm512_set1_ps(highest > 0.0f ? 127.0f / highest : 0.0f);
        for (int i = 0; i < count; i += LANES) {
            const __m512i whole = _mm512_cvtps_epi32(_mm512_mul_ps(_mm512_loadu_ps(from + i), inverse));
            const __m512i moved = _mm512_add_epi32(whole, _mm512_set1_epi32(128));
            _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), _mm512_cvtepi32_epi8(moved));
        }
        return highest / 127.0f;
    }
};

// What happens to a sum before it is stored.
struct Epilogue {
    bool relu = false;
    const float* residual = nullptr;  // what it is added to, laid out as the output, which it may be itself
};

template <class T>
void finish(typename T::Sum sum, const Linear& linear, int column, const Rows<T>& x, int row, Epilogue epilogue, float* out,
            int64_t out_stride) {
    const __m512 bias = linear.bias ? _mm512_loadu_ps(linear.bias + column) : _mm512_setzero_ps();
    const int64_t place = row * out_stride + column;
    __m512 value = _mm512_add_ps(T::finish(sum, linear, column, x.scales ? x.scales[row] : 1.0f), bias);
    if (epilogue.relu) value = _mm512_max_ps(value, _mm512_setzero_ps());
    if (epilogue.residual) value = _mm512_add_ps(_mm512_loadu_ps(epilogue.residual + place), value);
    _mm512_storeu_ps(out + place, value);
}

template <class T, int ROWS, int PANELS>
void block(const Rows<T>& x, const Linear& linear, int panel, Epilogue epilogue, float* out, int64_t out_stride) {
    const int steps = linear.inputs / T::STEP;
    const auto* weight = static_cast<const typename T::Value*>(linear.weight);
    const int64_t panel_size = static_cast<int64_t>(linear.inputs) * LANES;
    const typename T::Value* w[PANELS];
    for (int p = 0; p < PANELS; ++p) w[p] = weight + (panel + p) * panel_size;
    typename T::Sum sum[ROWS][PANELS];
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int p = 0; p < PANELS; ++p) sum[r][p] = T::zero();
    for (int s = 0; s < steps; ++s) {
        typename T::Vector column[PANELS];
        for (int p = 0; p < PANELS; ++p) {
            const auto* place = w[p] + s * LANES * T::STEP;
            column[p] = T::load(place);
            // One or two rows only wait for memory; some need what comes soon; with many there is time for the next panels.
            if constexpr (ROWS >= T::MANY)
                _mm_prefetch(reinterpret_cast<const char*>(place + PANELS * panel_size), _MM_HINT_T1);
            else if constexpr (ROWS > 2)
                _mm_prefetch(reinterpret_cast<const char*>(place + 16 * LANES * T::STEP), _MM_HINT_T0);
        }
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) {
            const auto value = T::spread(x.values + r * x.stride + s * T::STEP);
#pragma GCC unroll 16
            for (int p = 0; p < PANELS; ++p) sum[r][p] = T::multiply_add(sum[r][p], value, column[p]);
        }
    }
#pragma GCC unroll 16
    for (int p = 0; p < PANELS; ++p)
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r)
            finish<T>(sum[r][p], linear, (panel + p) * LANES, x, r, epilogue, out, out_stride);
}

template <class T, int ROWS>
void rows_of_panels(const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
                    int64_t out_stride) {
    // Few rows leave registers for more panels, which keeps more loads of weights under way.
    constexpr int WIDE = ROWS <= 2 ? 8 : ROWS <= 6 ? 4 : 2;
    int panel = panels.begin;
    for (; panel + WIDE <= panels.end; panel += WIDE)
        block<T, ROWS, WIDE>(x, linear, panel, epilogue, out, out_stride);
    for (; panel < panels.end; ++panel) block<T, ROWS, 1>(x, linear, panel, epilogue, out, out_stride);
}

template <class T, int ROWS = 12>
void some_rows(int rows, const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
               int64_t out_stride) {
    if constexpr (ROWS > 0) {
        if (rows == ROWS) rows_of_panels<T, ROWS>(x, linear, panels, epilogue, out, out_stride);
        else some_rows<T, ROWS - 1>(rows, x, linear, panels, epilogue, out, out_stride);
    }
}

}  // namespace

// Linear layers over rows: the choice between registers, products of matrices and tiles.

#pragma once

#include <type_traits>

#include "gemm.h"
#if SPECMT_TILES
#include "amx.h"
#endif
#if SPECMT_MATRICES
#include "matrices.h"
#endif
#include "threading.h"

namespace {

// Calls f(i, thread) for each of so many numbers, in several threads.
template <class F>
void for_each(int threads, int count, F f) {
    in_parallel(threads, [&](int thread, int all) {
        const Range mine = share(count, thread, all);
        for (int i = mine.begin; i < mine.end; ++i) f(i, thread);
    });
}

// Whether weights stand as instructions for products of matrices want them.
template <class T>
constexpr bool IS_MATRIX = std::is_same_v<T, BFloat16> || std::is_same_v<T, Int8>;

#if SPECMT_MATRICES
template <class T>
constexpr int AT_ONCE = IS_MATRIX<T> ? 6 : T::MOST;
#else
template <class T>
constexpr int AT_ONCE = T::MOST;
#endif

// Some rows, up to AT_ONCE of them.
template <class T>
void few_rows(int rows, const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
              int64_t out_stride, const Fetch& fetch = {}) {
#if SPECMT_MATRICES
    if constexpr (IS_MATRIX<T>)
        if (rows >= Matrices<T>::LEAST) return paired_rows<T>(rows, x, linear, panels, epilogue, out, out_stride);
#endif
    some_rows<T>(rows, x, linear, panels, epilogue, out, out_stride, fetch);
}

// out (R, N) = x (R, K) Wᵀ + b over a share of the panels. How rows are grouped changes no sum.
template <class T>
void multiply(int rows, const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
              int64_t out_stride) {
#if SPECMT_TILES
    if constexpr (IS_MATRIX<T>)
        if (linear.inputs % (TILE_BYTES / sizeof(typename T::Value)) == 0)
            return multiply_tiled<T>(rows, x, linear, panels, epilogue, out, out_stride);
#endif
    constexpr int MOST = AT_ONCE<T>;
    if (rows <= MOST) return few_rows<T>(rows, x, linear, panels, epilogue, out, out_stride);
    // Many rows: a few panels at a time stay in the cache while all rows pass, in groups of about the same size.
    constexpr int STRIP = 4;
    const int groups = (rows + MOST - 1) / MOST, size = (rows + groups - 1) / groups;
    for (int panel = panels.begin; panel < panels.end; panel += STRIP) {
        const Range strip{panel, std::min(panel + STRIP, panels.end)};
        for (int row = 0; row < rows; row += size) {
            Epilogue of_rows = epilogue;
            if (of_rows.residual) of_rows.residual += row * out_stride;
            few_rows<T>(std::min(size, rows - row), x.from(row), linear, strip, of_rows, out + row * out_stride,
                        out_stride, {STRIP, row / size, groups});
        }
    }
}

// Where rows are turned into what a type wants.
class Converter {
  public:
    template <class T>
    void reserve(int64_t rows, int64_t width) {
        if constexpr (std::is_same_v<T, Float32>) return;
        fit(values_, (rows + TILE - 1) * width * sizeof(typename T::Row));  // tiles read on behind the last row
        fit(scales_, rows);
    }

    // Converts some of the rows, and returns all; they stand until the next call. There must be room for them, behind the
    // first that are somebody else's.
    template <class T>
    Rows<T> convert(const float* from, Range some, int width, int64_t first = 0) {
        if constexpr (std::is_same_v<T, Float32>) {
            return {from, width, nullptr};
        } else {
            auto* values = reinterpret_cast<typename T::Row*>(values_.data()) + first * width;
            Scale* scales = scales_.data() + first;
            for (int64_t r = some.begin; r < some.end; ++r)
                scales[r] = T::convert(from + r * width, values + r * width, width);
            return {values, width, scales};
        }
    }

  private:
    Vector<uint8_t> values_;
    Vector<Scale> scales_;
};

}  // namespace

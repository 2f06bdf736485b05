// Linear layers over packed panels of weights, for every number of rows and type.

#pragma once

#include <cstring>

#include "simd.h"
#include "structures.h"

namespace {

// What the numbers of a row in bytes are multiplied by, and what its sums of products begin with.
struct Scale {
    float factor;
    int32_t start;
};

// Rows as a type wants them.
template <class T>
struct Rows {
    const typename T::Row* values;
    int64_t stride;
    const Scale* scales;  // of each row; int8 and uint4 only

    Rows from(int row) const { return {values + row * stride, stride, scales ? scales + row : nullptr}; }
};

// What becomes of the sums of sixteen outputs.
struct Outputs {
    int column;
    Floats bias, scale;
    const int32_t* offset;

    INLINE Outputs(const Linear& linear, int panel)
        : column(panel * LANES),
          bias(linear.bias ? load(linear.bias + column) : floats(0.0f)),
          scale(linear.scale ? load(linear.scale + column) : bias),
          offset(linear.offset + column) {}
};

// The types: what weights (Value), rows, and keys and values (Kept) are kept in; how many inputs are multiplied at a time,
// and how many times the weights that stand side by side are enough for that; and how many rows fit into registers.

struct Float32 {
    using Value = float;
    using Row = float;
    using Kept = float;
    using Sum = Floats;
    static constexpr int STEP = 1, PARTS = 1, MOST = REGISTERS == 32 ? 12 : 6;
    INLINE static Sum start(const Scale*, int) { return floats(0.0f); }
    INLINE static auto load(const Value* w, int) { return ::load(w); }
    INLINE static auto spread(const Row* x) { return ::spread(*x); }
    INLINE static Sum multiply_add(Sum sum, Spread x, Floats w) { return fma(x, w, sum); }
    INLINE static Floats finish(Sum sum, const Outputs& outputs, float) { return add(sum, outputs.bias); }
};

struct BFloat16 {
    using Value = uint16_t;
    using Row = PairRow;
    using Kept = uint16_t;
    using Sum = Floats;
    static constexpr int STEP = 2, PARTS = 1, MOST = REGISTERS == 32 ? 12 : 5;
    INLINE static Sum start(const Scale*, int) { return floats(0.0f); }
    INLINE static auto load(const Value* w, int) { return load_pairs(w); }
    INLINE static auto spread(const Row* x) { return spread_pair(x); }
    INLINE static Sum multiply_add(Sum sum, PairSpread x, Pairs w) { return add_products(sum, x, w); }
    INLINE static Floats finish(Sum sum, const Outputs& outputs, float) { return add(sum, outputs.bias); }
    static Scale convert(const float* from, Row* to, int count) {
        for (int i = 0; i < count; i += LANES) store_pairs(to + i, ::load(from + i));
        return {1.0f, 0};
    }
};

// Weights scaled by output, rows by their own largest value, so that no row depends on another. Sums are exact.
struct Int8 {
    using Value = int8_t;
    using Row = ByteRow;
    using Kept = uint16_t;
    using Sum = Whole;
    static constexpr int STEP = 4, PARTS = 1, MOST = REGISTERS == 32 ? 12 : 4;
    INLINE static Sum start(const Scale* scales, int row) { return whole(scales[row].start); }
    INLINE static auto load(const Value* w, int) { return load_bytes(w); }
    INLINE static auto spread(const Row* x) { return spread_bytes(x); }
    INLINE static Sum multiply_add(Sum sum, ByteSpread x, Bytes w) { return add_products(sum, x, w); }
    INLINE static Floats finish(Sum sum, const Outputs& outputs, float scale) {
        return fma(to_floats(sum, outputs.offset), multiply(outputs.scale, floats(scale)), outputs.bias);
    }
    static Scale convert(const float* from, Row* to, int count) {
        Floats most = floats(0.0f);
        for (int i = 0; i < count; i += LANES) most = larger(most, magnitude(::load(from + i)));
        const float highest = highest_in(most);
        const Floats inverse = floats(highest > 0.0f ? 127.0f / highest : 0.0f);
        int32_t start = 0;
        for (int i = 0; i < count; i += LANES) start += store_bytes(to + i, multiply(::load(from + i), inverse));
        return {highest / 127.0f, start};
    }
};

// The same with weights of 16 levels: half the memory to read, for drafts.
struct Int4 : Int8 {
    using Value = uint8_t;
    static constexpr int PARTS = 2;
    INLINE static auto load(const Value* w, int part) { return load_levels(w, part); }
};

constexpr int TILE = 16;  // rows of a tile, where tiles are multiplied

// What happens to a sum before it is stored.
struct Epilogue {
    bool relu = false;
    const float* residual = nullptr;  // what it is added to, laid out as the output, which it may be itself
};

template <class T>
INLINE void finish(typename T::Sum sum, const Outputs& outputs, const Rows<T>& x, int row, Epilogue epilogue, float* out,
                   int64_t out_stride) {
    const int64_t place = row * out_stride + outputs.column;
    Floats value = T::finish(sum, outputs, x.scales ? x.scales[row].factor : 1.0f);
    if (epilogue.relu) value = larger(value, floats(0.0f));
    if (epilogue.residual) value = add(load(epilogue.residual + place), value);
    store(out + place, value);
}

// What is fetched into the cache meanwhile: the weights so many panels on. Where several groups of rows pass the same
// panels, each group fetches every so-many-th unit of them, so that memory is busy all the time.
struct Fetch {
    int panels = 0, first = 0, every = 1;  // no panels: those that are next
};

template <class T, int ROWS, int PANELS>
void block(const Rows<T>& x, const Linear& linear, int panel, Epilogue epilogue, float* out, int64_t out_stride,
           const Fetch& fetch) {
    constexpr int UNIT = LANES * 4 / static_cast<int>(sizeof(typename T::Value));  // four bytes of each output
    const int64_t units = linear.inputs / (T::STEP * T::PARTS);
    const auto* weight = static_cast<const typename T::Value*>(linear.weight);
    const int64_t panel_size = units * UNIT;
    const typename T::Value* w[PANELS];
    for (int p = 0; p < PANELS; ++p) w[p] = weight + (panel + p) * panel_size;
    typename T::Sum sum[ROWS][PANELS];
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int p = 0; p < PANELS; ++p) sum[r][p] = T::start(x.scales, r);
    const int64_t away = (fetch.panels ? fetch.panels : PANELS) * panel_size;
    int64_t next = fetch.first;  // unit whose weights are fetched
    const auto multiply_part = [&](int64_t u, int part) __attribute__((always_inline)) {
        const auto weights = [&](int p) { return T::load(w[p] + u * UNIT, part); };
        const auto row = [&](int r) { return T::spread(x.values + r * x.stride + (u * T::PARTS + part) * T::STEP); };
        if constexpr (REGISTERS == 32) {
            decltype(weights(0)) column[PANELS];
#pragma GCC unroll 16
            for (int p = 0; p < PANELS; ++p) column[p] = weights(p);
#pragma GCC unroll 16
            for (int r = 0; r < ROWS; ++r) {
                const auto value = row(r);
#pragma GCC unroll 16
                for (int p = 0; p < PANELS; ++p) sum[r][p] = T::multiply_add(sum[r][p], value, column[p]);
            }
        } else {  // that hold the weights of one panel
#pragma GCC unroll 16
            for (int p = 0; p < PANELS; ++p) {
                const auto column = weights(p);
#pragma GCC unroll 16
                for (int r = 0; r < ROWS; ++r) sum[r][p] = T::multiply_add(sum[r][p], row(r), column);
            }
        }
    };
    for (int64_t u = 0; u < units; ++u) {
        // One or two rows only wait for memory; with more there is time for others.
        if (ROWS > 2 && u == next) {
#pragma GCC unroll 16
            for (int p = 0; p < PANELS; ++p) __builtin_prefetch(w[p] + u * UNIT + away, 0, 2);
            next += fetch.every;
        }
#pragma GCC unroll 2
        for (int part = 0; part < T::PARTS; ++part) multiply_part(u, part);
    }
#pragma GCC unroll 16
    for (int p = 0; p < PANELS; ++p) {
        const Outputs outputs(linear, panel + p);
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) finish<T>(sum[r][p], outputs, x, r, epilogue, out, out_stride);
    }
}

template <class T, int ROWS>
void rows_of_panels(const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
                    int64_t out_stride, const Fetch& fetch) {
    // Few rows leave registers for more panels, which keeps more loads of weights under way.
    constexpr int WIDE = REGISTERS == 32 ? (ROWS <= 2 ? 8 : ROWS <= 6 ? 4 : 2) : ROWS == 1 ? 4 : ROWS <= 3 ? 2 : 1;
    int panel = panels.begin;
    for (; panel + WIDE <= panels.end; panel += WIDE)
        block<T, ROWS, WIDE>(x, linear, panel, epilogue, out, out_stride, fetch);
    for (; panel < panels.end; ++panel) block<T, ROWS, 1>(x, linear, panel, epilogue, out, out_stride, fetch);
}

template <class T, int ROWS = T::MOST>
void some_rows(int rows, const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
               int64_t out_stride, const Fetch& fetch) {
    if constexpr (ROWS > 0) {
        if (rows == ROWS) rows_of_panels<T, ROWS>(x, linear, panels, epilogue, out, out_stride, fetch);
        else some_rows<T, ROWS - 1>(rows, x, linear, panels, epilogue, out, out_stride, fetch);
    }
}

}  // namespace

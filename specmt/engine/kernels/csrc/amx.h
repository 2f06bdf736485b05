// The same on tiles (AMX).

#pragma once

#include <type_traits>

#include "gemm.h"

namespace {

// The shape of tiles: all of them have 64 bytes a row; those of weights have 16 rows, the others as many as there are.
struct alignas(64) TileShape {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {};
};

constexpr int TILE_BYTES = 64;  // of a row of a tile

void shape_tiles(int rows) {
    TileShape shape;
    for (int tile = 0; tile < 6; ++tile) shape.rows[tile] = static_cast<uint8_t>(rows);
    shape.rows[6] = shape.rows[7] = TILE;
    asm volatile("ldtilecfg %0" ::"m"(shape));
}

// The headers' functions want numbers of tiles as they are written, and do not say that they read memory.
template <int TO>
void load_tile(const void* from, int64_t stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(TO), "r"(from), "r"(stride) : "memory");
}

template <int FROM>
void store_tile(void* to) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(FROM), "r"(to), "r"(int64_t{TILE_BYTES}) : "memory");
}

template <int TO>
void clear_tile() {
    asm volatile("tilezero %%tmm%c0" ::"i"(TO));
}

// What tiles make of a type.
template <class T>
struct Tiles;

template <>
struct Tiles<BFloat16> {
    using Sum = float;
    static Floats load_sum(const float* sum) { return load(sum); }
    template <int SUM, int X, int W>
    static void multiply() {
        asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUM), "i"(X), "i"(W));
    }
};

template <>
struct Tiles<Int8> {
    using Sum = int32_t;
    static Whole load_sum(const int32_t* sum) { return load_whole(sum); }
    template <int SUM, int X, int W>
    static void multiply() {
        asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(SUM), "i"(X), "i"(W));
    }
};

// The same as `block`, on tiles: 0 … 3 are sums, 4 and 5 rows, 6 and 7 weights. There are as many rows as tiles were
// shaped for, in one tile or two, or fewer: what is read behind them goes nowhere. The weights of the next panels are fetched
// where asked for.
template <class T, int ROW_TILES, int PANELS>
void tile_block(int rows, int size, const Rows<T>& x, const Linear& linear, int panel, Epilogue epilogue, float* out,
                int64_t out_stride, bool fetches) {
    constexpr int STEP = TILE_BYTES / sizeof(typename T::Value);
    const int64_t panel_size = static_cast<int64_t>(linear.inputs) * LANES;
    const auto* weight = static_cast<const typename T::Value*>(linear.weight) + panel * panel_size;
    const auto *first = x.values, *second = first + size * x.stride;
    const int inputs = linear.inputs;
    const int64_t bytes = x.stride * static_cast<int64_t>(sizeof(typename T::Value));
    clear_tile<0>(), clear_tile<1>(), clear_tile<2>(), clear_tile<3>();
    for (int k = 0; k < inputs; k += STEP) {
        // Two lines of a tile are enough to make the processor fetch what is between and behind them.
        for (int p = 0; fetches && p < PANELS; ++p)
            for (int line = 0; line < TILE; line += TILE / 2)
                __builtin_prefetch(weight + (PANELS + p) * panel_size + k * LANES + line * STEP, 0, 2);
        load_tile<4>(first + k, bytes);
        load_tile<6>(weight + k * LANES, TILE_BYTES);
        Tiles<T>::template multiply<0, 4, 6>();
        if constexpr (ROW_TILES == 2) {
            load_tile<5>(second + k, bytes);
            Tiles<T>::template multiply<2, 5, 6>();
        }
        if constexpr (PANELS == 2) {
            load_tile<7>(weight + panel_size + k * LANES, TILE_BYTES);
            Tiles<T>::template multiply<1, 4, 7>();
            if constexpr (ROW_TILES == 2) Tiles<T>::template multiply<3, 5, 7>();
        }
    }
    alignas(64) typename Tiles<T>::Sum sums[2][2][TILE][LANES];  // of row tiles and panels
    store_tile<0>(sums[0][0]);
    if constexpr (PANELS == 2) store_tile<1>(sums[0][1]);
    if constexpr (ROW_TILES == 2) store_tile<2>(sums[1][0]);
    if constexpr (ROW_TILES * PANELS == 4) store_tile<3>(sums[1][1]);
    for (int p = 0; p < PANELS; ++p) {
        const Outputs outputs(linear, panel + p);
        for (int t = 0; t < ROW_TILES; ++t)
            for (int r = t * size, end = std::min(rows, r + size), i = 0; r < end; ++r, ++i)
                finish<T>(Tiles<T>::load_sum(sums[t][p][i]), outputs, x, r, epilogue, out, out_stride);
    }
}

// The same as `multiply`, on tiles, with at least TILE − 1 rows to read behind those of x.
template <class T>
void multiply_tiled(int rows, const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
                    int64_t out_stride) {
    // A few panels at a time stay in the cache while all rows pass, in tiles of about the same size.
    constexpr int STRIP = 4;
    const int groups = (rows + TILE - 1) / TILE, size = (rows + groups - 1) / groups;
    shape_tiles(size);
    for (int first = panels.begin; first < panels.end; first += STRIP) {
        const int end = std::min(first + STRIP, panels.end);
        for (int row = 0; row < rows; row += 2 * size) {
            Epilogue of_rows = epilogue;
            if (of_rows.residual) of_rows.residual += row * out_stride;
            const int count = std::min(2 * size, rows - row);
            const bool fetches = rows <= 2 * size;  // and wait for weights: they pass those but once
            const auto run = [&](auto block, int panel) {
                block(count, size, x.from(row), linear, panel, of_rows, out + row * out_stride, out_stride, fetches);
            };
            int panel = first;
            if (count > size) {
                for (; panel + 2 <= end; panel += 2) run(tile_block<T, 2, 2>, panel);
                for (; panel < end; ++panel) run(tile_block<T, 2, 1>, panel);
            } else {
                // Panel after panel: one tile of rows waits for weights, and those come fastest in one stream.
                for (; panel < end; ++panel) run(tile_block<T, 1, 1>, panel);
            }
        }
    }
    asm volatile("tilerelease");
}

}  // namespace

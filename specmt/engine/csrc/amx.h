// The same on tiles (AMX), and the choice between both.

#pragma once

#include <type_traits>

#include "gemm.h"
#include "threading.h"

namespace {

bool tiles = false;  // whether to use them

// The shape of tiles: all of them have 64 bytes a row; those of weights have 16 rows, the others as many as there are.
struct alignas(64) TileShape {
    uint8_t palette = 1, start = 0, reserved[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {};
};

constexpr int TILE = 16;        // rows of a tile
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

// The same as `block`, on tiles: 0 … 3 are sums, 4 and 5 rows, 6 and 7 weights. There are as many rows as tiles were
// shaped for, in one tile or two, or fewer: what is read behind them goes nowhere.
template <class T, int ROW_TILES, int PANELS>
void tile_block(int rows, int size, const Rows<T>& x, const Linear& linear, int panel, Epilogue epilogue, float* out,
                int64_t out_stride) {
    constexpr int STEP = TILE_BYTES / sizeof(typename T::Value);
    const int64_t panel_size = static_cast<int64_t>(linear.inputs) * LANES;
    const auto* weight = static_cast<const typename T::Value*>(linear.weight) + panel * panel_size;
    const auto* second = x.values + size * x.stride;
    const int64_t bytes = x.stride * static_cast<int64_t>(sizeof(typename T::Value));
    clear_tile<0>(), clear_tile<1>(), clear_tile<2>(), clear_tile<3>();
    for (int k = 0; k < linear.inputs; k += STEP) {
        load_tile<4>(x.values + k, bytes);
        load_tile<6>(weight + k * LANES, TILE_BYTES);
        T::template multiply_tiles<0, 4, 6>();
        if constexpr (ROW_TILES == 2) {
            load_tile<5>(second + k, bytes);
            T::template multiply_tiles<2, 5, 6>();
        }
        if constexpr (PANELS == 2) {
            load_tile<7>(weight + panel_size + k * LANES, TILE_BYTES);
            T::template multiply_tiles<1, 4, 7>();
            if constexpr (ROW_TILES == 2) T::template multiply_tiles<3, 5, 7>();
        }
    }
    alignas(64) typename T::TileSum sums[2][2][TILE][LANES];  // of row tiles and panels
    store_tile<0>(sums[0][0]);
    if constexpr (PANELS == 2) store_tile<1>(sums[0][1]);
    if constexpr (ROW_TILES == 2) store_tile<2>(sums[1][0]);
    if constexpr (ROW_TILES * PANELS == 4) store_tile<3>(sums[1][1]);
    for (int p = 0; p < PANELS; ++p)
        for (int r = 0; r < rows; ++r)
            finish<T>(T::load_sum(sums[r / size][p][r % size]), linear, (panel + p) * LANES, x, r, epilogue, out,
                      out_stride);
}

// The same as `tile_block`, bit for bit, in ordinary registers: one row or two are too little for tiles. Their instruction
// sums up the products of even and of odd inputs of a tile apart, from nothing, and takes tiny numbers for 0.
template <int ROWS, int PANELS>
void few_block(const Rows<BFloat16>& x, const Linear& linear, int panel, Epilogue epilogue, float* out,
               int64_t out_stride) {
    constexpr int STEP = TILE_BYTES / sizeof(uint16_t), TINY_IS_ZERO = 0x8040;
    const int64_t panel_size = static_cast<int64_t>(linear.inputs) * LANES;
    const auto* weight = static_cast<const uint16_t*>(linear.weight) + panel * panel_size;
    const __m512i upper = _mm512_set1_epi32(static_cast<int32_t>(0xFFFF0000));
    __m512 sum[ROWS][PANELS];
    for (auto& row : sum)
        for (auto& each : row) each = _mm512_setzero_ps();
    const unsigned control = _mm_getcsr();
    _mm_setcsr(control | TINY_IS_ZERO);
    for (int k = 0; k < linear.inputs; k += STEP) {
        __m512 even[ROWS][PANELS], odd[ROWS][PANELS];
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
            for (int p = 0; p < PANELS; ++p) even[r][p] = odd[r][p] = _mm512_setzero_ps();
        for (int i = k; i < k + STEP; i += 2) {
            __m512 first[ROWS], second[ROWS];
#pragma GCC unroll 16
            for (int r = 0; r < ROWS; ++r) {
                int32_t pair;
                std::memcpy(&pair, x.values + r * x.stride + i, sizeof pair);
                const __m512i both = _mm512_set1_epi32(pair);
                first[r] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
                second[r] = _mm512_castsi512_ps(_mm512_and_si512(both, upper));
            }
#pragma GCC unroll 16
            for (int p = 0; p < PANELS; ++p) {
                const __m512i both = _mm512_loadu_si512(weight + p * panel_size + i * LANES);
                const __m512 low = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
                const __m512 high = _mm512_castsi512_ps(_mm512_and_si512(both, upper));
#pragma GCC unroll 16
                for (int r = 0; r < ROWS; ++r) {
                    even[r][p] = _mm512_fmadd_ps(first[r], low, even[r][p]);
                    odd[r][p] = _mm512_fmadd_ps(second[r], high, odd[r][p]);
                }
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
            for (int p = 0; p < PANELS; ++p)
                sum[r][p] = _mm512_add_ps(sum[r][p], _mm512_add_ps(even[r][p], odd[r][p]));
    }
    _mm_setcsr(control);
    for (int p = 0; p < PANELS; ++p)
        for (int r = 0; r < ROWS; ++r)
            finish<BFloat16>(sum[r][p], linear, (panel + p) * LANES, x, r, epilogue, out, out_stride);
}

template <int ROWS>
void multiply_few(const Rows<BFloat16>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
                  int64_t out_stride) {
    constexpr int WIDE = 8 / ROWS;
    int panel = panels.begin;
    for (; panel + WIDE <= panels.end; panel += WIDE)
        few_block<ROWS, WIDE>(x, linear, panel, epilogue, out, out_stride);
    for (; panel < panels.end; ++panel) few_block<ROWS, 1>(x, linear, panel, epilogue, out, out_stride);
}

// The same as `multiply`, on tiles, with at least TILE − 1 rows to read behind those of x.
template <class T>
void multiply_tiled(int rows, const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
                    int64_t out_stride) {
    if constexpr (std::is_same_v<T, BFloat16>) {
        if (rows == 1) return multiply_few<1>(x, linear, panels, epilogue, out, out_stride);
        if (rows == 2) return multiply_few<2>(x, linear, panels, epilogue, out, out_stride);
    }
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
            const auto run = [&](auto block, int panel) {
                block(count, size, x.from(row), linear, panel, of_rows, out + row * out_stride, out_stride);
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

// out (R, N) = x (R, K) Wᵀ + b over a share of the panels. How rows are grouped changes no sum.
template <class T>
void multiply(int rows, const Rows<T>& x, const Linear& linear, Range panels, Epilogue epilogue, float* out,
              int64_t out_stride) {
    if constexpr (!std::is_same_v<T, Float32>)
        if (tiles && rows >= T::LEAST && linear.inputs % (TILE_BYTES / sizeof(typename T::Value)) == 0)
            return multiply_tiled<T>(rows, x, linear, panels, epilogue, out, out_stride);
    constexpr int MOST = 12;
    if (rows <= MOST) return some_rows<T>(rows, x, linear, panels, epilogue, out, out_stride);
    // Many rows: a few panels at a time stay in the cache while all rows pass, in groups of about the same size.
    constexpr int STRIP = 4;
    const int groups = (rows + MOST - 1) / MOST, size = (rows + groups - 1) / groups;
    for (int panel = panels.begin; panel < panels.end; panel += STRIP) {
        const Range strip{panel, std::min(panel + STRIP, panels.end)};
        for (int row = 0; row < rows; row += size) {
            Epilogue of_rows = epilogue;
            if (of_rows.residual) of_rows.residual += row * out_stride;
            some_rows<T>(std::min(size, rows - row), x.from(row), linear, strip, of_rows, out + row * out_stride,
                         out_stride);
        }
    }
}

// Where rows are turned into what a type wants.
class Converter {
  public:
    template <class T>
    void reserve(int64_t rows, int64_t width) {
        if constexpr (std::is_same_v<T, Float32>) return;
        fit(values_, (rows + TILE - 1) * width * sizeof(typename T::Value));  // tiles read on behind the last row
        fit(scales_, rows);
    }

    // The result stands until the next call; there must be room for it.
    template <class T>
    Rows<T> convert(const float* from, int rows, int width) {
        if constexpr (std::is_same_v<T, Float32>) {
            return {from, width, nullptr};
        } else {
            auto* values = reinterpret_cast<typename T::Value*>(values_.data());
            for (int64_t r = 0; r < rows; ++r) scales_[r] = T::convert(from + r * width, values + r * width, width);
            return {values, width, scales_.data()};
        }
    }

  private:
    Vector<uint8_t> values_;
    Vector<float> scales_;
};

}  // namespace

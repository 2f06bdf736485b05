// From weights as they are stored to what layers and drafters read: panels, and products that are worked out once.
//
// What is rounded is rounded from the same numbers and to the same ones on every processor, whatever the threads.

#pragma once

#include <algorithm>
#include <numeric>

#include "multiply.h"

namespace {

// How many inputs of an output stand side by side, in four bytes.
int inputs_of_unit(int32_t type) { return type == FLOAT32 ? 1 : type == BFLOAT16 ? 2 : type == INT8 ? 4 : 8; }

// One row of a matrix in float32.
void widen(const Stored& s, int64_t row, float* to) {
    const int64_t begin = row * s.stride;
    if (s.type == INT8) {
        const auto* from = static_cast<const int8_t*>(s.values) + begin;
        const float scale = s.scales[row], factor = s.factor;
        for (int i = 0, count = s.inputs; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale * factor;
    } else {
        const Floats factor = floats(s.factor);
        with_floats(s.type, s.values, [&](const auto* from) {
            for (int i = 0; i < s.inputs; i += LANES) store(to + i, multiply(load(from + begin + i), factor));
        });
    }
}

// To the nearest, of two to the even one. The smallest are kept, which instructions would make 0.
uint16_t to_bfloat16(float x) {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x);
    return static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

// A row in units of a scale, rounded to whole numbers, and what they add up to.
struct InUnits {
    float scale;
    int32_t sum;
};

InUnits round_bytes(const float* x, int count, float* whole, int8_t* to) {
    Floats most = floats(0.0f);
    for (int i = 0; i < count; i += LANES) most = larger(most, magnitude(load(x + i)));
    const float scale = std::max(highest_in(most), 1e-30f) / 127.0f;
    for (int i = 0; i < count; i += LANES) store(whole + i, nearest(divide(load(x + i), floats(scale))));
    int32_t sum = 0;
    for (int i = 0; i < count; ++i) {
        const auto number = static_cast<int32_t>(whole[i]);
        to[i] = static_cast<int8_t>(number);
        sum += number;
    }
    return {scale, sum};
}

// The row of a matrix in int8 with the numbers and the scale that it has: none need be as large as 127.
InUnits keep_bytes(const Stored& s, const int8_t* from, float scale, float* whole, int8_t* to) {
    std::copy_n(from, s.inputs, to);
    std::copy_n(from, s.inputs, whole);
    return {scale * s.factor, std::accumulate(from, from + s.inputs, 0)};
}

// The codes of the nearest levels, two in a byte. The outermost level is where it distorts least if the mean square of
// the row is 1 (Max 1960, table I).
InUnits find_codes(const float* x, int count, float* scaled, uint8_t* codes, uint8_t* to) {
    constexpr float LARGEST = 2.733f / 127.0f;
    Floats squares = floats(0.0f);
    for (int i = 0; i < count; i += LANES) squares = fma(load(x + i), load(x + i), squares);
    const float scale = std::max(__builtin_sqrtf(sum_of(squares) / static_cast<float>(count)), 1e-30f) * LARGEST;
    for (int i = 0; i < count; i += LANES) store(scaled + i, divide(load(x + i), floats(scale)));
    std::fill_n(codes, count, uint8_t{0});
    for (int level = 0; level < 15; ++level) {
        const float between = static_cast<float>(LEVELS[level] + LEVELS[level + 1]) / 2.0f;
        for (int i = 0; i < count; ++i) codes[i] += scaled[i] > between;
    }
    int32_t sum = 0;
    for (int i = 0; i < count; ++i) sum += LEVELS[codes[i]];
    for (int i = 0; i < count; i += 8)
        for (int j = 0; j < 4; ++j) to[i / 2 + j] = static_cast<uint8_t>(codes[i + j] | codes[i + 4 + j] << 4);
    return {scale, sum};
}

// How far off weights in int8 are, and their 2-norm, at most.
struct Bounds {
    double error = 0.0, norm = 0.0;

    void widen(const Bounds& other) {
        error = std::max(error, other.error);
        norm = std::max(norm, other.norm);
    }
};

// Those of one row.
Bounds bounds_of(const float* x, int32_t exact, const float* whole, float scale, int count) {
    double errors[LANES] = {}, squares[LANES] = {};
    for (int i = 0; i < count; i += LANES)
        for (int lane = 0; lane < LANES; ++lane) {
            const float value = x[i + lane], rough = whole[i + lane] * scale;
            const float rounded = __builtin_bit_cast(float, static_cast<uint32_t>(to_bfloat16(value)) << 16);
            const double error = static_cast<double>(exact == BFLOAT16 ? rounded : value) - static_cast<double>(rough);
            errors[lane] += error * error;
            squares[lane] += static_cast<double>(rough) * static_cast<double>(rough);
        }
    for (int lane = 1; lane < LANES; ++lane) errors[0] += errors[lane], squares[0] += squares[lane];
    return {__builtin_sqrt(errors[0]), __builtin_sqrt(squares[0])};
}

// What a thread packs the rows of panels in.
struct Packer {
    Vector<float> row, scaled;
    Vector<uint8_t> codes, rounded;  // the latter is 16 rows as panels have them, of four bytes an input at most
    Bounds bounds;

    void reserve(int inputs) {
        fit(row, inputs);
        fit(scaled, inputs);
        fit(codes, inputs);
        fit(rounded, int64_t{LANES} * inputs * 4);
    }

    void pack(const Packing& p, int panel) {
        const int64_t units = p.stored.inputs / inputs_of_unit(p.type);
        for (int lane = 0; lane < LANES; ++lane)
            round(p, static_cast<int64_t>(panel) * LANES + lane, &rounded[lane * units * 4]);
        auto* out = static_cast<uint8_t*>(const_cast<void*>(p.to.weight)) + panel * units * LANES * 4;
        for (int64_t u = 0; u < units; ++u)
            for (int lane = 0; lane < LANES; ++lane, out += 4) std::memcpy(out, &rounded[(lane * units + u) * 4], 4);
    }

    void round(const Packing& p, int64_t place, uint8_t* to) {
        const int inputs = p.stored.inputs;
        float* x = row.data();
        if (place < p.stored.rows) widen(p.stored, place, x);
        else std::fill_n(x, inputs, 0.0f);
        if (p.type == FLOAT32) {
            std::memcpy(to, x, inputs * sizeof(float));
        } else if (p.type == BFLOAT16) {
            auto* halves = reinterpret_cast<uint16_t*>(to);
            for (int i = 0; i < inputs; ++i) halves[i] = to_bfloat16(x[i]);
        } else {
            const InUnits found = p.type == INT8 ? in_bytes(p.stored, place, reinterpret_cast<int8_t*>(to))
                                                 : find_codes(x, inputs, scaled.data(), codes.data(), to);
            const_cast<float*>(p.to.scale)[place] = found.scale;
            const_cast<int32_t*>(p.to.offset)[place] = 128 * found.sum;
            if (p.bounds) bounds.widen(bounds_of(x, p.exact, scaled.data(), found.scale, inputs));
        }
    }

    // The row that was widened last, as it is stored if it is in int8; -128 is none of the numbers that are multiplied.
    InUnits in_bytes(const Stored& s, int64_t place, int8_t* to) {
        const auto* stored = static_cast<const int8_t*>(s.values) + place * s.stride;
        const bool stands = s.type == INT8 && place < s.rows && *std::min_element(stored, stored + s.inputs) > -128;
        return stands ? keep_bytes(s, stored, s.scales[place], scaled.data(), to)
                      : round_bytes(row.data(), s.inputs, scaled.data(), to);
    }
};

void run_packing(const Packing& p) {
    Vector<Packer> packers;
    packers.resize(p.threads);
    for (Packer& packer : packers) packer.reserve(p.stored.inputs);
    for_each(p.threads, p.to.outputs / LANES, [&](int panel, int thread) { packers[thread].pack(p, panel); });
    if (!p.bounds) return;
    Bounds bounds;
    for (const Packer& packer : packers) bounds.widen(packer.bounds);
    p.bounds[0] = static_cast<float>(bounds.error);
    p.bounds[1] = static_cast<float>(bounds.norm);
}

void run_products(const Products& p) {
    constexpr int SOME = 96;  // rows of a table that are in float32 at a time
    const int64_t inputs = p.table.inputs, outputs = p.linear.outputs;
    Vector<float> buffers;
    fit(buffers, SOME * inputs * p.threads);
    in_parallel(p.threads, [&](int thread, int all) {
        const Range mine = share(p.table.rows, thread, all);
        float* rows = &buffers[SOME * inputs * thread];
        for (int begin = mine.begin; begin < mine.end; begin += SOME) {
            const int count = std::min(SOME, mine.end - begin);
            for (int r = 0; r < count; ++r) widen(p.table, begin + r, rows + r * inputs);
            multiply<Float32>(count, {rows, inputs, nullptr}, p.linear, {0, p.linear.outputs / LANES}, {},
                              p.products + begin * outputs, outputs);
        }
    });
}

}  // namespace

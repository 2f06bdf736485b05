// Functions of 16 floats and of rows: e^x, activations, layer norm, largest values. Every processor computes the same bits:
// what is rounded and in which order sums are taken is written out here, and compilers must not merge products with sums
// (-ffp-contract=off).

#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "structures.h"

#define INLINE [[gnu::always_inline]] inline

namespace {

struct Half {  // float16
    uint16_t bits;
};

// Four bytes as a number.
INLINE int32_t four_bytes(const void* x) {
    int32_t four;
    std::memcpy(&four, x, sizeof four);
    return four;
}

}  // namespace

#if defined(__aarch64__)
#include "vector_neon.h"
#elif SPECMT_AVX512
#include "vector_avx512.h"
#else
#include "vector_avx2.h"
#endif

namespace {

struct Range {
    int begin, end;
};

Range share(int count, int thread, int threads) {
    return {static_cast<int>(static_cast<int64_t>(count) * thread / threads),
            static_cast<int>(static_cast<int64_t>(count) * (thread + 1) / threads)};
}

INLINE Floats exponential(Floats x) {
    // 2^n · e^r with r in [−ln 2 / 2, ln 2 / 2] and a polynomial of degree 6; arguments are at most 0.
    x = larger(x, floats(-104.0f));
    const Floats n = nearest(multiply(x, floats(1.44269504088896341f)));
    Floats r = subtract_product(x, n, floats(0.693359375f));
    r = subtract_product(r, n, floats(-2.12194440e-4f));
    Floats p = floats(1.9875691500e-4f);
    p = fma(p, r, floats(1.3981999507e-3f));
    p = fma(p, r, floats(8.3334519073e-3f));
    p = fma(p, r, floats(4.1665795894e-2f));
    p = fma(p, r, floats(1.6666665459e-1f));
    p = fma(p, r, floats(5.0000001201e-1f));
    p = fma(p, multiply(r, r), add(r, floats(1.0f)));
    return times_power(p, n);
}

// 1 / (1 + e^(−x)), without overflow
INLINE Floats sigmoid(Floats x) {
    const Floats one = floats(1.0f);
    const Floats e = exponential(subtract(floats(0.0f), magnitude(x)));
    const Floats small = divide(e, add(one, e));
    return where_negative(x, small, subtract(one, small));
}

struct Swish {
    INLINE Floats operator()(Floats x) const { return multiply(x, sigmoid(x)); }
};

// x Φ(x), with Φ(−|x|) as a polynomial of t = 1 / (1 + p |x| / √2) times e^(−x²/2) (Abramowitz and Stegun 7.1.26).
struct Gelu {
    INLINE Floats operator()(Floats x) const {
        const Floats one = floats(1.0f), z = magnitude(x);
        const Floats t = divide(one, fma(z, floats(0.3275911f * 0.70710678118f), one));
        Floats p = floats(0.5f * 1.061405429f);
        p = fma(p, t, floats(0.5f * -1.453152027f));
        p = fma(p, t, floats(0.5f * 1.421413741f));
        p = fma(p, t, floats(0.5f * -0.284496736f));
        p = fma(p, t, floats(0.5f * 0.254829592f));
        const Floats e = exponential(multiply(multiply(z, z), floats(-0.5f)));
        const Floats tail = multiply(multiply(p, t), e);  // Φ(−|x|)
        return multiply(x, where_negative(x, tail, subtract(one, tail)));
    }
};

void layer_norm(const float* x, const float* weight, const float* bias, float epsilon, int width, float* out) {
    Floats sum = floats(0.0f);
    for (int i = 0; i < width; i += LANES) sum = add(sum, load(x + i));
    const Floats mean = floats(sum_of(sum) / static_cast<float>(width));
    Floats squares = floats(0.0f);
    for (int i = 0; i < width; i += LANES) {
        const Floats d = subtract(load(x + i), mean);
        squares = fma(d, d, squares);
    }
    const float variance = sum_of(squares) / static_cast<float>(width);
    const Floats scale = floats(1.0f / __builtin_sqrtf(variance + epsilon));
    for (int i = 0; i < width; i += LANES) {
        const Floats d = multiply(subtract(load(x + i), mean), scale);
        store(out + i, fma(d, load(weight + i), load(bias + i)));
    }
}

template <class To>
void copy(const float* from, To* to, int count) {
    for (int i = 0; i < count; i += LANES) store(to + i, load(from + i));
}

// Calls f with a pointer to floating-point numbers of a type.
template <class F>
INLINE void with_floats(int32_t type, const void* numbers, F f) {
    if (type == FLOAT16) f(static_cast<const Half*>(numbers));
    else if (type == BFLOAT16) f(static_cast<const uint16_t*>(numbers));
    else f(static_cast<const float*>(numbers));
}

float highest_of(const float* x, int count) {
    const Floats nothing = floats(-INFINITY);
    Floats most = nothing;
    for (int i = 0; i < count; i += LANES) most = larger(load_first(x + i, count - i, nothing), most);
    return highest_in(most);
}

// Turns scores into e^(score − the highest); returns what makes them add up to 1.
float exponentials(float* scores, int count) {
    const Floats highest = floats(highest_of(scores, count));
    // Lane i adds up the positions i, i + 16, …; lanes past the end add nothing, whatever the padding.
    Floats sums = floats(0.0f);
    for (int t = 0; t < count; t += LANES) {
        const Floats e = keep_first(exponential(subtract(load_first(scores + t, count - t), highest)), count - t);
        sums = add(sums, e);
        store_first(scores + t, e, count - t);
    }
    return 1.0f / sum_of(sums);
}

// The sum of e^(x − highest), lane by lane as above.
float sum_of_exponentials(const float* x, int count, Floats highest) {
    Floats sums = floats(0.0f);
    for (int i = 0; i < count; i += LANES) {
        const Floats e = exponential(subtract(load_first(x + i, count - i), highest));
        sums = add(sums, keep_first(e, count - i));
    }
    return sum_of(sums);
}

}  // namespace

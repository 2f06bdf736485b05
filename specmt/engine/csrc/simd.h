// Functions of whole registers and of rows: e^x, activations, layer norm, largest values.

#pragma once

#include <cmath>
#include <cstdint>

#include <immintrin.h>

namespace {

constexpr int LANES = 16;  // floats in a register, and outputs in a panel of packed weights

struct Range {
    int begin, end;
};

Range share(int count, int thread, int threads) {
    return {static_cast<int>(static_cast<int64_t>(count) * thread / threads),
            static_cast<int>(static_cast<int64_t>(count) * (thread + 1) / threads)};
}

inline __m512 exp16(__m512 x) {
    // 2^n · e^r with r in [−ln 2 / 2, ln 2 / 2] and a polynomial of degree 6; arguments are at most 0.
    x = _mm512_max_ps(x, _mm512_set1_ps(-104.0f));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504088896341f)), 8);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4f), r);
    __m512 p = _mm512_set1_ps(1.9875691500e-4f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
    p = _mm512_fmadd_ps(p, _mm512_mul_ps(r, r), _mm512_add_ps(r, _mm512_set1_ps(1.0f)));
    return _mm512_scalef_ps(p, n);
}

// 1 / (1 + e^(−x)), without overflow
inline __m512 sigmoid16(__m512 x) {
    const __m512 one = _mm512_set1_ps(1.0f);
    const __m512 e = exp16(_mm512_sub_ps(_mm512_setzero_ps(), _mm512_abs_ps(x)));
    const __m512 small = _mm512_div_ps(e, _mm512_add_ps(one, e));
    const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
    return _mm512_mask_mov_ps(_mm512_sub_ps(one, small), negative, small);
}

struct Swish {
    __m512 operator()(__m512 x) const { return _mm512_mul_ps(x, sigmoid16(x)); }
};

// x Φ(x), with Φ(−|x|) as a polynomial of t = 1 / (1 + p |x| / √2) times e^(−x²/2) (Abramowitz and Stegun 7.1.26).
struct Gelu {
    __m512 operator()(__m512 x) const {
        const __m512 one = _mm512_set1_ps(1.0f), z = _mm512_abs_ps(x);
        const __m512 t = _mm512_div_ps(one, _mm512_fmadd_ps(z, _mm512_set1_ps(0.3275911f * 0.70710678118f), one));
        __m512 p = _mm512_set1_ps(0.5f * 1.061405429f);
        p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.5f * -1.453152027f));
        p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.5f * 1.421413741f));
        p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.5f * -0.284496736f));
        p = _mm512_fmadd_ps(p, t, _mm512_set1_ps(0.5f * 0.254829592f));
        const __m512 e = exp16(_mm512_mul_ps(_mm512_mul_ps(z, z), _mm512_set1_ps(-0.5f)));
        const __m512 tail = _mm512_mul_ps(_mm512_mul_ps(p, t), e);  // Φ(−|x|)
        const __mmask16 negative = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
        return _mm512_mul_ps(x, _mm512_mask_mov_ps(_mm512_sub_ps(one, tail), negative, tail));
    }
};

void layer_norm(const float* x, const float* weight, const float* bias, int width, float* out) {
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < width; i += LANES) sum = _mm512_add_ps(sum, _mm512_loadu_ps(x + i));
    const __m512 mean = _mm512_set1_ps(_mm512_reduce_add_ps(sum) / static_cast<float>(width));
    __m512 squares = _mm512_setzero_ps();
    for (int i = 0; i < width; i += LANES) {
        const __m512 d = _mm512_sub_ps(_mm512_loadu_ps(x + i), mean);
        squares = _mm512_fmadd_ps(d, d, squares);
    }
    const float variance = _mm512_reduce_add_ps(squares) / static_cast<float>(width);
    const __m512 scale = _mm512_set1_ps(1.0f / __builtin_sqrtf(variance + 1e-5f));
    for (int i = 0; i < width; i += LANES) {
        const __m512 d = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(x + i), mean), scale);
        _mm512_storeu_ps(out + i, _mm512_fmadd_ps(d, _mm512_loadu_ps(weight + i), _mm512_loadu_ps(bias + i)));
    }
}

inline __m512 load16(const float* x) { return _mm512_loadu_ps(x); }

inline __m512 load16(const uint16_t* x) {  // bfloat16: the upper half of a float
    const __m256i halves = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(halves), 16));
}

inline void store16(float* to, __m512 x) { _mm512_storeu_ps(to, x); }

inline void store16(uint16_t* to, __m512 x) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), (__m256i)_mm512_cvtneps_pbh(x));
}

struct Half {
    uint16_t bits;
};

inline __m512 load16(const Half* x) {  // float16
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}

template <class To>
void copy(const float* from, To* to, int count) {
    for (int i = 0; i < count; i += LANES) store16(to + i, _mm512_loadu_ps(from + i));
}

// What the lanes of each of four registers add up to, halves first.
inline __m128 sums_of(__m512 a, __m512 b, __m512 c, __m512 d) {
    const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
    __m512 all = _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
    all = _mm512_add_ps(all, _mm512_permute_ps(all, 0x4E));
    all = _mm512_add_ps(all, _mm512_permute_ps(all, 0xB1));
    return _mm512_castps512_ps128(_mm512_maskz_compress_ps(0x1111, all));
}

// The lanes of a register that so many numbers fill.
inline __mmask16 lanes(int count) {
    return count >= LANES ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1u << count) - 1);
}

float highest_of(const float* x, int count) {
    const __m512 nothing = _mm512_set1_ps(-INFINITY);
    __m512 most = nothing;
    for (int i = 0; i < count; i += LANES)
        most = _mm512_max_ps(most, _mm512_mask_loadu_ps(nothing, lanes(count - i), x + i));
    return _mm512_reduce_max_ps(most);
}

// Turns scores into e^(score − the highest); returns what makes them add up to 1.
float exponentials(float* scores, int count) {
    const __m512 highest = _mm512_set1_ps(highest_of(scores, count));
    // Lane i adds up the positions i, i + 16, …; lanes past the end add nothing, whatever the padding.
    __m512 sums = _mm512_setzero_ps();
    for (int t = 0; t < count; t += LANES) {
        const __m512 s = _mm512_maskz_loadu_ps(lanes(count - t), scores + t);
        const __m512 e = _mm512_maskz_mov_ps(lanes(count - t), exp16(_mm512_sub_ps(s, highest)));
        sums = _mm512_add_ps(sums, e);
        _mm512_mask_storeu_ps(scores + t, lanes(count - t), e);
    }
    return 1.0f / _mm512_reduce_add_ps(sums);
}

}  // namespace

// The decoder and encoder stacks on packed weights, one call a step, for CPUs with AVX-512, bfloat16 and VNNI.
//
// Every output of a row is a sum over inputs in ascending order, and attention walks keys in position order, so that a
// row's bits depend on nothing but its own sentence: not on the window, the batch, padding or the number of threads.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

// Raised with every change of the structures below, so that a library built for another version is left alone.
constexpr int REVISION = 12;

extern "C" int specmt_supported(int revision) {
    if (revision != REVISION) return 0;
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni");
}

// ---------------------------------------------------------------------------------------------- tiles

namespace {

// Whether the processor multiplies tiles of bfloat16 and int8 (AMX), and the kernel lets this process do so.
bool find_tiles() {
    constexpr unsigned bits = 1u << 22 | 1u << 24 | 1u << 25;
    constexpr int request_permission = 0x1023, tile_data = 18;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & bits) != bits) return false;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

bool tiles = false;  // whether to use them

}  // namespace

// Uses tiles where they are there, if they are wanted; returns whether they are used.
extern "C" int specmt_tiles(int wanted) {
    static const bool found = find_tiles();
    return tiles = found && wanted;
}

// ---------------------------------------------------------------------------------------------- threads

namespace {

// Looks a while, then sleeps: whoever shares the processors with others must not burn them waiting.
void await_change(const std::atomic<int>& value, int old, int spins) {
    for (; spins > 0; --spins) {
        if (value.load(std::memory_order_acquire) != old) return;
        _mm_pause();
    }
    value.wait(old, std::memory_order_acquire);
}

// Threads wait for each other. Each says in a place of its own how often it has come here, and looks at the others'.
class Barrier {
  public:
    // While nobody waits.
    void resize(int threads) { places_ = std::vector<Place>(threads); }

    void wait(int thread, int threads) {
        if (threads == 1) return;
        std::atomic<int>& mine = places_[thread].times;
        const int times = mine.load(std::memory_order_relaxed) + 1;
        mine.store(times);  // in order with the look at who sleeps
        mine.notify_all();
        for (int other = 0; other < threads; ++other)
            for (int seen; (seen = places_[other].times.load(std::memory_order_acquire)) - times < 0;)
                await_change(places_[other].times, seen, 2000);
    }

  private:
    struct alignas(64) Place {  // a line of the cache
        std::atomic<int> times{0};
    };
    std::vector<Place> places_;
};

Barrier barrier;

class Pool {
  public:
    using Work = void (*)(void* argument, int thread, int threads);

    ~Pool() { resize(1); }

    void run(int threads, Work work, void* argument) {
        resize(threads);
        work_ = work;
        argument_ = argument;
        pending_.store(threads - 1, std::memory_order_relaxed);
        ticket_.fetch_add(1, std::memory_order_release);
        ticket_.notify_all();
        work(argument, 0, threads);
        for (int left = pending_.load(std::memory_order_acquire); left != 0; left = pending_.load())
            await_change(pending_, left, 2000);
    }

  private:
    void resize(int threads) {
        if (process_ != getpid()) {
            // A fork leaves the threads of its parent behind; their handles can only be forgotten.
            new (&workers_) std::vector<std::thread>;
            process_ = getpid();
        }
        if (static_cast<int>(workers_.size()) == threads - 1) return;
        stop_ = true;
        ticket_.fetch_add(1, std::memory_order_release);
        ticket_.notify_all();
        for (auto& worker : workers_) worker.join();
        workers_.clear();
        stop_ = false;
        threads_ = threads;
        barrier.resize(threads);
        const int start = ticket_.load();
        for (int thread = 1; thread < threads; ++thread)
            workers_.emplace_back([this, thread, start] { loop(thread, start); });
    }

    void loop(int thread, int seen) {
        for (;;) {
            // The next step usually comes within a fraction of a millisecond.
            await_change(ticket_, seen, 60000);
            seen = ticket_.load(std::memory_order_acquire);
            if (stop_) return;
            work_(argument_, thread, threads_);
            pending_.fetch_sub(1, std::memory_order_release);
            pending_.notify_all();
        }
    }

    std::vector<std::thread> workers_;
    std::atomic<int> ticket_{0}, pending_{0};
    Work work_ = nullptr;
    void* argument_ = nullptr;
    int threads_ = 1;
    std::atomic<bool> stop_{false};
    pid_t process_ = getpid();
};

Pool pool;
std::mutex turn;  // threads and scratch space serve one call at a time

}  // namespace

// ---------------------------------------------------------------------------------------------- small pieces

// Only from here on: what runs when the library is loaded must run on every processor.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx512vnni,fma")

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

// What a query sees, in position order: the places 0 … prefix − 1, then those that a branch of a draft tree lies at,
// counted from there.
struct Seen {
    int prefix = 0;
    const int64_t* branch = nullptr;
    int nodes = 0;

    int count() const { return prefix + nodes; }
    int64_t place(int t) const { return t < prefix ? t : prefix + branch[t - prefix]; }
};

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

constexpr int TOGETHER = 4;  // queries that attention is worked out for at a time

// Keys and values of one head and sentence.
template <class K>
struct Memory {
    const K* keys;
    const K* values;
    int64_t stride;  // of both
    int64_t next;    // how far away those lie that are probably wanted next; 0 if they are near

    // Fetches, in passing, what will be wanted.
    void fetch(const K* place) const {
        if (next) _mm_prefetch(reinterpret_cast<const char*>(place + next), _MM_HINT_T0);
    }
};

// Some queries of one head.
struct Queries {
    const float* first;
    int64_t stride;
    float* scores;    // TOGETHER rows of the most keys that are seen, rounded up to LANES
    int64_t longest;  // of such a row
    float* out;
    int64_t out_stride;
};

// softmax(q kᵀ) v over what each query sees, in that order. What one gets does not depend on the others.
template <int D16, int ROWS, class K>
void attend(const Queries& q, const Memory<K>& m, const Seen* seen) {
    constexpr int LINE = 64 / LANES / sizeof(K);  // registers full of a line of the cache
    int shared = seen[0].prefix;
    for (int r = 1; r < ROWS; ++r) shared = std::min(shared, seen[r].prefix);
    shared -= shared % 4;
    for (int t = 0; t < shared; t += 4) {
        __m512 sum[ROWS][4];
#pragma GCC unroll 16
        for (int i = 0; i < D16; ++i) {
            __m512 key[4];
#pragma GCC unroll 16
            for (int k = 0; k < 4; ++k) {
                const K* place = m.keys + (t + k) * m.stride + i * LANES;
                key[k] = load16(place);
                if (i % LINE == 0) m.fetch(place);
            }
#pragma GCC unroll 16
            for (int r = 0; r < ROWS; ++r) {
                const __m512 query = load16(q.first + r * q.stride + i * LANES);
#pragma GCC unroll 16
                for (int k = 0; k < 4; ++k)
                    sum[r][k] = i == 0 ? _mm512_mul_ps(query, key[k]) : _mm512_fmadd_ps(query, key[k], sum[r][k]);
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r)
            _mm_storeu_ps(q.scores + r * q.longest + t, sums_of(sum[r][0], sum[r][1], sum[r][2], sum[r][3]));
    }
    float scales[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        const int count = seen[r].count();
        float* scores = q.scores + r * q.longest;
        const auto product = [&](int t) {
            const float* query = q.first + r * q.stride;
            const K* key = m.keys + seen[r].place(std::min(t, count - 1)) * m.stride;
            __m512 sum = _mm512_mul_ps(load16(query), load16(key));
            for (int i = 1; i < D16; ++i) sum = _mm512_fmadd_ps(load16(query + i * LANES), load16(key + i * LANES), sum);
            return sum;
        };
        for (int t = shared; t < count; t += 4)
            _mm_storeu_ps(scores + t, sums_of(product(t), product(t + 1), product(t + 2), product(t + 3)));
        scales[r] = exponentials(scores, count);
    }
    __m512 total[ROWS][D16];
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int i = 0; i < D16; ++i) total[r][i] = _mm512_setzero_ps();
    for (int t = 0; t < shared; ++t) {
        __m512 value[D16];
#pragma GCC unroll 16
        for (int i = 0; i < D16; ++i) {
            const K* place = m.values + t * m.stride + i * LANES;
            value[i] = load16(place);
            if (i % LINE == 0) m.fetch(place);
        }
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) {
            const __m512 p = _mm512_set1_ps(q.scores[r * q.longest + t]);
#pragma GCC unroll 16
            for (int i = 0; i < D16; ++i) total[r][i] = _mm512_fmadd_ps(p, value[i], total[r][i]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
        for (int t = shared; t < seen[r].count(); ++t) {
            const __m512 p = _mm512_set1_ps(q.scores[r * q.longest + t]);
            const K* value = m.values + seen[r].place(t) * m.stride;
#pragma GCC unroll 16
            for (int i = 0; i < D16; ++i) total[r][i] = _mm512_fmadd_ps(p, load16(value + i * LANES), total[r][i]);
        }
        const __m512 scale = _mm512_set1_ps(scales[r]);
#pragma GCC unroll 16
        for (int i = 0; i < D16; ++i)
            _mm512_storeu_ps(q.out + r * q.out_stride + i * LANES, _mm512_mul_ps(total[r][i], scale));
    }
}

template <int D16, class K>
void attend(const Queries& q, const Memory<K>& m, const Seen* seen, int rows) {
    switch (rows) {
        case 1: return attend<D16, 1>(q, m, seen);
        case 2: return attend<D16, 2>(q, m, seen);
        case 3: return attend<D16, 3>(q, m, seen);
        default: return attend<D16, TOGETHER>(q, m, seen);
    }
}

template <class K>
void attend(int head_dim, const Queries& q, const Memory<K>& m, const Seen* seen, int rows) {
    switch (head_dim / LANES) {
        case 1: return attend<1>(q, m, seen, rows);
        case 2: return attend<2>(q, m, seen, rows);
        case 3: return attend<3>(q, m, seen, rows);
        case 4: return attend<4>(q, m, seen, rows);
        case 6: return attend<6>(q, m, seen, rows);
        default: return attend<8>(q, m, seen, rows);
    }
}

}  // namespace

// ---------------------------------------------------------------------------------------------- linear layers

enum Type : int32_t { FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2, FLOAT16 = 3 };

// Panels of 16 outputs. float32: [panel][input][16]; bfloat16: [panel][input / 2][16][2]; int8: [panel][input / 4][16][4].
struct Linear {
    const void* weight;
    const float* bias;      // null for none
    const float* scale;     // of each output's weights; int8 only
    const int32_t* offset;  // what 128 times each output's weights add up to; int8 only
    int32_t outputs;        // a multiple of 16
    int32_t inputs;         // a multiple of 16
};

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
template <class T>
class Converter {
  public:
    // The result stands until the next call.
    Rows<T> convert(const float* from, int rows, int width) {
        if constexpr (std::is_same_v<T, Float32>) {
            return {from, width, nullptr};
        } else {
            const int64_t size = static_cast<int64_t>(rows + TILE - 1) * width;  // tiles read on behind the last row
            if (static_cast<int64_t>(values_.size()) < size) values_.resize(size);
            scales_.resize(rows);
            for (int64_t r = 0; r < rows; ++r)
                scales_[r] = T::convert(from + r * width, values_.data() + r * width, width);
            return {values_.data(), width, scales_.data()};
        }
    }

  private:
    std::vector<typename T::Value> values_;
    std::vector<float> scales_;
};

}  // namespace

// ---------------------------------------------------------------------------------------------- networks

struct Norm {
    const float* weight;
    const float* bias;
};

// Each norm is that of a sublayer's input. In networks that normalise residual sums it is the one behind the sublayer
// before, none in front of the first.
struct Layer {
    Norm attention_norm;
    Linear qkv, attention_out;
    Norm cross_norm;  // of decoder layers only, as the next three
    Linear cross_query, cross_key_value, cross_out;
    Norm ffn_norm;
    Linear ffn_in, ffn_out;
};

enum Activation : int32_t { RELU = 0, SWISH = 1, GELU = 2 };

// A projection in int8 beside the one that counts, to find out what outputs cannot be the best.
struct Screen {
    Linear project;           // no weights: there is none
    float error, norm, bias;  // at most: how far off an output's weights are, their 2-norm (both in int8), and a bias
};

struct Network {
    int32_t type, layers, width, heads, ffn, places, vocab;
    int32_t activation;
    int32_t post;            // whether residual sums are normalised, so that what is added to is normalised, too
    int32_t table_type;
    float scale;             // of embeddings
    const void* table;       // (V, D) embeddings
    const float* mask;       // (D) what stands for token V, in drafters; not scaled
    const float* positions;  // (places, D)
    const Layer* layer;
    Norm norm;               // behind the last layer
    Linear project;
    Screen screen;
};

// The outputs of a projection that a sentence may say, packed as a layer of their own. No sum depends on where its output
// lies, so that they have the bits of the whole projection.
struct Shortlist {
    Linear project;      // `count` outputs, filled up with zeros
    const int32_t* ids;  // which outputs they are, in ascending order
    int32_t count;       // 0: the sentence may say everything
};

// Keys and values of all layers: (L, 2, B, H, T, D_h), in float32 for networks in float32, else in bfloat16.
struct Cache {
    void* data;
    int64_t layer, value, row, head;  // strides
};

// A window of tokens for each of B rows of the caches, with slots of [MASK] behind them or none.
struct Step {
    int32_t threads, sentences, width, slots;
    const int64_t* rows;     // (B) the cache row of each; null for the first B
    const int64_t* tokens;   // (B, W)
    const int64_t* starts;   // (B) the position of the first token of each
    const int64_t* counts;   // (B) how many tokens each has; null for W
    const int64_t* sources;  // source lengths of the cache rows
    // Of draft trees, else null. Tokens stand behind the prefix in the cache as they come, whatever their positions.
    const int64_t* depths;   // (B, W) positions, counted from the start
    const int64_t* paths;    // (B, W, P) where the token at each depth up to its own lies, counted from the start
    int32_t longest, first;  // P; how many nodes came in earlier calls
    Cache self, cross;
    const Shortlist* shortlists;  // of the cache rows; null: all may say everything
    int32_t compact;         // whether logits are those listed alone, one after the other; else what is not listed is left
    int64_t stride;          // of a row of logits: V rounded up to LANES, or what the longest list needs
    // Of all tokens, row after row (R, V); with slots of these alone (B · slots, V); with counts and without slots of the
    // last tokens alone (B, V).
    float* logits;
    float* hidden;           // (B · slots, D) the last hidden states of the slots; null without
    int64_t* best;           // (R) the best tokens, if nobody wants logits, which are noise then; else null
};

struct Encoding {
    int32_t threads, rows, sentences;
    const int64_t* tokens;     // (R) all sentences one after the other
    const int64_t* starts;     // (B + 1) where each begins
    float* memory;             // (R, D)
};

struct Crossing {
    int32_t threads, rows, sentences;
    const float* memory;       // (R, D)
    const int64_t* starts;     // (B + 1)
    const int64_t* places;     // (B) the cache row of each
    Cache cross;
};

namespace {

template <class V>
void add_scaled(const V* x, float scale, const float* y, int width, float* out) {
    const __m512 factor = _mm512_set1_ps(scale);
    for (int i = 0; i < width; i += LANES)
        _mm512_storeu_ps(out + i, _mm512_fmadd_ps(load16(x + i), factor, _mm512_loadu_ps(y + i)));
}

struct Scratch {
    std::vector<float> x, wide;   // (R, D) residual stream; (R, 3 D)
    std::vector<float> attended;  // (R, D)
    std::vector<float> inner;     // (R, F)
    void fit(int64_t rows, const Network& n) {
        x.resize(rows * n.width);
        wide.resize(rows * 3 * n.width);
        attended.resize(rows * n.width);
        inner.resize(rows * std::max(n.ffn, n.width));
    }
};

// What one thread works with: every thread normalises and converts all rows for itself, which saves a barrier.
template <class T>
struct Worker {
    const Network& n;
    Scratch& s;
    int rows, thread, threads;
    Converter<T> converter;
    Converter<Int8> rough;
    std::vector<float> normed;
    int64_t longest;
    std::vector<float> scores;
    std::vector<float> listed;  // logits of shortlists

    Worker(const Network& n, Scratch& s, int rows, int thread, int threads, int longest)
        : n(n), s(s), rows(rows), thread(thread), threads(threads), normed(static_cast<int64_t>(rows) * n.width),
          longest(longest + LANES), scores(TOGETHER * this->longest) {}

    void sync() { barrier.wait(thread, threads); }

    Range panels(const Linear& linear) const { return share(linear.outputs / LANES, thread, threads); }

    void normalise(const Norm& norm) {
        if (!norm.weight) {
            normed = s.x;
            return;
        }
        for (int r = 0; r < rows; ++r) {
            const int64_t place = static_cast<int64_t>(r) * n.width;
            layer_norm(s.x.data() + place, norm.weight, norm.bias, n.width, normed.data() + place);
        }
    }

    template <class Token, class Position>
    void embed(Token token_of, Position position_of) {
        const Range mine = share(rows, thread, threads);
        for (int r = mine.begin; r < mine.end; ++r) {
            const int64_t token = token_of(r);
            // A window may reach past the last position; what lies there is never committed.
            const float* place = n.positions + std::min<int64_t>(position_of(r), n.places - 1) * n.width;
            float* out = &s.x[static_cast<int64_t>(r) * n.width];
            const auto look_up = [&](const auto* table) {
                add_scaled(table + token * n.width, n.scale, place, n.width, out);
            };
            if (n.mask && token == n.vocab) add_scaled(n.mask, 1.0f, place, n.width, out);
            else if (n.table_type == FLOAT16) look_up(static_cast<const Half*>(n.table));
            else if (n.table_type == BFLOAT16) look_up(static_cast<const uint16_t*>(n.table));
            else look_up(static_cast<const float*>(n.table));
        }
        sync();
    }

    // What the outputs of sublayers are added to.
    const float* residual() const { return n.post ? normed.data() : s.x.data(); }

    void from_normed(const Linear& linear, float* out, int64_t stride) {
        multiply<T>(rows, converter.convert(normed.data(), rows, n.width), linear, panels(linear), {}, out, stride);
        sync();
    }

    void add_attended(const Linear& linear) {
        multiply<T>(rows, converter.convert(s.attended.data(), rows, n.width), linear, panels(linear),
                    {false, residual()}, s.x.data(), n.width);
        sync();
    }

    void ffn(const Layer& layer) {
        normalise(layer.ffn_norm);
        multiply<T>(rows, converter.convert(normed.data(), rows, n.width), layer.ffn_in, panels(layer.ffn_in),
                    {n.activation == RELU}, s.inner.data(), n.ffn);
        if (n.activation == SWISH) apply(Swish{}, panels(layer.ffn_in));
        if (n.activation == GELU) apply(Gelu{}, panels(layer.ffn_in));
        sync();
        multiply<T>(rows, converter.convert(s.inner.data(), rows, n.ffn), layer.ffn_out, panels(layer.ffn_out),
                    {false, residual()}, s.x.data(), n.width);
        sync();
    }

    template <class F>
    void apply(F f, Range panels) {
        for (int r = 0; r < rows; ++r)
            for (int panel = panels.begin; panel < panels.end; ++panel) {
                float* place = &s.inner[static_cast<int64_t>(r) * n.ffn + panel * LANES];
                _mm512_storeu_ps(place, f(_mm512_loadu_ps(place)));
            }
    }

    // Works out attention on a share of all rows and heads, for some rows of a sentence at a time.
    template <class MemoryOf, class SeenBy>
    void attend(const std::vector<int>& starts, int64_t wide, MemoryOf memory_of, SeenBy seen_by) {
        const int size = n.width / n.heads;
        const Range mine = share(rows * n.heads, thread, threads);
        int items = 0;
        for (size_t b = 0; b + 1 < starts.size(); ++b) {
            const int count = starts[b + 1] - starts[b];
            for (int h = 0; h < n.heads; ++h, items += count) {
                const int end = std::min(mine.end - items, count);
                for (int i = std::max(mine.begin - items, 0); i < end; i += TOGETHER) {
                    const int64_t row = starts[b] + i;
                    Seen seen[TOGETHER];
                    for (int r = 0; r < std::min(TOGETHER, end - i); ++r) seen[r] = seen_by(row + r);
                    const Queries queries{&s.wide[row * wide + h * size], wide, scores.data(), longest,
                                          &s.attended[row * n.width + h * size], n.width};
                    ::attend(size, queries, memory_of(row, h), seen, std::min(TOGETHER, end - i));
                }
            }
        }
        sync();
    }
};

// One row of a step: a token or a slot.
struct Place {
    int64_t token, row, position;
    int64_t slot;  // where its keys and values are kept
    Seen seen;
    bool asked;  // whether somebody wants to know what follows it
};

struct Layout {
    std::vector<Place> places;
    std::vector<int> starts;  // (B + 1) where the rows of each sentence begin
};

Layout lay_out(const Network& n, const Step& step) {
    Layout layout;
    std::vector<Place>& places = layout.places;
    for (int64_t b = 0; b < step.sentences; ++b) {
        layout.starts.push_back(static_cast<int>(places.size()));
        const int64_t row = step.rows ? step.rows[b] : b;
        const int64_t first = step.starts[b], end = first + (step.counts ? step.counts[b] : step.width);
        for (int64_t p = first; p < end; ++p) {
            const int64_t item = b * step.width + p - first;
            const bool asked = step.slots == 0 && (!step.counts || p == end - 1);
            Place place{step.tokens[item], row, p, p, {static_cast<int>(p) + 1}, asked};
            if (step.paths) {
                place.position = first + step.depths[item];
                place.slot = p + step.first;
                place.seen = {static_cast<int>(first), step.paths + item * step.longest,
                              static_cast<int>(step.depths[item]) + 1};
            }
            places.push_back(place);
        }
        for (int64_t p = end; p < end + step.slots; ++p)
            places.push_back({n.vocab, row, p, p, {static_cast<int>(end) + step.slots}, true});
    }
    layout.starts.push_back(static_cast<int>(places.size()));
    return layout;
}

// Projects rows of one sentence to what it may say.
template <class T>
void project_listed(Worker<T>& w, const Step& step, const Shortlist& list, int rows, const Rows<T>& x, float* logits) {
    const Linear& linear = list.count ? list.project : w.n.project;
    const Range panels = w.panels(linear);
    if (list.count == 0 || step.compact) return multiply<T>(rows, x, linear, panels, {}, logits, step.stride);
    w.listed.resize(static_cast<int64_t>(rows) * linear.outputs);
    multiply<T>(rows, x, linear, panels, {}, w.listed.data(), linear.outputs);
    const int end = std::min(panels.end * LANES, list.count);
    for (int64_t r = 0; r < rows; ++r)
        for (int i = panels.begin * LANES; i < end; ++i)
            logits[r * step.stride + list.ids[i]] = w.listed[r * linear.outputs + i];
}

// Projects rows to the vocabulary, or to what each sentence may say.
template <class T>
void project(Worker<T>& w, const Step& step, int rows, const Rows<T>& x) {
    const Linear& linear = w.n.project;
    if (!step.shortlists) return multiply<T>(rows, x, linear, w.panels(linear), {}, step.logits, step.stride);
    const int each = rows / step.sentences;
    for (int b = 0; b < step.sentences; ++b)
        project_listed<T>(w, step, step.shortlists[step.rows ? step.rows[b] : b], each, x.from(b * each),
                          step.logits + b * each * step.stride);
}

// The lowest of the best tokens.
int64_t best_token(const float* logits, int count) {
    const __m512 highest = _mm512_set1_ps(highest_of(logits, count));
    for (int i = 0; i < count; i += LANES) {
        const __m512 x = _mm512_maskz_loadu_ps(lanes(count - i), logits + i);
        const __mmask16 best = _mm512_mask_cmp_ps_mask(lanes(count - i), x, highest, _CMP_EQ_OQ);
        if (best) return i + __builtin_ctz(best);
    }
    return 0;
}

// What a sentence may say, given its row in the caches; null for everything.
const Shortlist* shortlist_of(const Shortlist* lists, int64_t row) {
    return lists && lists[row].count ? lists + row : nullptr;
}

int64_t best_token(const float* logits, const Network& n, const Shortlist* list) {
    return list ? list->ids[best_token(logits, list->count)] : best_token(logits, n.vocab);
}

// The lowest of the best tokens of a row, given its outputs in int8. How far those are off is bounded (by Cauchy and
// Schwarz, with room for rounding), and what could be the best for all that is computed as it is.
template <class T>
int64_t best_of_rough(const Network& n, const Rows<T>& x, const Rows<Int8>& rough, float* logits) {
    __m512 squares = _mm512_setzero_ps(), errors = _mm512_setzero_ps();
    for (int i = 0; i < n.width; i += LANES) {
        const __m512 value = load16(x.values + i);
        const __m512i moved = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rough.values + i)));
        const __m512 whole = _mm512_cvtepi32_ps(_mm512_sub_epi32(moved, _mm512_set1_epi32(128)));
        const __m512 error = _mm512_fnmadd_ps(whole, _mm512_set1_ps(*rough.scales), value);
        squares = _mm512_fmadd_ps(value, value, squares);
        errors = _mm512_fmadd_ps(error, error, errors);
    }
    const Screen& s = n.screen;
    const float norm = __builtin_sqrtf(_mm512_reduce_add_ps(squares));
    const float error = __builtin_sqrtf(_mm512_reduce_add_ps(errors));
    constexpr float ROUNDING = 1.0f / (1 << 22);
    const float off = 1.001f * (s.error * norm + s.norm * error) +
                      ROUNDING * (static_cast<float>(n.width) * (s.error + s.norm) * norm + 4.0f * s.bias) +
                      1e-30f;  // numbers too small for bfloat16's instructions count as 0
    const __m512 least = _mm512_set1_ps(highest_of(logits, n.vocab) - 2.0f * off);
    int64_t best = 0;
    float highest = -INFINITY;
    for (int i = 0; i < n.vocab; i += LANES) {
        if (!_mm512_mask_cmp_ps_mask(lanes(n.vocab - i), _mm512_loadu_ps(logits + i), least, _CMP_NLT_UQ)) continue;
        multiply<T>(1, x, n.project, {i / LANES, i / LANES + 1}, {}, logits, n.project.outputs);
        const int64_t id = i + best_token(logits + i, std::min(LANES, n.vocab - i));
        if (logits[id] > highest) highest = logits[best = id];
    }
    return best;
}

// Finds the best tokens of rows.
template <class T>
void choose(Worker<T>& w, const Step& step, int rows, const Rows<T>& x) {
    const Network& n = w.n;
    const bool screened = n.screen.project.weight && !step.shortlists;
    Rows<Int8> rough{};
    if (screened) {
        rough = w.rough.convert(w.normed.data(), rows, n.width);
        multiply<Int8>(rows, rough, n.screen.project, w.panels(n.screen.project), {}, step.logits, step.stride);
    } else {
        project<T>(w, step, rows, x);
    }
    w.sync();
    const int each = rows / step.sentences;
    const Range mine = share(rows, w.thread, w.threads);
    for (int r = mine.begin; r < mine.end; ++r) {
        float* logits = step.logits + r * step.stride;
        if constexpr (!std::is_same_v<T, Int8>)
            if (screened) {
                step.best[r] = best_of_rough<T>(n, x.from(r), rough.from(r), logits);
                continue;
            }
        const int64_t row = step.rows ? step.rows[r / each] : r / each;
        step.best[r] = best_token(logits, n, shortlist_of(step.shortlists, row));
    }
}

template <class T>
void step_worker(const Network& n, const Step& step, const Layout& layout, Scratch& s, int longest, int thread,
                 int threads) {
    using Kept = typename T::Kept;
    const std::vector<Place>& places = layout.places;
    const int rows = static_cast<int>(places.size());
    Worker<T> w(n, s, rows, thread, threads, longest);
    const int size = n.width / n.heads;
    w.embed([&](int r) { return places[r].token; }, [&](int r) { return places[r].position; });
    for (int l = 0; l < n.layers; ++l) {
        const Layer& layer = n.layer[l];
        Kept* self = static_cast<Kept*>(step.self.data) + l * step.self.layer;
        const Kept* cross = static_cast<const Kept*>(step.cross.data) + l * step.cross.layer;
        const int64_t wide = 3 * n.width;

        w.normalise(layer.attention_norm);
        w.from_normed(layer.qkv, s.wide.data(), wide);
        const Range mine = share(rows, thread, threads);
        for (int r = mine.begin; r < mine.end; ++r)
            for (int h = 0; h < n.heads; ++h) {
                Kept* place = self + places[r].row * step.self.row + h * step.self.head + places[r].slot * size;
                const float* from = &s.wide[r * wide + n.width + h * size];
                copy(from, place, size);
                copy(from + n.width, place + step.self.value, size);
            }
        w.sync();
        const auto self_of = [&](int64_t r, int h) {
            const Kept* keys = self + places[r].row * step.self.row + h * step.self.head;
            return Memory<Kept>{keys, keys + step.self.value, size, step.self.head};
        };
        w.attend(layout.starts, wide, self_of, [&](int64_t r) { return places[r].seen; });
        w.add_attended(layer.attention_out);

        w.normalise(layer.cross_norm);
        w.from_normed(layer.cross_query, s.wide.data(), wide);
        const auto cross_of = [&](int64_t r, int h) {
            const Kept* keys = cross + places[r].row * step.cross.row + h * step.cross.head;
            return Memory<Kept>{keys, keys + step.cross.value, size, step.cross.head};
        };
        w.attend(layout.starts, wide, cross_of,
                 [&](int64_t r) { return Seen{static_cast<int>(step.sources[places[r].row])}; });
        w.add_attended(layer.cross_out);
        w.ffn(layer);
    }
    // Only the rows that somebody asks about are projected to the vocabulary.
    int projected = 0;
    for (int r = 0; r < rows; ++r) {
        if (!places[r].asked) continue;
        const int64_t place = static_cast<int64_t>(projected++) * n.width;
        float* normed = w.normed.data() + place;
        layer_norm(&s.x[static_cast<int64_t>(r) * n.width], n.norm.weight, n.norm.bias, n.width, normed);
        if (step.hidden && thread == 0) std::memcpy(step.hidden + place, normed, n.width * sizeof(float));
    }
    (step.best ? choose<T> : project<T>)(w, step, projected, w.converter.convert(w.normed.data(), projected, n.width));
}

template <class T>
void encode_worker(const Network& n, const Encoding& e, Scratch& s, int longest, int thread, int threads) {
    Worker<T> w(n, s, e.rows, thread, threads, longest);
    const int size = n.width / n.heads;
    const int64_t wide = 3 * n.width;
    std::vector<int> sentence(e.rows), starts(e.starts, e.starts + e.sentences + 1);
    for (int b = 0; b < e.sentences; ++b)
        for (int64_t r = e.starts[b]; r < e.starts[b + 1]; ++r) sentence[r] = b;
    w.embed([&](int r) { return e.tokens[r]; }, [&](int r) { return r - e.starts[sentence[r]]; });
    for (int l = 0; l < n.layers; ++l) {
        const Layer& layer = n.layer[l];
        w.normalise(layer.attention_norm);
        w.from_normed(layer.qkv, s.wide.data(), wide);
        const auto memory_of = [&](int64_t r, int h) {
            const float* keys = &s.wide[e.starts[sentence[r]] * wide + n.width + h * size];
            return Memory<float>{keys, keys + n.width, wide, 0};
        };
        w.attend(starts, wide, memory_of, [&](int64_t r) { return Seen{starts[sentence[r] + 1] - starts[sentence[r]]}; });
        w.add_attended(layer.attention_out);
        w.ffn(layer);
    }
    const Range mine = share(e.rows, thread, threads);
    for (int r = mine.begin; r < mine.end; ++r)
        layer_norm(&s.x[static_cast<int64_t>(r) * n.width], n.norm.weight, n.norm.bias, n.width,
                   e.memory + static_cast<int64_t>(r) * n.width);
}

template <class T>
void cross_worker(const Network& n, const Crossing& c, Scratch& s, int thread, int threads) {
    Worker<T> w(n, s, c.rows, thread, threads, 0);
    const int size = n.width / n.heads;
    const int64_t wide = 2 * n.width;
    const Rows<T> memory = w.converter.convert(c.memory, c.rows, n.width);
    for (int l = 0; l < n.layers; ++l) {
        const Linear& linear = n.layer[l].cross_key_value;
        multiply<T>(c.rows, memory, linear, w.panels(linear), {}, s.wide.data(), wide);
        w.sync();
        const Range mine = share(c.sentences, thread, threads);
        for (int b = mine.begin; b < mine.end; ++b)
            for (int64_t r = c.starts[b]; r < c.starts[b + 1]; ++r)
                for (int h = 0; h < n.heads; ++h) {
                    auto* place = static_cast<typename T::Kept*>(c.cross.data) + l * c.cross.layer +
                                  c.places[b] * c.cross.row + h * c.cross.head + (r - c.starts[b]) * size;
                    copy(&s.wide[r * wide + h * size], place, size);
                    copy(&s.wide[r * wide + n.width + h * size], place + c.cross.value, size);
                }
        w.sync();
    }
}

template <class F>
void in_parallel(int threads, F f) {
    pool.run(threads, [](void* argument, int thread, int count) { (*static_cast<F*>(argument))(thread, count); }, &f);
}

template <class T>
void run_step(const Network& n, const Step& step) {
    static Scratch scratch;
    const Layout layout = lay_out(n, step);
    scratch.fit(static_cast<int64_t>(layout.places.size()), n);
    int64_t longest = 0;
    for (const Place& place : layout.places)
        longest = std::max<int64_t>({longest, place.seen.count(), step.sources[place.row]});
    in_parallel(step.threads, [&](int thread, int threads) {
        step_worker<T>(n, step, layout, scratch, static_cast<int>(longest), thread, threads);
    });
}

void run_step(const Network& n, const Step& step) {
    if (n.type == FLOAT32) run_step<Float32>(n, step);
    else if (n.type == BFLOAT16) run_step<BFloat16>(n, step);
    else run_step<Int8>(n, step);
}

template <class T>
void run_encoding(const Network& n, const Encoding& e) {
    static Scratch scratch;
    scratch.fit(e.rows, n);
    int64_t longest = 0;
    for (int b = 0; b < e.sentences; ++b) longest = std::max(longest, e.starts[b + 1] - e.starts[b]);
    in_parallel(e.threads, [&](int thread, int threads) {
        encode_worker<T>(n, e, scratch, static_cast<int>(longest), thread, threads);
    });
}

template <class T>
void run_crossing(const Network& n, const Crossing& c) {
    static Scratch scratch;
    scratch.fit(c.rows, n);
    in_parallel(c.threads, [&](int thread, int threads) { cross_worker<T>(n, c, scratch, thread, threads); });
}

}  // namespace

// Packs the listed outputs of a network's projection.
extern "C" void specmt_shorten(const Network* n, const Shortlist* lists, int count, int threads) {
    const std::lock_guard lock(turn);
    const Linear& from = n->project;
    // In every type, what stands side by side is four bytes wide.
    const int64_t steps = from.inputs / (n->type == FLOAT32 ? 1 : n->type == BFLOAT16 ? 2 : 4);
    const auto copy_output = [&](const Shortlist& list, int place) {
        const bool real = place < list.count;
        const int id = real ? list.ids[place] : 0;
        const auto* weight = static_cast<const int32_t*>(from.weight) + id / LANES * steps * LANES + id % LANES;
        auto* to = static_cast<int32_t*>(const_cast<void*>(list.project.weight)) + place / LANES * steps * LANES +
                   place % LANES;
        for (int64_t s = 0; s < steps; ++s) to[s * LANES] = real ? weight[s * LANES] : 0;
        if (from.bias) const_cast<float*>(list.project.bias)[place] = real ? from.bias[id] : 0.0f;
        if (from.scale) const_cast<float*>(list.project.scale)[place] = real ? from.scale[id] : 0.0f;
        if (from.offset) const_cast<int32_t*>(list.project.offset)[place] = real ? from.offset[id] : 0;
    };
    in_parallel(threads, [&](int thread, int all) {
        for (int i = 0; i < count; ++i) {
            const Range mine = share(lists[i].project.outputs / LANES, thread, all);
            for (int place = mine.begin * LANES; place < mine.end * LANES; ++place) copy_output(lists[i], place);
        }
    });
}

extern "C" void specmt_step(const Network* n, const Step* step) {
    const std::lock_guard lock(turn);
    run_step(*n, *step);
}

namespace {

struct Best {
    int64_t id;
    float log_prob;
};

// The same, with its log-probability.
Best find_best(const float* logits, int count) {
    const int64_t id = best_token(logits, count);
    const __m512 highest = _mm512_set1_ps(logits[id]);
    __m512 sums = _mm512_setzero_ps();
    for (int i = 0; i < count; i += LANES) {
        const __m512 x = _mm512_maskz_loadu_ps(lanes(count - i), logits + i);
        sums = _mm512_add_ps(sums, _mm512_maskz_mov_ps(lanes(count - i), exp16(_mm512_sub_ps(x, highest))));
    }
    return {id, -std::log(_mm512_reduce_add_ps(sums))};
}

// How far apart rows of logits are where they are compact.
int64_t compact_stride(const Network& n, const Shortlist* lists, const std::vector<int64_t>& rows) {
    int64_t stride = 0;
    for (const int64_t row : rows) {
        const Shortlist* list = shortlist_of(lists, row);
        stride = std::max<int64_t>(stride, list ? list->project.outputs : n.project.outputs);
    }
    return stride;
}

// The logits of the first step are compact.
int run_ahead(const Network& n, const Step& first, int count, int64_t end, int64_t* tokens, float* log_probs) {
    std::vector<int64_t> last(first.sentences), starts(first.sentences);
    for (int b = 0; b < first.sentences; ++b) starts[b] = first.starts[b] + first.counts[b];
    Step step = first;
    for (int k = 0; k < count; ++k) {
        run_step(n, step);
        bool ended = true;
        for (int b = 0; b < first.sentences; ++b) {
            const Shortlist* list = shortlist_of(step.shortlists, step.rows ? step.rows[b] : b);
            Best best = find_best(step.logits + b * step.stride, list ? list->count : n.vocab);
            if (list) best.id = list->ids[best.id];
            tokens[static_cast<int64_t>(b) * count + k] = last[b] = best.id;
            log_probs[static_cast<int64_t>(b) * count + k] = best.log_prob;
            ended = ended && best.id == end;
        }
        if (ended) return k + 1;
        if (k > 0)
            for (int64_t& start : starts) ++start;
        step.width = 1;
        step.counts = nullptr;
        step.tokens = last.data();
        step.starts = starts.data();
    }
    return count;
}

}  // namespace

// Goes on for so many tokens (B, K), each the best after those before it, or until all sentences have ended; returns how
// many. The first window has counts.
extern "C" int specmt_ahead(const Network* n, const Step* first, int count, int64_t end, int64_t* tokens,
                            float* log_probs) {
    const std::lock_guard lock(turn);
    return run_ahead(*n, *first, count, end, tokens, log_probs);
}

extern "C" void specmt_encode(const Network* n, const Encoding* e) {
    const std::lock_guard lock(turn);
    if (n->type == FLOAT32) run_encoding<Float32>(*n, *e);
    else if (n->type == BFLOAT16) run_encoding<BFloat16>(*n, *e);
    else run_encoding<Int8>(*n, *e);
}

extern "C" void specmt_cross(const Network* n, const Crossing* c) {
    const std::lock_guard lock(turn);
    if (n->type == FLOAT32) run_crossing<Float32>(*n, *c);
    else if (n->type == BFLOAT16) run_crossing<BFloat16>(*n, *c);
    else run_crossing<Int8>(*n, *c);
}

// ---------------------------------------------------------------------------------------------- drafts

// What is known of the slots of blocks, and what they are to become: a best chain, a best-first tree, or step by step
// whatever the caller chooses among candidates.
struct Draft {
    int32_t threads, sentences, slots, vocab, width, rank;
    int32_t nodes, breadth;  // of trees: N, and how many candidates may follow a token; chains have K nodes
    int64_t stride;          // of a slot's logits
    const float* logits;     // (B · K, stride)
    const float* hidden;     // (B · K, D)
    const int64_t* last;     // (B)
    const float* embedded;   // (V, 2 R) what a token adds to the gates
    const float* corrected;  // (V, R) what a state adds to a token's logit
    Linear known, carried;   // D → 2 R, R → 2 R
    int64_t* tokens;         // (B, N)
    float* log_probs;        // (B, N)
    int64_t* parents;        // (B, N) the number of the node before, from 1; 0 for none. Null for chains
    const Shortlist* shortlists;  // of the cache rows, if logits are compact; else null
    const int64_t* rows;     // (B) the cache row of each
};

// Candidates for one slot of every sentence after W tokens each.
struct Expansion {
    int32_t slot, width;
    const int64_t* before;   // (B, W) the tokens
    float* states;           // (B, W, R) that the tokens were scored with; becomes those of the slot
    int64_t* ids;            // (B, W, C)
    float* log_probs;        // (B, W, C)
};

namespace {

constexpr int CANDIDATES = LANES;

// The candidate that goes first: the lowest value, among equals the highest id.
int find_worst(const float* values, const int64_t* ids, int count) {
    int worst = 0;
    for (int i = 1; i < count; ++i)
        if (values[i] < values[worst] || (values[i] == values[worst] && ids[i] > ids[worst])) worst = i;
    return worst;
}

// The best tokens of a slot, in no order; among equals the lowest ids.
int best_candidates(const float* logits, int vocab, float* values, int64_t* ids) {
    const int count = std::min(CANDIDATES, vocab);
    for (int i = 0; i < count; ++i) values[i] = logits[ids[i] = i];
    int worst = find_worst(values, ids, count);
    for (int start = count; start < vocab; start += LANES) {
        const __mmask16 real = lanes(vocab - start);
        const __m512 block = _mm512_maskz_loadu_ps(real, logits + start);
        unsigned better = _mm512_mask_cmp_ps_mask(real, block, _mm512_set1_ps(values[worst]), _CMP_GT_OQ);
        for (; better != 0; better &= better - 1) {
            const int id = start + __builtin_ctz(better);
            if (logits[id] <= values[worst]) continue;  // a better one came in between
            values[worst] = logits[id];
            ids[worst] = id;
            worst = find_worst(values, ids, count);
        }
    }
    return count;
}

float dot(const float* a, const float* b, int count) {
    __m512 sum = _mm512_setzero_ps();
    for (int i = 0; i < count; i += LANES) {
        const __mmask16 real = lanes(count - i);
        sum = _mm512_fmadd_ps(_mm512_maskz_loadu_ps(real, a + i), _mm512_maskz_loadu_ps(real, b + i), sum);
    }
    return _mm512_reduce_add_ps(sum);
}

inline __m512 tanh16(__m512 x) {
    const __m512 two = _mm512_set1_ps(2.0f);
    return _mm512_fmsub_ps(two, sigmoid16(_mm512_mul_ps(two, x)), _mm512_set1_ps(1.0f));
}

struct Candidates {
    float values[CANDIDATES];
    int64_t ids[CANDIDATES];
    int count;
};

// The candidates of a sentence's slots, scored by what was chosen before them.
class Corrected {
  public:
    Corrected(const Draft& d, int sentence, const Candidates* candidates, Range slots)
        : d_(d), gates_(2 * d.rank), candidates_(candidates), known_(static_cast<int64_t>(d.slots) * gates_),
          sums_(gates_) {
        const float* hidden = d.hidden + (static_cast<int64_t>(sentence) * d.slots + slots.begin) * d.width;
        multiply<Float32>(slots.end - slots.begin, {hidden, d.width, nullptr}, d.known, {0, gates_ / LANES}, {},
                          known_.data() + static_cast<int64_t>(slots.begin) * gates_, gates_);
    }

    // Returns the candidates of a slot after a token, with their log-probabilities; `state` becomes that of the slot.
    Candidates at(int slot, int64_t before, float* state) {
        Candidates found = candidates_[slot];
        auto& [values, ids, count] = found;
        // These rows lie anywhere in a large table; they come while the state is worked out.
        for (int i = 0; i < count; ++i)
            for (int k = 0; k < d_.rank; k += LANES)
                _mm_prefetch(reinterpret_cast<const char*>(d_.corrected + ids[i] * d_.rank + k), _MM_HINT_T0);
        multiply<Float32>(1, {state, d_.rank, nullptr}, d_.carried, {0, gates_ / LANES}, {}, sums_.data(), gates_);
        for (int i = 0; i < d_.rank; i += LANES) {
            __m512 part[2];
            for (int p = 0; p < 2; ++p) {
                const int place = p * d_.rank + i;
                part[p] = _mm512_add_ps(_mm512_add_ps(_mm512_loadu_ps(&known_[static_cast<int64_t>(slot) * gates_ + place]),
                                                      _mm512_loadu_ps(d_.embedded + before * gates_ + place)),
                                        _mm512_loadu_ps(&sums_[place]));
            }
            const __m512 old = _mm512_loadu_ps(state + i);
            const __m512 step = _mm512_sub_ps(tanh16(part[1]), old);
            _mm512_storeu_ps(state + i, _mm512_fmadd_ps(sigmoid16(part[0]), step, old));
        }
        float highest = -INFINITY, sum = 0.0f;
        for (int i = 0; i < count; ++i) {
            values[i] += dot(d_.corrected + ids[i] * d_.rank, state, d_.rank);
            highest = std::max(highest, values[i]);
        }
        for (int i = 0; i < count; ++i) sum += std::exp(values[i] - highest);
        const float all = std::log(sum);
        for (int i = 0; i < count; ++i) values[i] = values[i] - highest - all;
        return found;
    }

  private:
    const Draft& d_;
    int gates_;
    const Candidates* candidates_;
    std::vector<float> known_, sums_;
};

void draft_chain(const Draft& d, int sentence, Corrected& corrected) {
    std::vector<float> state(d.rank);
    int64_t before = d.last[sentence];
    for (int k = 0; k < d.slots; ++k) {
        const Candidates found = corrected.at(k, before, state.data());
        int best = 0;
        for (int i = 1; i < found.count; ++i)
            if (found.values[i] > found.values[best] ||
                (found.values[i] == found.values[best] && found.ids[i] < found.ids[best]))
                best = i;
        const int64_t slot = static_cast<int64_t>(sentence) * d.slots + k;
        d.tokens[slot] = before = found.ids[best];
        d.log_probs[slot] = found.values[best];
    }
}

// A candidate that may become a node of a tree.
struct Leaf {
    float total, log_prob;  // of its path, of itself
    int64_t token;
    int32_t parent, depth;

    // The best goes first, among equals the one with the earlier parent, then the lower token.
    bool operator<(const Leaf& other) const {
        if (total != other.total) return total < other.total;
        return parent != other.parent ? parent > other.parent : token > other.token;
    }
};

void draft_tree(const Draft& d, int sentence, Corrected& corrected) {
    std::vector<float> states(static_cast<int64_t>(d.nodes + 1) * d.rank);  // that each node was scored with
    std::vector<Leaf> leaves;                                               // a heap
    const auto grow = [&](int node, int64_t token, int depth, float total, int parent) {
        float* state = &states[static_cast<int64_t>(node) * d.rank];
        if (node > 0) std::copy_n(&states[static_cast<int64_t>(parent) * d.rank], d.rank, state);
        Candidates found = corrected.at(depth, token, state);
        for (int i = 0; i < std::min(d.breadth, found.count); ++i) {
            int best = i;
            for (int j = i + 1; j < found.count; ++j)
                if (found.values[j] > found.values[best] ||
                    (found.values[j] == found.values[best] && found.ids[j] < found.ids[best]))
                    best = j;
            std::swap(found.values[i], found.values[best]);
            std::swap(found.ids[i], found.ids[best]);
            leaves.push_back({total + found.values[i], found.values[i], found.ids[i], node, depth + 1});
            std::push_heap(leaves.begin(), leaves.end());
        }
    };
    grow(0, d.last[sentence], 0, 0.0f, 0);
    for (int node = 1; node <= d.nodes && !leaves.empty(); ++node) {
        std::pop_heap(leaves.begin(), leaves.end());
        const Leaf leaf = leaves.back();
        leaves.pop_back();
        const int64_t place = static_cast<int64_t>(sentence) * d.nodes + node - 1;
        d.tokens[place] = leaf.token;
        d.log_probs[place] = leaf.log_prob;
        d.parents[place] = leaf.parent;
        if (leaf.depth < d.slots && node < d.nodes) grow(node, leaf.token, leaf.depth, leaf.total, leaf.parent);
    }
}

void run_draft(const Draft& d) {
    static std::vector<Candidates> candidates;
    const int slots = d.sentences * d.slots;
    candidates.resize(slots);
    in_parallel(d.threads, [&](int thread, int threads) {
        const Range mine = share(slots, thread, threads);
        for (int slot = mine.begin; slot < mine.end; ++slot) {
            Candidates& found = candidates[slot];
            const Shortlist* list = d.shortlists ? shortlist_of(d.shortlists, d.rows[slot / d.slots]) : nullptr;
            found.count =
                best_candidates(d.logits + slot * d.stride, list ? list->count : d.vocab, found.values, found.ids);
            for (int i = 0; list && i < found.count; ++i) found.ids[i] = list->ids[found.ids[i]];
        }
        barrier.wait(thread, threads);
        const Range sentences = share(d.sentences, thread, threads);
        for (int sentence = sentences.begin; sentence < sentences.end; ++sentence) {
            Corrected corrected(d, sentence, &candidates[static_cast<int64_t>(sentence) * d.slots], {0, d.slots});
            (d.parents ? draft_tree : draft_chain)(d, sentence, corrected);
        }
    });
}

}  // namespace

extern "C" void specmt_draft(const Draft* d) {
    const std::lock_guard lock(turn);
    run_draft(*d);
}

extern "C" void specmt_expand(const Draft* d, const Expansion* e) {
    const std::lock_guard lock(turn);
    in_parallel(d->threads, [&](int thread, int threads) {
        std::vector<Candidates> candidates(d->slots);
        const Range mine = share(d->sentences, thread, threads);
        for (int64_t sentence = mine.begin; sentence < mine.end; ++sentence) {
            Candidates& found = candidates[e->slot];
            const float* logits = d->logits + (sentence * d->slots + e->slot) * d->stride;
            found.count = best_candidates(logits, d->vocab, found.values, found.ids);
            Corrected corrected(*d, static_cast<int>(sentence), candidates.data(), {e->slot, e->slot + 1});
            for (int64_t item = sentence * e->width; item < (sentence + 1) * e->width; ++item) {
                const Candidates after = corrected.at(e->slot, e->before[item], e->states + item * d->rank);
                std::copy_n(after.ids, after.count, e->ids + item * after.count);
                std::copy_n(after.values, after.count, e->log_probs + item * after.count);
            }
        }
    });
}

// ---------------------------------------------------------------------------------------------- the loop

// Iterations over B sentences, of which each drafts a chain, verifies it and commits what the verifier would have said
// (exact acceptance, specmt/decoding/loop.py), without a word to Python in between.
struct Run {
    int32_t threads, sentences;
    int32_t iterations, enough;       // it ends after so many of them, or when so many sentences have ended
    int32_t block;                    // tokens to draft; 0 for none
    int64_t room;                     // positions of the caches: it ends before there are too few
    int64_t end, filler;              // end of sentence; what drafts consist of where nobody makes them
    const Network *verifier, *drafter;  // no drafter: null
    const Draft* choice;              // how a masked drafter chooses tokens; null for an autoregressive one
    Cache self, cross, draft_self, draft_cross;
    const Shortlist *shortlists, *draft_shortlists;  // of the cache rows; null: all may say everything
    const int64_t *sources, *draft_sources;  // (B) source lengths
    int64_t* tokens;                  // (B, stride) committed ones, from BOS on
    int64_t stride;
    int64_t* lengths;                 // (B) how many they are
    const int64_t* limits;            // (B) how many they may become
    int64_t* seen;                    // (B) how many of them the drafter has read
    int64_t *calls, *drafted, *accepted;  // (B) what there was to do, added up
    // How many drafts to verify: as many as promise most tokens a second, given the seconds of iterations that verify
    // 0 … K, and how far drafts can be trusted (specmt/options.py, Calibration). All where `seconds` is null.
    const double* seconds;
    double scale, shift;
    int64_t* windows;                 // (I) how many drafts each iteration verified
    double* gained;                   // (I) how many tokens a sentence got, on average
};

namespace {

class Runner {
  public:
    explicit Runner(const Run& run) : r(run) {}

    int run() {
        for (int64_t b = 0; b < r.sentences; ++b) rows.push_back(b);
        int iteration = 0;
        for (; iteration < r.iterations && goes_on(); ++iteration) {
            const int drafts = r.block == 0 ? 0 : draft();
            const int kept = r.seconds ? worthwhile(drafts) : drafts;
            verify(kept);
            const int active = static_cast<int>(rows.size());
            r.windows[iteration] = kept;
            r.gained[iteration] = static_cast<double>(commit(kept)) / active;
        }
        return iteration;
    }

  private:
    bool goes_on() const {
        if (r.sentences - static_cast<int>(rows.size()) >= r.enough) return false;
        return std::all_of(rows.begin(), rows.end(), [&](int64_t row) { return r.lengths[row] + r.block <= r.room; });
    }

    // Returns a step over the windows of the rows that have not ended.
    Step step_over(int64_t width, const Cache& self, const Cache& cross, const int64_t* sources,
                   const Shortlist* shortlists, int64_t stride) const {
        Step step{};
        step.threads = r.threads;
        step.sentences = static_cast<int32_t>(rows.size());
        step.width = static_cast<int32_t>(width);
        step.rows = rows.data();
        step.tokens = window.data();
        step.starts = starts.data();
        step.sources = sources;
        step.self = self;
        step.cross = cross;
        step.shortlists = shortlists;
        step.compact = true;
        step.stride = stride;
        step.logits = logits.data();
        return step;
    }

    // Returns how many tokens were drafted for each sentence.
    int draft() {
        const int64_t count = static_cast<int64_t>(rows.size());
        drafts.assign(count * r.block, r.filler);
        log_probs.assign(count * r.block, 0.0f);
        if (!r.drafter) return r.block;
        starts.clear(), counts.clear();
        for (const int64_t row : rows) {
            starts.push_back(r.seen[row]);
            counts.push_back(r.lengths[row] - r.seen[row]);
            r.seen[row] = r.lengths[row];
        }
        const int64_t width = *std::max_element(counts.begin(), counts.end());
        window.assign(count * width, 0);
        for (int64_t b = 0; b < count; ++b)
            std::copy_n(r.tokens + rows[b] * r.stride + starts[b], counts[b], window.data() + b * width);
        const int64_t stride = compact_stride(*r.drafter, r.draft_shortlists, rows);
        logits.resize(count * (r.choice ? r.block : 1) * stride);
        hidden.resize(count * r.block * r.drafter->width);
        Step step = step_over(width, r.draft_self, r.draft_cross, r.draft_sources, r.draft_shortlists, stride);
        step.counts = counts.data();
        if (!r.choice) return run_ahead(*r.drafter, step, r.block, r.end, drafts.data(), log_probs.data());
        step.slots = r.block;
        step.hidden = hidden.data();
        run_step(*r.drafter, step);
        last.clear();
        for (const int64_t row : rows) last.push_back(r.tokens[row * r.stride + r.lengths[row] - 1]);
        Draft choice = *r.choice;
        choice.threads = r.threads;
        choice.sentences = static_cast<int32_t>(count);
        choice.slots = r.block;
        choice.stride = stride;
        choice.shortlists = r.draft_shortlists;
        choice.rows = rows.data();
        choice.logits = logits.data();
        choice.hidden = hidden.data();
        choice.last = last.data();
        choice.tokens = drafts.data();
        choice.log_probs = log_probs.data();
        run_draft(choice);
        return r.block;
    }

    // specmt/decoding/plan.py: survival, best_window
    int worthwhile(int drafts) const {
        std::vector<double> gains(drafts);
        for (size_t b = 0; b < rows.size(); ++b) {
            double survival = 1.0;
            for (int k = 0; k < drafts; ++k) {
                const double likely = std::min<double>(log_probs[b * r.block + k], -1e-6);
                const double odds = likely - std::log(-std::expm1(likely));
                survival *= 1.0 / (1.0 + std::exp(-(r.scale * odds + r.shift)));
                gains[k] += survival;
            }
        }
        double tokens = static_cast<double>(rows.size()), most = tokens / r.seconds[0];
        int best = 0;
        for (int k = 1; k <= drafts; ++k) {
            tokens += gains[k - 1];
            if (tokens / r.seconds[k] > most) most = tokens / r.seconds[best = k];
        }
        return best;
    }

    // Leaves the verifier's own tokens (B, K + 1), after the last committed one and so many drafts.
    void verify(int kept) {
        const int64_t count = static_cast<int64_t>(rows.size()), width = kept + 1;
        const int64_t stride = compact_stride(*r.verifier, r.shortlists, rows);
        window.resize(count * width);
        starts.resize(count);
        for (int64_t b = 0; b < count; ++b) {
            starts[b] = r.lengths[rows[b]] - 1;
            window[b * width] = r.tokens[rows[b] * r.stride + starts[b]];
            for (int k = 0; k < kept; ++k) window[b * width + 1 + k] = drafts[b * r.block + k];
        }
        logits.resize(count * width * stride);
        own.resize(count * width);
        Step step = step_over(width, r.self, r.cross, r.sources, r.shortlists, stride);
        step.best = own.data();
        run_step(*r.verifier, step);
    }

    // Takes what stands of each sentence's drafts and the verifier's next token; returns how many tokens that is in all.
    int64_t commit(int kept) {
        int64_t all = 0;
        std::vector<int64_t> active;
        for (size_t b = 0; b < rows.size(); ++b) {
            const int64_t row = rows[b], *said = own.data() + b * (kept + 1), *drafted = drafts.data() + b * r.block;
            int stands = 0;
            while (stands < kept && drafted[stands] == said[stands]) ++stands;
            const int64_t old = r.lengths[row];
            bool ended = false;
            for (int k = 0; k <= stands && !ended; ++k) {
                r.tokens[row * r.stride + r.lengths[row]++] = said[k];
                ended = said[k] == r.end || r.lengths[row] >= r.limits[row];
            }
            all += r.lengths[row] - old;
            r.calls[row] += 1;
            r.drafted[row] += kept;
            r.accepted[row] += std::min<int64_t>(r.lengths[row] - old, stands);
            if (!ended) active.push_back(row);
        }
        rows = std::move(active);
        return all;
    }

    const Run& r;
    std::vector<int64_t> rows;  // that have not ended
    std::vector<int64_t> drafts, window, starts, counts, last, own;
    std::vector<float> log_probs;
    static inline std::vector<float> logits, hidden;  // large: kept from run to run
};

}  // namespace

// Returns the number of iterations, or −1 where memory is too small.
extern "C" int specmt_run(const Run* run) {
    const std::lock_guard lock(turn);
    try {
        return Runner(*run).run();
    } catch (const std::bad_alloc&) {
        return -1;
    }
}

#pragma GCC pop_options

// The decoder and encoder stacks on packed weights, one call a step, for CPUs with AVX-512, bfloat16 and VNNI; and what
// Python calls.
//
// Every output of a row is a sum over inputs in ascending order, and attention walks keys in position order, so that a
// row's bits depend on nothing but its own sentence: not on the window, the batch, padding or the number of threads.
//
// One translation unit: whatever the innermost loops call is inlined.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <vector>

#include <cpuid.h>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "structures.h"
#include "threading.h"

enum Support : int { RUNS = 0, OTHER_REVISION = 1, NO_AVX512 = 2, NO_BFLOAT16 = 3, NO_VNNI = 4 };

// Whether this processor runs the kernels, and if not why.
extern "C" int specmt_support(int revision, size_t bytes) {
    constexpr size_t BYTES = sizeof(Network) + sizeof(Layer) + sizeof(Shortlist) + sizeof(Step) + sizeof(Encoding) +
                             sizeof(Crossing) + sizeof(Draft) + sizeof(Expansion) + sizeof(Run);
    if (revision != REVISION || bytes != BYTES) return OTHER_REVISION;
    __builtin_cpu_init();
    if (!(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")))
        return NO_AVX512;
    if (!__builtin_cpu_supports("avx512bf16")) return NO_BFLOAT16;
    return __builtin_cpu_supports("avx512vnni") ? RUNS : NO_VNNI;
}

namespace {

// Whether the processor multiplies tiles of bfloat16 and int8 (AMX), and the kernel lets this process do so.
bool find_tiles() {
    constexpr unsigned bits = 1u << 22 | 1u << 24 | 1u << 25;
    constexpr int request_permission = 0x1023, tile_data = 18;
    unsigned a, b, c, d;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & bits) != bits) return false;
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

}  // namespace

// Only from here on: what runs when the library is loaded must run on every processor.
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,avx512vnni,fma")

#include "loop.h"

namespace {

constexpr int DONE = 0, NO_MEMORY = -1, FAILED = -2;

void release_memory() {
    scratch() = {};
    Buffers::get() = {};
    LevelTrees::get() = {};
}

// Calls f alone, and returns what it returns, or what went wrong; nothing is thrown at Python. A call that fails has
// changed nothing but what it was to fill.
template <class F>
int guarded(F f) noexcept {
    try {
        const std::lock_guard lock(turn);
        try {
            return f();
        } catch (const std::bad_alloc&) {
            release_memory();  // the caller will try with less
            return NO_MEMORY;
        }
    } catch (const std::exception&) {
        return FAILED;
    }
}

// Packs the listed outputs of a network's projection.
void shorten(const Network& n, const Shortlist* lists, int count, int threads) {
    const Linear& from = n.project;
    // In every type, what stands side by side is four bytes wide.
    const int64_t steps = from.inputs / (n.type == FLOAT32 ? 1 : n.type == BFLOAT16 ? 2 : 4);
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

}  // namespace

// Uses tiles where they are there, if they are wanted; returns whether they are used.
extern "C" int specmt_tiles(int wanted) {
    static const bool found = find_tiles();
    return tiles = found && wanted;
}

// For tests: begins anew, without memory and threads, and makes the so-many-th allocation from now fail; 0 for none.
// Returns how many were still to come until the last one that was to fail.
extern "C" int64_t specmt_fail_allocation(int64_t number) {
    const std::lock_guard lock(turn);
    release_memory();
    pool.stop();
    return fails_in.exchange(number);
}

// All that follow return at least 0, or what went wrong.

extern "C" int specmt_shorten(const Network* n, const Shortlist* lists, int count, int threads) {
    return guarded([&] { return shorten(*n, lists, count, threads), DONE; });
}

extern "C" int specmt_step(const Network* n, const Step* step) {
    return guarded([&] { return run_step(*n, *step), DONE; });
}

// Goes on for so many tokens (B, K), each the best after those before it, or until all sentences have ended; returns how
// many.
extern "C" int specmt_ahead(const Network* n, const Step* first, int count, int64_t end, int64_t* tokens,
                            float* log_probs) {
    return guarded([&] { return run_ahead(*n, *first, count, end, tokens, log_probs); });
}

extern "C" int specmt_encode(const Network* n, const Encoding* e) {
    return guarded([&] { return in_type_of(*n, [&]<class T>(T) { run_encoding<T>(*n, *e); }), DONE; });
}

extern "C" int specmt_cross(const Network* n, const Crossing* c) {
    return guarded([&] { return in_type_of(*n, [&]<class T>(T) { run_crossing<T>(*n, *c); }), DONE; });
}

// The best candidates (R, C) of rows of logits, best first, with log-probabilities over them alone.
extern "C" int specmt_candidates(const float* logits, int64_t stride, int rows, int vocab, int threads, int64_t* ids,
                                 float* log_probs) {
    return guarded([&] {
        Candidates* found = fit(scratch().candidates, rows);
        find_candidates(threads, rows, logits, stride, vocab, [](int) { return nullptr; }, found);
        for (int64_t r = 0; r < rows; ++r) {
            std::copy_n(found[r].ids, found[r].count, ids + r * found[r].count);
            std::copy_n(found[r].values, found[r].count, log_probs + r * found[r].count);
        }
        return DONE;
    });
}

// The log-probabilities of tokens (R), given their logits.
extern "C" int specmt_log_probs(float* logits, int64_t stride, int rows, int vocab, int threads, const int64_t* tokens,
                                float* log_probs) {
    return guarded([&] {
        in_parallel(threads, [&](int thread, int all) {
            const Range mine = share(rows, thread, all);
            for (int64_t r = mine.begin; r < mine.end; ++r)
                log_probs[r] = log_prob_of(logits + r * stride, vocab, nullptr, tokens[r]);
        });
        return DONE;
    });
}

extern "C" int specmt_draft(const Draft* d) {
    return guarded([&] { return run_draft(*d), DONE; });
}

extern "C" int specmt_expand(const Draft* d, const Expansion* e) {
    return guarded([&] { return run_expansion(*d, *e), DONE; });
}

// Returns the number of iterations.
extern "C" int specmt_run(const Run* run) {
    return guarded([&] { return Runner(*run).run(); });
}

#pragma GCC pop_options

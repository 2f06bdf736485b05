// What Python calls, each under the name of its variant (library.py): the decoder and encoder stacks on packed weights, one
// call a step, and the loop over them.
//
// Every output of a row is a sum over inputs in ascending order, and attention walks keys in position order, so that a
// row's bits depend on nothing but its own sentence: not on the window, the batch, padding or the number of threads.
//
// One translation unit a variant: whatever the innermost loops call is inlined.

#pragma once

#include "align.h"
#include "beam.h"
#include "loop.h"
#include "pack.h"

#define SPECMT_JOIN(variant, name) specmt_##variant##_##name
#define SPECMT_NAME(variant, name) SPECMT_JOIN(variant, name)
#define CALL(result, name) extern "C" __attribute__((visibility("default"))) result SPECMT_NAME(SPECMT_VARIANT, name)

namespace {

constexpr int DONE = 0, NO_MEMORY = -1, FAILED = -2;

void release_memory() {
    scratch() = {};
    for (const bool drafts : {false, true}) Buffers::get(drafts) = {};
    LevelTrees::get() = {};
    BeamBuffers::get() = {};
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
    const int64_t steps = from.inputs / inputs_of_unit(n.type);
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

// For tests: begins anew, without memory and threads, and makes the so-many-th allocation from now fail; 0 for none.
// Returns how many were still to come until the last one that was to fail.
CALL(int64_t, fail_allocation)(int64_t number) {
    const std::lock_guard lock(turn);
    release_memory();
    pool.stop();
    return fails_in.exchange(number);
}

// All that follow return at least 0, or what went wrong.

CALL(int, shorten)(const Network* n, const Shortlist* lists, int count, int threads) {
    return guarded([&] { return shorten(*n, lists, count, threads), DONE; });
}

CALL(int, pack)(const Packing* packing) {
    return guarded([&] { return run_packing(*packing), DONE; });
}

CALL(int, products)(const Products* products) {
    return guarded([&] { return run_products(*products), DONE; });
}

CALL(int, step)(const Network* n, const Step* step) {
    return guarded([&] { return run_step(*n, *step), DONE; });
}

// Goes on for so many tokens (B, K), each the best after those before it, or until all sentences have ended; returns how
// many.
CALL(int, ahead)(const Network* n, const Step* first, int count, int64_t end, int64_t* tokens,
                            float* log_probs) {
    return guarded([&] { return run_ahead(*n, *first, count, end, tokens, log_probs); });
}

CALL(int, encode)(const Network* n, const Encoding* e) {
    return guarded([&] { return in_type_of(*n, [&]<class T>(T) { run_encoding<T>(*n, *e); }), DONE; });
}

CALL(int, cross)(const Network* n, const Crossing* c) {
    return guarded([&] { return in_type_of(*n, [&]<class T>(T) { run_crossing<T>(*n, *c); }), DONE; });
}

// The best candidates (R, C) of rows of logits, best first, with log-probabilities over them alone.
CALL(int, candidates)(const float* logits, int64_t stride, int rows, int vocab, int threads, int64_t* ids,
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
CALL(int, log_probs)(float* logits, int64_t stride, int rows, int vocab, int threads, const int64_t* tokens,
                                float* log_probs) {
    return guarded([&] {
        for_each(threads, rows, [&](int64_t r, int) {
            log_probs[r] = log_prob_of(logits + r * stride, vocab, nullptr, tokens[r]);
        });
        return DONE;
    });
}

CALL(int, draft)(const Draft* d) {
    return guarded([&] { return run_draft(*d), DONE; });
}

CALL(int, expand)(const Draft* d, const Expansion* e) {
    return guarded([&] { return run_expansion(*d, *e), DONE; });
}

// Returns the number of iterations.
CALL(int, run)(const Run* run) {
    return guarded([&] { return Runner(*run).run(); });
}

// The likeliest tokens (R, C) of rows of logits, best first, and their log-probabilities; one token is never among them.
CALL(int, likeliest)(const float* logits, int64_t stride, int rows, int vocab, int count, int64_t never,
                                int threads, int64_t* ids, float* log_probs) {
    return guarded([&] {
        Continuation* found = fit(BeamBuffers::get().found, static_cast<int64_t>(rows) * count);
        for_each(threads, rows, [&](int64_t r, int) {
            const int made = find_likeliest(logits + r * stride, vocab, count, never, found + r * count);
            for (int64_t i = 0; i < count; ++i) {
                ids[r * count + i] = i < made ? found[r * count + i].token : 0;
                log_probs[r * count + i] = i < made ? found[r * count + i].score : -INFINITY;
            }
        });
        return DONE;
    });
}

CALL(int, align)(const Network* n, const Alignment* a) {
    return guarded([&] { return in_type_of(*n, [&]<class T>(T) { run_alignment<T>(*n, *a); }), DONE; });
}

// Returns the number of steps.
CALL(int, beam)(const Beam* beam) {
    return guarded([&] { return Searcher(*beam).run(); });
}

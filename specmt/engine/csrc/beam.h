// Beam search: one step after the other for all sentences, and what becomes of their hypotheses.

#pragma once

#include <chrono>

#include "network.h"

namespace {

// A hypothesis with one more token.
struct Continuation {
    float score;  // of the token alone, then of the hypothesis
    int32_t parent;
    int64_t token;

    // Better ones first, among equals the one of the earlier hypothesis, then the lower token.
    bool operator<(const Continuation& other) const {
        if (score != other.score) return score > other.score;
        return parent != other.parent ? parent < other.parent : token < other.token;
    }
};

// Finds the likeliest tokens, best first, among equals the lowest, with their log-probabilities; returns how many.
int find_likeliest(const float* logits, int vocab, int most, int64_t never, Continuation* found) {
    int count = 0;
    float least = -INFINITY;
    for (int begin = 0; begin < vocab; begin += LANES) {
        const int end = std::min(begin + LANES, vocab);
        int better = 0;
        for (int i = begin; i < end; ++i) better |= logits[i] > least;
        if (!better) continue;
        for (int i = begin; i < end; ++i) {
            if (!(logits[i] > least) || i == never) continue;
            int place = count < most ? count++ : most - 1;
            for (; place > 0 && found[place - 1].score < logits[i]; --place) found[place] = found[place - 1];
            found[place] = {logits[i], 0, i};
            if (count == most) least = found[most - 1].score;
        }
    }
    const Best best = find_best(logits, vocab);
    for (int i = 0; i < count; ++i) found[i].score = found[i].score - logits[best.place] + best.log_prob;
    return count;
}

// What a search works with; kept from call to call.
struct BeamBuffers {
    Vector<int64_t> rows;              // sentences that have not ended
    Vector<char> used;                 // (T) places of a row of the cache
    Vector<Continuation> found, some;  // (R, 2 K) of rows; those of a sentence
    Vector<int> counts;                // (R) how many
    Vector<int64_t> tokens, slots;     // (K, T) of the hypotheses before
    Vector<float> logits;              // (R, V)

    static BeamBuffers& get() {
        static BeamBuffers all;
        return all;
    }
};

class Searcher {
  public:
    explicit Searcher(const Beam& beam) : r(beam), most(2 * beam.width) {}

    int run() {
        const auto began = std::chrono::steady_clock::now();
        s.rows.clear();
        for (int64_t b = 0; b < r.sentences; ++b)
            if (r.counts[b]) s.rows.push_back(b);
        fit(s.used, r.room);
        fit(s.some, static_cast<int64_t>(r.width) * most);
        fit(s.tokens, r.width * r.stride);
        fit(s.slots, r.width * r.stride);
        const int active = static_cast<int>(s.rows.size());
        int iteration = 0;
        while (iteration < r.iterations && active - static_cast<int>(s.rows.size()) < r.enough && lay_out()) {
            in_type_of(*r.network, [&]<class T>(T) { step<T>(); });
            const Continuation* found = s.found.data();
            const int* counts = s.counts.data();
            size_t left = 0;
            for (const int64_t b : s.rows) {
                const int64_t hypotheses = r.counts[b];
                advance(b, found, counts);
                found += hypotheses * most, counts += hypotheses;
                if (r.counts[b]) s.rows[left++] = b;
            }
            s.rows.resize(left);
            ++iteration;
            if (std::chrono::steady_clock::now() - began >= std::chrono::milliseconds(50)) break;
        }
        return iteration;
    }

  private:
    // Lays out the last token of every hypothesis, and finds places for what it leaves; returns whether there are any.
    bool lay_out() {
        Layout& layout = scratch().layout;
        layout.places.clear(), layout.starts.clear(), layout.wanted.clear(), layout.wanted_starts.clear();
        longest = 0;
        const auto mark = [&] {
            layout.starts.push_back(static_cast<int>(layout.places.size()));
            layout.wanted_starts.push_back(static_cast<int>(layout.places.size()));
        };
        for (const int64_t b : s.rows) {
            mark();
            const int64_t last = r.lengths[b] - 1;
            std::fill_n(s.used.data(), r.room, 0);
            for (int64_t k = 0; k < r.counts[b]; ++k)
                for (int64_t t = 0; t < last; ++t) s.used[slots(b, k)[t]] = 1;
            int64_t slot = 0;
            for (int64_t k = 0; k < r.counts[b]; ++k, ++slot) {
                while (slot < r.room && s.used[slot]) ++slot;
                if (slot >= r.room) return false;
                slots(b, k)[last] = slot;
                layout.wanted.push_back(static_cast<int>(layout.places.size()));
                layout.places.push_back({tokens(b, k)[last], b, last, slot, {0, slots(b, k), static_cast<int>(last) + 1}});
            }
            r.extents[b] = std::max(r.extents[b], slot);
            longest = std::max({longest, last + 1, r.sources[b]});
        }
        mark();
        return !layout.places.empty();
    }

    // Finds the best continuations of all hypotheses; at its limit a sentence ends.
    template <class T>
    void step() {
        const Network& n = *r.network;
        const Layout& layout = scratch().layout;
        const int64_t rows = static_cast<int64_t>(layout.places.size());
        reserve<T>(n, rows, longest, r.threads);
        fit(s.found, rows * most);
        fit(s.counts, rows);
        Step step{};
        step.threads = r.threads;
        step.sources = r.sources;
        step.self = r.self;
        step.cross = r.cross;
        step.stride = n.project.outputs;
        step.logits = fit(s.logits, rows * step.stride);
        in_parallel(r.threads, [&](int thread, int threads) {
            const Part part{thread, threads};
            step_part<T>(n, step, layout, longest, part);
            part.sync();
            const Range mine = part.of(static_cast<int>(rows));
            for (int64_t row = mine.begin; row < mine.end; ++row) {
                const int64_t b = layout.places[row].row;
                float* logits = step.logits + row * step.stride;
                Continuation* found = s.found.data() + row * most;
                if (r.lengths[b] + 1 < r.limits[b]) {
                    s.counts[row] = find_likeliest(logits, n.vocab, most, r.never, found);
                } else {
                    found[0] = {log_prob_of(logits, n.vocab, nullptr, r.end), 0, r.end};
                    s.counts[row] = 1;
                }
            }
        });
    }

    // Takes the best continuations of a sentence's hypotheses.
    void advance(int64_t b, const Continuation* found, const int* counts) {
        Continuation* some = s.some.data();
        int64_t count = 0;
        for (int32_t k = 0; k < r.counts[b]; ++k)
            for (int i = 0; i < counts[k]; ++i) {
                const Continuation& each = found[k * most + i];
                some[count++] = {r.scores[b * r.width + k] + each.score, k, each.token};
            }
        const int64_t kept = std::min<int64_t>(most, count);
        std::partial_sort(some, some + kept, some + count);
        const int64_t length = r.lengths[b];
        ++r.calls[b];
        for (int64_t i = 0; i < std::min<int64_t>(kept, r.width) && r.found[b] < r.width; ++i)
            if (some[i].token == r.end) finish(b, some[i]);
        const bool ended = r.found[b] == r.width || length + 1 >= r.limits[b];
        for (int64_t k = 0; k < r.counts[b]; ++k) {
            std::copy_n(tokens(b, k), length, s.tokens.data() + k * r.stride);
            std::copy_n(slots(b, k), length, s.slots.data() + k * r.stride);
        }
        int64_t active = 0;
        for (int64_t i = 0; i < kept && active < r.width && !ended; ++i) {
            if (some[i].token == r.end) continue;
            std::copy_n(s.tokens.data() + some[i].parent * r.stride, length, tokens(b, active));
            std::copy_n(s.slots.data() + some[i].parent * r.stride, length, slots(b, active));
            tokens(b, active)[length] = some[i].token;
            r.scores[b * r.width + active++] = some[i].score;
        }
        r.counts[b] = active;
        if (active) ++r.lengths[b];
    }

    void finish(int64_t b, const Continuation& last) {
        const int64_t place = b * r.width + r.found[b]++, length = r.lengths[b];
        std::copy_n(tokens(b, last.parent), length, r.found_tokens + place * r.stride);
        r.found_tokens[place * r.stride + length] = r.end;
        r.found_lengths[place] = length + 1;
        r.found_scores[place] = last.score;
    }

    int64_t* tokens(int64_t b, int64_t k) const { return r.tokens + (b * r.width + k) * r.stride; }
    int64_t* slots(int64_t b, int64_t k) const { return r.slots + (b * r.width + k) * r.stride; }

    const Beam& r;
    const int most;  // continuations that are looked at: half of them may be ends
    int64_t longest = 0;
    BeamBuffers& s = BeamBuffers::get();
};

}  // namespace

// Beam search: one step after the other for all sentences, or two where the hypotheses of the next one were guessed.

#pragma once

#include <chrono>

#include "ahead.h"

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

// A continuation that is verified before anyone knows whether it is among the best.
struct Guess {
    int32_t parent;
    int64_t token, slot;
};

// What a search works with; kept from call to call.
struct BeamBuffers {
    Vector<int64_t> rows;              // sentences that have not ended
    Vector<char> used;                 // (T) places of a row of the cache
    Vector<Continuation> found, some;  // (R, 2 K) of rows; those of a sentence
    Vector<int> counts;                // (R) how many
    Vector<int64_t> tokens, slots;     // (K, T) of the hypotheses before
    Vector<int64_t> reads;             // (K) of them
    Vector<int> parents;               // (K) which of them hypotheses come from
    Vector<float> logits;              // (R, V)
    Vector<Guess> guesses;             // of all sentences
    Vector<int> guessed;               // (B) how many each has
    Vector<int64_t> paths;             // (guesses, T) places of what they follow, and their own
    Vector<const Guess*> right;        // (K) guesses that hypotheses turned out to be

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
        fit(s.some, static_cast<int64_t>(r.width) * std::max(most, CANDIDATES));
        for (auto* each : {&s.tokens, &s.slots}) fit(*each, r.width * r.stride);
        fit(s.parents, r.width);
        fit(s.reads, r.width);
        const int active = static_cast<int>(s.rows.size());
        int iteration = 0;
        while (iteration < r.iterations && active - static_cast<int>(s.rows.size()) < r.enough && find_places()) {
            s.guesses.clear();
            s.guessed.assign(s.rows.size(), 0);
            if (r.drafter) guess();
            lay_out();
            in_type_of(*r.network, [&]<class T>(T) { step<T>(); });
            advance_all();
            ++iteration;
            if (std::chrono::steady_clock::now() - began >= std::chrono::milliseconds(50)) break;
        }
        return iteration;
    }

  private:
    // Finds places for what the last tokens of hypotheses leave; returns whether there are any.
    bool find_places() {
        for (const int64_t b : s.rows) {
            const int64_t last = r.lengths[b] - 1;
            mark_used(b, last);
            int64_t slot = -1;
            for (int64_t k = 0; k < r.counts[b]; ++k)
                if (!take_next(b, slots(b, k)[last] = slot = next_free(slot))) return false;
        }
        return !s.rows.empty();
    }

    // Notes the places of so many tokens of each hypothesis.
    void mark_used(int64_t b, int64_t count) {
        std::fill_n(s.used.data(), r.room, 0);
        for (int64_t k = 0; k < r.counts[b]; ++k)
            for (int64_t t = 0; t < count; ++t) s.used[slots(b, k)[t]] = 1;
    }

    // Returns the first free place behind one.
    int64_t next_free(int64_t slot) const {
        do ++slot;
        while (slot < r.room && s.used[slot]);
        return slot;
    }

    // Returns whether a place is one.
    bool take_next(int64_t b, int64_t slot) {
        if (slot >= r.room) return false;
        r.extents[b] = std::max(r.extents[b], slot + 1);
        return true;
    }

    // Lets the drafter read what is new in all hypotheses, and takes the best of what it goes on with.
    void guess() {
        Layout& layout = scratch().layout;
        layout.clear();
        longest = 0;
        for (const int64_t b : s.rows) {
            layout.mark();
            const int64_t length = r.lengths[b];
            std::fill_n(s.used.data(), r.room, 0);
            for (int64_t k = 0; k < r.counts[b]; ++k) {
                for (int64_t t = r.reads[b * r.width + k]; t < length; ++t)
                    if (char& used = s.used[slots(b, k)[t]]; !used)  // hypotheses share what they have in common
                        used = 1, layout.add(place_of(b, tokens(b, k)[t], t, slots(b, k)), t == length - 1);
                r.reads[b * r.width + k] = length;
            }
            longest = std::max({longest, length, r.sources[b]});
        }
        layout.mark();
        Step step = step_of(r.draft_self, r.draft_cross, r.draft_sources);
        step.sentences = static_cast<int32_t>(s.rows.size());
        step.shortlists = r.draft_shortlists;
        step.compact = true;
        step.stride = compact_stride(*r.drafter, r.draft_shortlists, s.rows);
        step.logits = fit(s.logits, static_cast<int64_t>(layout.wanted.size()) * step.stride);
        run_laid_out(*r.drafter, step, longest);
        const Candidates* found = find_candidates(*r.drafter, step);
        for (size_t i = 0; i < s.rows.size(); found += r.counts[s.rows[i++]]) choose_guesses(i, found);
    }

    // Takes a sentence's best continuations, given those of each of its hypotheses; none at its limit.
    void choose_guesses(size_t i, const Candidates* found) {
        const int64_t b = s.rows[i];
        if (r.lengths[b] + 1 >= r.limits[b]) return;
        Continuation* some = s.some.data();
        int64_t count = 0;
        for (int32_t k = 0; k < r.counts[b]; ++k)
            for (int c = 0; c < found[k].count; ++c)
                if (found[k].ids[c] != r.end)
                    some[count++] = {r.scores[b * r.width + k] + found[k].values[c], k, found[k].ids[c]};
        const int64_t wanted = std::min<int64_t>(r.ahead, count);
        std::partial_sort(some, some + wanted, some + count);
        mark_used(b, r.lengths[b]);
        int64_t slot = -1;
        for (int64_t g = 0; g < wanted && take_next(b, slot = next_free(slot)); ++g, ++s.guessed[i])
            s.guesses.push_back({some[g].parent, some[g].token, slot});
        r.drafted[b] += s.guessed[i];
    }

    // Lays out the last token of every hypothesis, and guesses.
    void lay_out() {
        Layout& layout = scratch().layout;
        layout.clear();
        longest = 0;
        int64_t* path = fit(s.paths, static_cast<int64_t>(s.guesses.size()) * r.stride);
        const Guess* guess = s.guesses.data();
        for (size_t i = 0; i < s.rows.size(); ++i) {
            layout.mark();
            const int64_t b = s.rows[i], length = r.lengths[b];
            for (int64_t k = 0; k < r.counts[b]; ++k)
                layout.add(place_of(b, tokens(b, k)[length - 1], length - 1, slots(b, k)), true);
            for (int g = 0; g < s.guessed[i]; ++g, ++guess, path += r.stride) {
                *std::copy_n(slots(b, guess->parent), length, path) = guess->slot;
                layout.add(place_of(b, guess->token, length, path), true);
            }
            longest = std::max({longest, length + 1, r.sources[b]});
        }
        layout.mark();
    }

    // Where a token stands, given the places of all up to it.
    static Place place_of(int64_t b, int64_t token, int64_t position, const int64_t* path) {
        return {token, b, position, path[position], {0, path, static_cast<int>(position) + 1}};
    }

    Step step_of(const Cache& self, const Cache& cross, const int64_t* sources) const {
        Step step{};
        step.threads = r.threads;
        step.sources = sources;
        step.self = self;
        step.cross = cross;
        return step;
    }

    // Finds the best continuations of all rows; at its limit a sentence ends.
    template <class T>
    void step() {
        const Network& n = *r.network;
        const Layout& layout = scratch().layout;
        const int64_t rows = static_cast<int64_t>(layout.places.size());
        reserve<T>(n, rows, longest, r.threads);
        fit(s.found, rows * most);
        fit(s.counts, rows);
        Step step = step_of(r.self, r.cross, r.sources);
        step.stride = n.project.outputs;
        step.logits = fit(s.logits, rows * step.stride);
        in_parallel(r.threads, [&](int thread, int threads) {
            const Part part{thread, threads};
            step_part<T>(n, step, layout, longest, part);
            part.sync();
            const Range mine = part.of(static_cast<int>(rows));
            for (int64_t row = mine.begin; row < mine.end; ++row) {
                const Place& place = layout.places[row];
                float* logits = step.logits + row * step.stride;
                Continuation* found = s.found.data() + row * most;
                if (place.position + 2 < r.limits[place.row]) {
                    s.counts[row] = find_likeliest(logits, n.vocab, most, r.never, found);
                } else {
                    found[0] = {log_prob_of(logits, n.vocab, nullptr, r.end), 0, r.end};
                    s.counts[row] = 1;
                }
            }
        });
    }

    void advance_all() {
        const Guess* guesses = s.guesses.data();
        int64_t first = 0;  // of a sentence's rows
        size_t left = 0;
        for (size_t i = 0; i < s.rows.size(); ++i) {
            const int64_t b = s.rows[i], hypotheses = r.counts[b], guessed = s.guessed[i];
            ++r.calls[b];
            advance(b, [&](int64_t k) { return first + k; });
            first += hypotheses;
            if (guessed && r.counts[b] && find_right(b, guesses, guessed)) go_on(b, first, guesses);
            first += guessed, guesses += guessed;
            if (r.counts[b]) s.rows[left++] = b;
        }
        s.rows.resize(left);
    }

    // Finds the guess that each hypothesis is; returns whether there is one for all.
    bool find_right(int64_t b, const Guess* guesses, int64_t count) {
        s.right.clear();
        for (int64_t k = 0; k < r.counts[b]; ++k) {
            const int64_t token = tokens(b, k)[r.lengths[b] - 1];
            s.right.push_back(std::find_if(guesses, guesses + count, [&](const Guess& guess) {
                return guess.parent == s.parents[k] && guess.token == token;
            }));
            if (s.right[k] == guesses + count) return false;
        }
        return true;
    }

    // Makes the next step from what guesses go on with, given the row of the first.
    void go_on(int64_t b, int64_t first, const Guess* guesses) {
        for (int64_t k = 0; k < r.counts[b]; ++k) slots(b, k)[r.lengths[b] - 1] = s.right[k]->slot;
        ++r.accepted[b];
        advance(b, [&](int64_t k) { return first + (s.right[k] - guesses); });
    }

    // Takes the best continuations of a sentence's hypotheses, given the row of each.
    template <class RowOf>
    void advance(int64_t b, RowOf row_of) {
        Continuation* some = s.some.data();
        int64_t count = 0;
        for (int32_t k = 0; k < r.counts[b]; ++k)
            for (int64_t row = row_of(k), i = 0; i < s.counts[row]; ++i) {
                const Continuation& each = s.found[row * most + i];
                some[count++] = {r.scores[b * r.width + k] + each.score, k, each.token};
            }
        const int64_t kept = std::min<int64_t>(most, count);
        std::partial_sort(some, some + kept, some + count);
        const int64_t length = r.lengths[b];
        for (int64_t i = 0; i < std::min<int64_t>(kept, r.width) && r.found[b] < r.width; ++i)
            if (some[i].token == r.end) finish(b, some[i]);
        const bool ended = r.found[b] == r.width || length + 1 >= r.limits[b];
        for (int64_t k = 0; k < r.counts[b]; ++k) {
            std::copy_n(tokens(b, k), length, s.tokens.data() + k * r.stride);
            std::copy_n(slots(b, k), length, s.slots.data() + k * r.stride);
            s.reads[k] = r.reads[b * r.width + k];
        }
        int64_t active = 0;
        for (int64_t i = 0; i < kept && active < r.width && !ended; ++i) {
            if (some[i].token == r.end) continue;
            std::copy_n(s.tokens.data() + some[i].parent * r.stride, length, tokens(b, active));
            std::copy_n(s.slots.data() + some[i].parent * r.stride, length, slots(b, active));
            tokens(b, active)[length] = some[i].token;
            s.parents[active] = some[i].parent;
            r.reads[b * r.width + active] = s.reads[some[i].parent];
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

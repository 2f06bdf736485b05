// From last hidden states to logits, best tokens and log-probabilities, over the whole vocabulary or a shortlist.

#pragma once

#include <cmath>

#include "attention.h"
#include "multiply.h"

namespace {

constexpr int CANDIDATES = LANES;  // of a draft's next token

// A token that may come next, and what it is worth: a logit or a log-probability.
struct Candidates {
    float values[CANDIDATES];
    int64_t ids[CANDIDATES];
    int count;
};

// A candidate that may become a node of a best-first tree.
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

// What layers are given: rows normalised, and as a type wants them.
struct Inputs {
    Converter rows;
    Vector<float> normed;  // (R, D)
};

constexpr int MANY_ROWS = 16;  // that threads prepare together, not each for itself
constexpr int FFN_ROWS = 64;   // whose inner activations stay in the cache of a thread
constexpr int AT_A_TIME = 32;  // panels whose outputs are looked at while they are in the cache

// An output, and whose it is.
struct Top {
    float logit;
    int64_t token;
};

// What one thread works with beside the others; kept from call to call.
struct Own {
    Inputs inputs;  // of few rows
    Converter rough, inner;
    Vector<float> scores, listed;
    Vector<float> known, sums, states;  // of drafts
    Vector<Leaf> leaves;
    Vector<Top> tops;  // of rows, among the outputs of a thread
};

// One row of a step: a token or a slot.
struct Place {
    int64_t token, row, position;
    int64_t slot;  // where its keys and values are kept
    Seen seen;
};

// The rows of a step, sentence by sentence.
struct Layout {
    Vector<Place> places;
    Vector<int> starts;         // (B + 1) where the rows of each sentence begin
    Vector<int> wanted;         // (R) the rows whose logits are wanted
    Vector<int> wanted_starts;  // (B + 1)

    void clear() { places.clear(), starts.clear(), wanted.clear(), wanted_starts.clear(); }

    // Before each sentence, and behind the last.
    void mark() {
        starts.push_back(static_cast<int>(places.size()));
        wanted_starts.push_back(static_cast<int>(wanted.size()));
    }
    void add(const Place& place, bool is_wanted) {
        if (is_wanted) wanted.push_back(static_cast<int>(places.size()));
        places.push_back(place);
    }
};

// What calls work with.
struct Scratch {
    Vector<float> x, projected;     // (R, D) residual stream; (R, 3 D)
    Vector<float> attended;        // (R, D)
    Vector<float> inner;           // (R, F)
    Inputs inputs;                 // of many rows
    Vector<int> sentences, starts;  // of rows to encode; (B + 1)
    Layout layout;
    Vector<Candidates> candidates;
    Vector<Own> own;
};

Scratch& scratch() {
    static Scratch all;
    return all;
}

// One thread's part of a call.
struct Part {
    int thread, threads;
    bool alone = false;  // does the whole of something, while others do the whole of something else

    Own& own() const { return scratch().own[thread]; }
    void sync() const {
        if (!alone) barrier.wait(thread, threads);
    }
    Range of(int count) const { return alone ? Range{0, count} : share(count, thread, threads); }
    Range panels(const Linear& linear) const { return of(linear.outputs / LANES); }
};

// What a sentence may use, given its row in the caches; null for the whole vocabulary.
const Shortlist* shortlist_of(const Shortlist* lists, int64_t row) {
    return lists && lists[row].count ? lists + row : nullptr;
}

// How far apart rows of compact logits are.
int64_t compact_stride(const Network& n, const Shortlist* lists, const Vector<int64_t>& rows) {
    int64_t stride = 0;
    for (const int64_t row : rows) {
        const Shortlist* list = shortlist_of(lists, row);
        stride = std::max<int64_t>(stride, list ? list->project.outputs : n.project.outputs);
    }
    return stride;
}

// Projects rows of one sentence to what it may use.
template <class T>
void project_listed(const Part& part, const Network& n, const Step& step, const Shortlist* list, int rows,
                    const Rows<T>& x, float* logits) {
    const Linear& linear = list ? list->project : n.project;
    const Range panels = part.panels(linear);
    if (!list || step.compact) return multiply<T>(rows, x, linear, panels, {}, logits, step.stride);
    float* listed = part.own().listed.data();
    multiply<T>(rows, x, linear, panels, {}, listed, linear.outputs);
    const int end = std::min(panels.end * LANES, list->count);
    for (int64_t r = 0; r < rows; ++r)
        for (int i = panels.begin * LANES; i < end; ++i)
            logits[r * step.stride + list->ids[i]] = listed[r * linear.outputs + i];
}

// Projects rows to the vocabulary, or to what each sentence may use.
template <class T>
void project(const Part& part, const Network& n, const Step& step, const Layout& layout, const Rows<T>& x) {
    if (!step.shortlists) {
        const int rows = static_cast<int>(layout.wanted.size());
        return multiply<T>(rows, x, n.project, part.panels(n.project), {}, step.logits, step.stride);
    }
    for (int b = 0; b < step.sentences; ++b) {
        const int first = layout.wanted_starts[b], rows = layout.wanted_starts[b + 1] - first;
        const int64_t row = layout.places[layout.wanted[first]].row;
        project_listed<T>(part, n, step, shortlist_of(step.shortlists, row), rows, x.from(first),
                          step.logits + first * step.stride);
    }
}

// Of bits of lanes, those of the first so many.
unsigned first_bits(unsigned bits, int count) { return count >= LANES ? bits : bits & ((1u << count) - 1); }

// The first place of a value, or 0.
int64_t place_of(float value, const float* logits, int count) {
    const Floats nothing = floats(-INFINITY), highest = floats(value);
    for (int i = 0; i < count; i += LANES)
        if (const unsigned best = first_bits(are_equal(load_first(logits + i, count - i, nothing), highest), count - i))
            return i + __builtin_ctz(best);
    return 0;
}

// The lowest of the best tokens.
int64_t best_token(const float* logits, int count) { return place_of(highest_of(logits, count), logits, count); }

// How many tokens are better than one; among equals the lower.
int rank_of(const float* logits, int count, int64_t token) {
    const Floats value = floats(logits[token]);
    int rank = 0;
    for (int i = 0; i < count; i += LANES) {
        const Floats x = load_first(logits + i, count - i);
        const unsigned lower = first_bits(are_equal(x, value), static_cast<int>(std::clamp<int64_t>(token - i, 0, LANES)));
        rank += __builtin_popcount(first_bits(are_greater(x, value), count - i) | lower);
    }
    return rank;
}

int64_t best_token(const float* logits, const Network& n, const Shortlist* list) {
    return list ? list->ids[best_token(logits, list->count)] : best_token(logits, n.vocab);
}

// The lowest of the best tokens of a row, given its outputs in int8. How far those are off is bounded (by Cauchy and
// Schwarz, with room for rounding), and what could be the best for all that is computed as it is.
template <class T>
int64_t best_filtered(const Network& n, const Rows<T>& x, const Rows<Int8>& rough, float* logits) {
    Floats squares = floats(0.0f), errors = floats(0.0f);
    for (int i = 0; i < n.width; i += LANES) {
        const Floats value = load(x.values + i);
        const Floats error = subtract_product(value, load_rounded(rough.values + i), floats(rough.scales->factor));
        squares = fma(value, value, squares);
        errors = fma(error, error, errors);
    }
    const Filter& f = n.filter;
    const float norm = __builtin_sqrtf(sum_of(squares));
    const float error = __builtin_sqrtf(sum_of(errors));
    constexpr float ROUNDING = 1.0f / (1 << 22);
    const float off = 1.001f * (f.error * norm + f.norm * error) +
                      ROUNDING * (static_cast<float>(n.width) * (f.error + f.norm) * norm + 4.0f * f.bias) +
                      1e-30f;  // numbers too small for bfloat16's instructions count as 0
    const Floats least = floats(highest_of(logits, n.vocab) - 2.0f * off);
    int64_t best = 0;
    float highest = -INFINITY;
    for (int i = 0; i < n.vocab; i += LANES) {
        if (!first_bits(are_not_less(load(logits + i), least), n.vocab - i)) continue;
        multiply<T>(1, x, n.project, {i / LANES, i / LANES + 1}, {}, logits, n.project.outputs);
        const int64_t id = i + best_token(logits + i, std::min(LANES, n.vocab - i));
        if (logits[id] > highest) highest = logits[best = id];
    }
    return best;
}

// Finds the best tokens of rows, and keeps no more of the outputs than a strip at a time.
template <class T>
void choose_passing(const Part& part, const Network& n, int rows, const Rows<T>& x, int64_t* best) {
    Own& own = part.own();
    constexpr int STRIDE = AT_A_TIME * LANES;
    std::fill_n(own.tops.data(), rows, Top{-INFINITY, 0});
    const Range panels = part.panels(n.project);
    for (int panel = panels.begin; panel < panels.end; panel += AT_A_TIME) {
        const Range strip{panel, std::min(panel + AT_A_TIME, panels.end)};
        const int first = panel * LANES, count = std::min(strip.end * LANES, n.vocab) - first;
        multiply<T>(rows, x, n.project, strip, {}, own.listed.data() - first, STRIDE);
        for (int r = 0; r < rows; ++r) {
            const float *outputs = own.listed.data() + r * STRIDE, highest = highest_of(outputs, count);
            if (highest > own.tops[r].logit) own.tops[r] = {highest, first + place_of(highest, outputs, count)};
        }
    }
    part.sync();
    const Range mine = part.of(rows);
    for (int r = mine.begin; r < mine.end; ++r) {
        Top top = scratch().own[0].tops[r];
        for (int thread = 1; thread < part.threads; ++thread) {
            const Top& other = scratch().own[thread].tops[r];
            if (other.logit > top.logit) top = other;
        }
        best[r] = top.token;
    }
}

// Finds the best tokens of rows of hidden states.
template <class T>
void choose(const Part& part, const Network& n, const Step& step, const Layout& layout, const float* hidden,
            const Rows<T>& x) {
    const int rows = static_cast<int>(layout.wanted.size());
    const bool filtered = step.best_alone && n.filter.project.weight && !step.shortlists;
    if (step.best_alone && !filtered && !step.shortlists) return choose_passing<T>(part, n, rows, x, step.best);
    Rows<Int8> rough{};
    if (filtered) {
        const Linear& linear = n.filter.project;
        rough = part.own().rough.template convert<Int8>(hidden, Range{0, rows}, n.width);
        multiply<Int8>(rows, rough, linear, part.panels(linear), {}, step.logits, step.stride);
    } else {
        project<T>(part, n, step, layout, x);
    }
    part.sync();
    const Range mine = part.of(rows);
    for (int r = mine.begin; r < mine.end; ++r) {
        float* logits = step.logits + r * step.stride;
        if constexpr (!std::is_base_of_v<Int8, T>)
            if (filtered) {
                step.best[r] = best_filtered<T>(n, x.from(r), rough.from(r), logits);
                continue;
            }
        const int64_t row = layout.places[layout.wanted[r]].row;
        step.best[r] = best_token(logits, n, shortlist_of(step.shortlists, row));
    }
}

struct Best {
    int64_t place;
    float log_prob;
};

// The lowest of the best tokens, with its log-probability.
Best find_best(const float* logits, int count) {
    const int64_t place = best_token(logits, count);
    return {place, -std::log(sum_of_exponentials(logits, count, floats(logits[place])))};
}

// The log-probability of a token. Lane i adds up the tokens i, i + 16, …, in that order, also where logits are those of a
// list alone: the bits are the same. Those of a list are spent.
float log_prob_of(float* logits, int vocab, const Shortlist* list, int64_t token) {
    const int count = list ? list->count : vocab;
    const float top = highest_of(logits, count);
    const Floats highest = floats(top);
    if (!list) return logits[token] - top - std::log(sum_of_exponentials(logits, count, highest));
    const int32_t* found = std::lower_bound(list->ids, list->ids + count, token);
    if (found == list->ids + count || *found != token) return -INFINITY;
    const float logit = logits[found - list->ids];
    alignas(64) float sums[LANES] = {};
    for (int i = 0; i < count; i += LANES)
        store_first(logits + i, exponential(subtract(load_first(logits + i, count - i), highest)), count - i);
    for (int i = 0; i < count; ++i) sums[list->ids[i] % LANES] += logits[i];
    return logit - top - std::log(sum_of(load(sums)));
}

}  // namespace

// Drafts of the masked drafter: chains and best-first trees from the candidates of [MASK] slots.

#pragma once

#include "network.h"

namespace {

// The candidate that goes first: the lowest value, among equals the highest id.
int find_worst(const float* values, const int64_t* ids, int count) {
    int worst = 0;
    for (int i = 1; i < count; ++i)
        if (values[i] < values[worst] || (values[i] == values[worst] && ids[i] > ids[worst])) worst = i;
    return worst;
}

// The best tokens of a row of logits in ascending order; among equals the lowest.
Candidates best_candidates(const float* logits, int vocab, const Shortlist* list) {
    Candidates found;
    auto& [values, ids, count] = found;
    if (list) vocab = list->count;
    count = std::min(CANDIDATES, vocab);
    for (int i = 0; i < count; ++i) values[i] = logits[ids[i] = i];
    int worst = find_worst(values, ids, count);
    for (int start = count; start < vocab; start += LANES) {
        const Floats block = load_first(logits + start, vocab - start);
        unsigned better = first_bits(are_greater(block, floats(values[worst])), vocab - start);
        for (; better != 0; better &= better - 1) {
            const int id = start + __builtin_ctz(better);
            if (logits[id] <= values[worst]) continue;  // a better one came in between
            values[worst] = logits[id];
            ids[worst] = id;
            worst = find_worst(values, ids, count);
        }
    }
    // In this order, sums over them do not depend on whether logits are those of a list alone.
    for (int i = 1; i < count; ++i)
        for (int j = i; j > 0 && ids[j] < ids[j - 1]; --j) std::swap(ids[j], ids[j - 1]), std::swap(values[j], values[j - 1]);
    for (int i = 0; list && i < count; ++i) ids[i] = list->ids[ids[i]];
    return found;
}

// Turns values into log-probabilities over the candidates alone.
void normalise(Candidates& found) {
    auto& [values, ids, count] = found;
    float highest = -INFINITY, sum = 0.0f;
    for (int i = 0; i < count; ++i) highest = std::max(highest, values[i]);
    for (int i = 0; i < count; ++i) sum += std::exp(values[i] - highest);
    const float all = std::log(sum);
    for (int i = 0; i < count; ++i) values[i] = values[i] - highest - all;
}

// Brings the best so many to the front, in order; among equals the lowest.
void sort_best(Candidates& found, int wanted) {
    for (int i = 0; i < std::min(wanted, found.count); ++i) {
        int best = i;
        for (int j = i + 1; j < found.count; ++j)
            if (found.values[j] > found.values[best] ||
                (found.values[j] == found.values[best] && found.ids[j] < found.ids[best]))
                best = j;
        std::swap(found.values[i], found.values[best]);
        std::swap(found.ids[i], found.ids[best]);
    }
}

float dot(const float* a, const float* b, int count) {
    Floats sum = floats(0.0f);
    for (int i = 0; i < count; i += LANES) sum = fma(load_first(a + i, count - i), load_first(b + i, count - i), sum);
    return sum_of(sum);
}

INLINE Floats hyperbolic_tangent(Floats x) {
    const Floats two = floats(2.0f);
    return fma(two, sigmoid(multiply(two, x)), floats(-1.0f));
}

// The candidates of a sentence's slots, scored by what was chosen before them.
class Corrected {
  public:
    Corrected(const Draft& d, int sentence, const Candidates* candidates, Range slots, Own& own)
        : d_(d), gates_(2 * d.rank), candidates_(candidates), known_(own.known.data()), sums_(own.sums.data()) {
        const float* hidden = d.hidden + (static_cast<int64_t>(sentence) * d.slots + slots.begin) * d.width;
        multiply<Float32>(slots.end - slots.begin, {hidden, d.width, nullptr}, d.known, {0, gates_ / LANES}, {},
                          known_ + static_cast<int64_t>(slots.begin) * gates_, gates_);
    }

    // Returns the candidates of a slot after a token, with their log-probabilities; `state` becomes that of the slot.
    Candidates at(int slot, int64_t before, float* state) {
        Candidates found = candidates_[slot];
        auto& [values, ids, count] = found;
        // These rows lie anywhere in a large table; they come while the state is worked out.
        for (int i = 0; i < count; ++i)
            for (int k = 0; k < d_.rank; k += LANES)
                __builtin_prefetch(d_.corrected + ids[i] * d_.rank + k);
        multiply<Float32>(1, {state, d_.rank, nullptr}, d_.carried, {0, gates_ / LANES}, {}, sums_, gates_);
        for (int i = 0; i < d_.rank; i += LANES) {
            const auto gate = [&](int place) {
                const Floats known = load(&known_[static_cast<int64_t>(slot) * gates_ + place]);
                return add(add(known, load(d_.embedded + before * gates_ + place)), load(&sums_[place]));
            };
            const Floats old = load(state + i);
            const Floats step = subtract(hyperbolic_tangent(gate(d_.rank + i)), old);
            store(state + i, fma(sigmoid(gate(i)), step, old));
        }
        for (int i = 0; i < count; ++i) values[i] += dot(d_.corrected + ids[i] * d_.rank, state, d_.rank);
        normalise(found);
        return found;
    }

  private:
    const Draft& d_;
    int gates_;
    const Candidates* candidates_;
    float *known_, *sums_;  // (K, 2 R), (2 R)
};

void draft_chain(const Draft& d, int sentence, Corrected& corrected, Own& own) {
    float* state = std::fill_n(own.states.data(), d.rank, 0.0f) - d.rank;
    int64_t before = d.last[sentence];
    for (int k = 0; k < d.slots; ++k) {
        Candidates found = corrected.at(k, before, state);
        sort_best(found, 1);
        const int64_t slot = static_cast<int64_t>(sentence) * d.slots + k;
        d.tokens[slot] = before = found.ids[0];
        d.log_probs[slot] = found.values[0];
    }
}

void draft_tree(const Draft& d, int sentence, Corrected& corrected, Own& own) {
    float* states = own.states.data();  // (N + 1, R) that each node was scored with
    std::fill_n(states, d.rank, 0.0f);
    Vector<Leaf>& leaves = own.leaves;  // a heap
    leaves.clear();
    const auto grow = [&](int node, int64_t token, int depth, float total, int parent) {
        float* state = states + static_cast<int64_t>(node) * d.rank;
        if (node > 0) std::copy_n(states + static_cast<int64_t>(parent) * d.rank, d.rank, state);
        Candidates found = corrected.at(depth, token, state);
        sort_best(found, d.breadth);
        for (int i = 0; i < std::min(d.breadth, found.count); ++i) {
            leaves.push_back({total + found.values[i], found.values[i], found.ids[i], node, depth + 1});
            std::push_heap(leaves.begin(), leaves.end());
        }
    };
    grow(0, d.last[sentence], 0, 0.0f, 0);
    int64_t place = static_cast<int64_t>(sentence) * d.nodes;
    for (int node = 1; node <= d.nodes; ++node, ++place) {
        d.tokens[place] = d.parents[place] = 0;
        d.log_probs[place] = -INFINITY;
        if (leaves.empty()) continue;  // shortlists may be too short for as many nodes
        std::pop_heap(leaves.begin(), leaves.end());
        const Leaf leaf = leaves.back();
        leaves.pop_back();
        d.tokens[place] = leaf.token;
        d.log_probs[place] = leaf.log_prob;
        d.parents[place] = leaf.parent;
        if (leaf.depth < d.slots && node < d.nodes) grow(node, leaf.token, leaf.depth, leaf.total, leaf.parent);
    }
}

// Makes room for drafts.
void reserve(const Draft& d) {
    Scratch& s = scratch();
    fit(s.candidates, static_cast<int64_t>(d.sentences) * d.slots);
    if (static_cast<int>(s.own.size()) < d.threads) s.own.resize(d.threads);
    for (int thread = 0; thread < d.threads; ++thread) {
        Own& own = s.own[thread];
        fit(own.known, static_cast<int64_t>(d.slots) * 2 * d.rank);
        fit(own.sums, 2 * d.rank);
        fit(own.states, static_cast<int64_t>(d.nodes + 1) * d.rank);
        own.leaves.reserve(static_cast<int64_t>(d.nodes + 1) * std::min(d.breadth, CANDIDATES));
    }
}

void run_draft(const Draft& d) {
    reserve(d);
    Candidates* candidates = scratch().candidates.data();
    in_parallel(d.threads, [&](int thread, int threads) {
        const Part part{thread, threads};
        const Range mine = part.of(d.sentences * d.slots);
        for (int64_t slot = mine.begin; slot < mine.end; ++slot) {
            const Shortlist* list = d.shortlists ? shortlist_of(d.shortlists, d.rows[slot / d.slots]) : nullptr;
            candidates[slot] = best_candidates(d.logits + slot * d.stride, d.vocab, list);
        }
        part.sync();
        const Range sentences = part.of(d.sentences);
        for (int sentence = sentences.begin; sentence < sentences.end; ++sentence) {
            Corrected corrected(d, sentence, candidates + static_cast<int64_t>(sentence) * d.slots, {0, d.slots},
                                part.own());
            (d.parents ? draft_tree : draft_chain)(d, sentence, corrected, part.own());
        }
    });
}

void run_expansion(const Draft& d, const Expansion& e) {
    reserve(d);
    for_each(d.threads, d.sentences, [&](int64_t sentence, int thread) {
        Candidates* candidates = scratch().candidates.data() + sentence * d.slots;
        candidates[e.slot] = best_candidates(d.logits + (sentence * d.slots + e.slot) * d.stride, d.vocab, nullptr);
        Corrected corrected(d, static_cast<int>(sentence), candidates, {e.slot, e.slot + 1}, scratch().own[thread]);
        for (int64_t item = sentence * e.width; item < (sentence + 1) * e.width; ++item) {
            const Candidates after = corrected.at(e.slot, e.before[item], e.states + item * d.rank);
            std::copy_n(after.ids, after.count, e.ids + item * after.count);
            std::copy_n(after.values, after.count, e.log_probs + item * after.count);
        }
    });
}

}  // namespace

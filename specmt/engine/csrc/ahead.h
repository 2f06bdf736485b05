// Drafts of decoders that go ahead: token by token, or level by level of a best-first tree.

#pragma once

#include "drafting.h"

namespace {

// What decides what is drafted and verified, by the product of calibrated chances over a path: a node is verified that
// reaches the floor, and nothing is drafted behind one that does not reach the margin, or behind the end.
struct Confidence {
    double scale, shift, floor, margin;

    double chance(float log_prob) const {
        const double likely = std::min<double>(log_prob, -1e-6);
        const double odds = likely - std::log(-std::expm1(likely));
        return 1.0 / (1.0 + std::exp(-(scale * odds + shift)));
    }
    bool decides() const { return floor > 0.0; }
    bool is_enough(double product) const { return !decides() || product >= floor; }
    bool goes_on(double product, bool ended) const { return !decides() || (product >= margin && !ended); }
};

// Goes on with the best tokens (B, K), and returns how many: until all sentences have ended, or none is to go on. What
// is not drafted of a sentence has log-probabilities of −inf. The logits of the first step are compact, and those of
// last tokens.
int run_ahead(const Network& n, const Step& first, int count, int64_t end, int64_t* tokens, float* log_probs,
              const Confidence& confidence = {}) {
    struct Active {  // sentences that go on
        Vector<int64_t> numbers, rows, last, starts;
    } active;
    for (int64_t b = 0; b < first.sentences; ++b) {
        active.numbers.push_back(b);
        active.rows.push_back(first.rows ? first.rows[b] : b);
        active.last.push_back(0);
        active.starts.push_back(first.starts[b] + first.counts[b]);
    }
    Vector<double> products(first.sentences, 1.0);
    std::fill_n(log_probs, static_cast<int64_t>(first.sentences) * count, -INFINITY);
    Step step = first;
    for (int k = 0; k < count; ++k) {
        run_step(n, step);
        bool ended = true;
        int going = 0;
        for (int64_t i = 0; i < step.sentences; ++i) {
            const int64_t b = active.numbers[i], row = active.rows[i], start = active.starts[i];
            const Shortlist* list = shortlist_of(step.shortlists, row);
            const Best best = find_best(step.logits + i * step.stride, list ? list->count : n.vocab);
            const int64_t token = tokens[b * count + k] = list ? list->ids[best.place] : best.place;
            log_probs[b * count + k] = best.log_prob;
            ended = ended && token == end;
            if (confidence.decides()) products[b] *= confidence.chance(best.log_prob);
            if (!confidence.goes_on(products[b], token == end)) continue;
            active.numbers[going] = b;
            active.rows[going] = row;
            active.last[going] = token;
            active.starts[going++] = start + (k > 0);
        }
        if (ended || going == 0) return k + 1;
        step.sentences = going;
        step.width = 1;
        step.counts = nullptr;
        step.wanted = ALL;
        step.rows = active.rows.data();
        step.tokens = active.last.data();
        step.starts = active.starts.data();
    }
    return count;
}

// The best candidates of rows of logits, best first, with log-probabilities over them alone.
template <class ListOf>
void find_candidates(int threads, int rows, const float* logits, int64_t stride, int vocab, ListOf list_of,
                     Candidates* found) {
    const auto find = [&](Range mine) {
        for (int64_t r = mine.begin; r < mine.end; ++r) {
            found[r] = best_candidates(logits + r * stride, vocab, list_of(static_cast<int>(r)));
            normalise(found[r]);
            sort_best(found[r], CANDIDATES);
        }
    };
    constexpr int FEW = 4;  // that are not worth waking other threads for
    if (rows <= FEW) return find({0, rows});
    in_parallel(threads, [&](int thread, int all) { find(share(rows, thread, all)); });
}

// A node of a tree that grows level by level.
struct LevelNode {
    int64_t token;
    int32_t parent;  // the number of the node before, from 1; 0 for none
    float log_prob;
    double total;    // of its path
};

// The trees of the likeliest paths among those of beams as wide as trees are broad (specmt/decoding/levels.py).
class LevelTrees {
  public:
    // Buffers are kept from call to call.
    static LevelTrees& get() {
        static LevelTrees trees;
        return trees;
    }

    // The first step is as in `run_ahead`; drafts are (B, N) nodes in order of their paths' probability.
    void run(const Network& n, const Step& first, int depth, int breadth, int count, int64_t* tokens, float* log_probs,
             int64_t* parents) {
        const int sentences = first.sentences;
        most_ = breadth + breadth * breadth * (depth - 1);
        breadth_ = breadth;
        fit(nodes_, static_cast<int64_t>(sentences) * most_);
        fit(order_, most_);
        fit(scratch().candidates, static_cast<int64_t>(sentences) * breadth);
        sizes_.assign(sentences, 0);
        widths_.assign(sentences, 1);
        starts_.resize(sentences);
        for (auto* each : {&beams_, &window_, &depths_}) each->assign(sentences * breadth, 0);
        for (auto* each : {&paths_, &old_paths_}) each->assign(static_cast<int64_t>(sentences) * breadth * depth, 0);
        for (int b = 0; b < sentences; ++b) starts_[b] = first.starts[b] + first.counts[b] - 1;
        Step step = first;
        for (int level = 0;; ++level) {
            run_step(n, step);
            find_level(n, step);
            Candidates* found = scratch().candidates.data();
            for (int b = 0; b < sentences; ++b) {
                const int64_t width = widths_[b];
                grow(b, level + 1, depth, step, found);
                found += width;
            }
            if (level == depth - 1) break;
            step.first = level == 0 ? 1 : step.first + breadth;
            step.width = breadth;
            step.wanted = ALL;
            step.counts = widths_.data();
            step.tokens = window_.data();
            step.starts = starts_.data();
            step.depths = depths_.data();
            step.paths = paths_.data();
            step.longest = depth;
        }
        for (int64_t b = 0; b < sentences; ++b) keep_best(b, count, tokens, log_probs, parents);
    }

  private:
    void find_level(const Network& n, const Step& step) {
        const Layout& layout = scratch().layout;
        const auto list_of = [&](int r) {
            return shortlist_of(step.shortlists, layout.places[layout.wanted[r]].row);
        };
        const int rows = static_cast<int>(layout.wanted.size());
        find_candidates(step.threads, rows, step.logits, step.stride, n.vocab, list_of, scratch().candidates.data());
    }

    // Adds the children of a beam, and makes the best of them the next.
    void grow(int64_t b, int level, int depth, const Step& step, const Candidates* found) {
        LevelNode* nodes = nodes_.data() + b * most_;
        int64_t* beam = beams_.data() + b * breadth_;
        const int64_t begin = sizes_[b];
        int64_t& size = sizes_[b];
        for (int64_t j = 0; j < widths_[b]; ++j) {
            const double total = beam[j] ? nodes[beam[j] - 1].total : 0.0;
            for (int i = 0; i < std::min(breadth_, found[j].count); ++i)
                nodes[size++] = {found[j].ids[i], static_cast<int32_t>(beam[j]), found[j].values[i],
                                 total + found[j].values[i]};
        }
        const int64_t* order = sort(nodes, begin, size, breadth_);
        const int64_t next = std::min<int64_t>(breadth_, size - begin);
        int64_t* old = old_paths_.data() + b * breadth_ * depth;
        int64_t* paths = paths_.data() + b * breadth_ * depth;
        const int64_t slot = level == 1 ? 1 : step.first + breadth_;  // of the next level's first token
        std::copy_n(paths, breadth_ * depth, old);
        places_.resize(next);
        for (int64_t j = 0; j < next; ++j) {
            const LevelNode& node = nodes[order[j]];
            places_[j] = order[j] + 1;
            window_[b * breadth_ + j] = node.token;
            depths_[b * breadth_ + j] = level;
            const int64_t parent = std::find(beam, beam + widths_[b], node.parent) - beam;
            std::copy_n(old + parent * depth, level, paths + j * depth);
            if (level < depth) paths[j * depth + level] = slot + j;
        }
        std::copy_n(places_.data(), next, beam);
        widths_[b] = next;
    }

    // Returns nodes from `begin` on by the probability of their paths, among equals the earlier; the first ones in order.
    const int64_t* sort(const LevelNode* nodes, int64_t begin, int64_t end, int64_t wanted) {
        int64_t* order = order_.data();
        for (int64_t i = begin; i < end; ++i) order[i - begin] = i;
        const int64_t count = end - begin;
        std::partial_sort(order, order + std::min(wanted, count), order + count, [nodes](int64_t a, int64_t b) {
            return nodes[a].total != nodes[b].total ? nodes[a].total > nodes[b].total : a < b;
        });
        return order;
    }

    void keep_best(int64_t b, int64_t count, int64_t* tokens, float* log_probs, int64_t* parents) {
        const LevelNode* nodes = nodes_.data() + b * most_;
        const int64_t* order = sort(nodes, 0, sizes_[b], count);
        places_.assign(sizes_[b] + 1, 0);
        for (int64_t i = 0; i < count; ++i) {
            const bool real = i < sizes_[b];
            const LevelNode node = real ? nodes[order[i]] : LevelNode{0, 0, -INFINITY, 0.0};
            if (real) places_[order[i] + 1] = i + 1;
            tokens[b * count + i] = node.token;
            log_probs[b * count + i] = node.log_prob;
            parents[b * count + i] = places_[node.parent];  // a node is never likelier than its parent
        }
    }

    int64_t most_ = 0;  // nodes of a sentence
    int breadth_ = 0;
    Vector<LevelNode> nodes_;                       // (B, most)
    Vector<int64_t> sizes_, widths_, starts_;       // (B) nodes, nodes of the last level, positions of the roots
    Vector<int64_t> beams_, window_, depths_;       // (B, breadth) of the last level: node numbers, tokens, depths
    Vector<int64_t> paths_, old_paths_;             // (B, breadth, depth)
    Vector<int64_t> order_, places_;
};

}  // namespace

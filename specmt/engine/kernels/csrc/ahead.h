// Drafts of decoders that go ahead: token by token, or level by level of a best-first tree.

#pragma once

#include "drafting.h"

namespace {

// What decides what is drafted and verified, by the product of calibrated chances over a path: a node is verified that
// reaches the floor; a draft goes on where the nodes to go on from, together, reach the margin, and never behind the end.
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
    const auto find = [&](int64_t r, int) {
        found[r] = best_candidates(logits + r * stride, vocab, list_of(static_cast<int>(r)));
        normalise(found[r]);
        sort_best(found[r], CANDIDATES);
    };
    constexpr int FEW = 4;  // that are not worth waking other threads for
    if (rows > FEW) return for_each(threads, rows, find);
    for (int r = 0; r < rows; ++r) find(r, 0);
}

// The same for the wanted rows of a step that was run; they stand until the next call.
const Candidates* find_candidates(const Network& n, const Step& step) {
    const Layout& layout = scratch().layout;
    const int rows = static_cast<int>(layout.wanted.size());
    Candidates* found = fit(scratch().candidates, rows);
    const auto list_of = [&](int r) { return shortlist_of(step.shortlists, layout.places[layout.wanted[r]].row); };
    find_candidates(step.threads, rows, step.logits, step.stride, n.vocab, list_of, found);
    return found;
}

// A node of a tree that grows level by level.
struct LevelNode {
    int64_t token;
    int32_t parent;  // the number of the node before, from 1; 0 for none
    float log_prob;
    double total, product;  // of its path: log-probabilities, chances
};

// The trees of the likeliest paths among those of beams as wide as trees are broad (specmt/decoding/best_first.py).
class LevelTrees {
  public:
    // Buffers are kept from call to call.
    static LevelTrees& get() {
        static LevelTrees trees;
        return trees;
    }

    // The first step is as in `run_ahead`; drafts are (B, N) nodes in order of their paths' probability.
    void run(const Network& n, const Step& first, int depth, int breadth, int count, int64_t end,
             const Confidence& confidence, int64_t* tokens, float* log_probs, int64_t* parents) {
        const int sentences = first.sentences;
        most_ = breadth + breadth * breadth * (depth - 1);
        breadth_ = breadth, depth_ = depth, count_ = count, end_ = end;
        fit(nodes_, static_cast<int64_t>(sentences) * most_);
        fit(order_, most_);
        sizes_.assign(sentences, 0);
        widths_.assign(sentences, 1);
        for (auto* each : {&starts_, &rows_, &numbers_}) each->resize(sentences);
        for (auto* each : {&beams_, &window_, &depths_}) each->assign(sentences * breadth, 0);
        paths_.assign(static_cast<int64_t>(sentences) * breadth * depth, 0);
        fit(old_paths_, static_cast<int64_t>(breadth) * depth);
        for (int b = 0; b < sentences; ++b) {
            numbers_[b] = b;
            rows_[b] = first.rows ? first.rows[b] : b;
            starts_[b] = first.starts[b] + first.counts[b] - 1;
        }
        Step step = first;
        for (int level = 0;; ++level) {
            run_step(n, step);
            const Candidates* found = find_candidates(n, step);
            const int64_t slot = level == 0 ? 1 : step.first + breadth;  // of the next level's first token
            int going = 0;
            for (int i = 0; i < step.sentences; ++i) {
                const int64_t width = widths_[i];
                going += grow(i, going, level + 1, slot, found, confidence);
                found += width;
            }
            if (level == depth - 1 || going == 0) break;
            step.sentences = going;
            step.first = slot;
            step.width = breadth;
            step.wanted = ALL;
            step.rows = rows_.data();
            step.counts = widths_.data();
            step.tokens = window_.data();
            step.starts = starts_.data();
            step.depths = depths_.data();
            step.paths = paths_.data();
            step.longest = depth;
        }
        for (int64_t b = 0; b < sentences; ++b) keep_best(b, tokens, log_probs, parents);
    }

  private:
    // Adds the children of the i-th sentence's beam. Where it pays to go on from the best of them, they become the beam
    // of the `to`-th; returns whether they do.
    bool grow(int64_t i, int64_t to, int level, int64_t slot, const Candidates* found, const Confidence& confidence) {
        const int64_t b = numbers_[i];
        LevelNode* nodes = nodes_.data() + b * most_;
        const int64_t *beam = beams_.data() + i * breadth_, begin = sizes_[b], width = widths_[i];
        int64_t& size = sizes_[b];
        for (int64_t j = 0; j < width; ++j) {
            const LevelNode before = beam[j] ? nodes[beam[j] - 1] : LevelNode{0, 0, 0.0f, 0.0, 1.0};
            for (int k = 0; k < std::min(breadth_, found[j].count); ++k) {
                const float log_prob = found[j].values[k];
                const double chance = confidence.decides() ? confidence.chance(log_prob) : 1.0;
                nodes[size++] = {found[j].ids[k], static_cast<int32_t>(beam[j]), log_prob, before.total + log_prob,
                                 before.product * chance};
            }
        }
        const int64_t* order = sort(nodes, begin, size, breadth_);
        const int64_t best = std::min<int64_t>(breadth_, size - begin);
        double together = 0.0;
        places_.clear();
        for (int64_t j = 0; j < best; ++j) {
            const LevelNode& node = nodes[order[j]];
            if (!confidence.goes_on(1.0, node.token == end_)) continue;
            places_.push_back(order[j] + 1);
            together += node.product;
        }
        if (places_.empty() || !confidence.goes_on(together, false) || is_full(nodes, size, nodes[places_[0] - 1].total))
            return false;
        std::copy_n(paths_.data() + i * breadth_ * depth_, breadth_ * depth_, old_paths_.data());
        const int64_t next = static_cast<int64_t>(places_.size());
        for (int64_t j = 0; j < next; ++j) {
            const LevelNode& node = nodes[places_[j] - 1];
            window_[to * breadth_ + j] = node.token;
            depths_[to * breadth_ + j] = level;
            const int64_t parent = std::find(beam, beam + width, node.parent) - beam;
            int64_t* path = paths_.data() + (to * breadth_ + j) * depth_;
            std::copy_n(old_paths_.data() + parent * depth_, level, path);
            if (level < depth_) path[level] = slot + j;
        }
        std::copy_n(places_.data(), next, beams_.data() + to * breadth_);
        numbers_[to] = b;
        rows_[to] = rows_[i];
        starts_[to] = starts_[i];
        widths_[to] = next;
        return true;
    }

    // Whether no path that goes on from one of so much log-probability can be among the best that are kept.
    bool is_full(const LevelNode* nodes, int64_t size, double total) const {
        const auto better = [total](const LevelNode& node) { return node.total >= total; };
        return std::count_if(nodes, nodes + size, better) >= count_;
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

    void keep_best(int64_t b, int64_t* tokens, float* log_probs, int64_t* parents) {
        const LevelNode* nodes = nodes_.data() + b * most_;
        const int64_t* order = sort(nodes, 0, sizes_[b], count_);
        places_.assign(sizes_[b] + 1, 0);
        for (int64_t i = 0; i < count_; ++i) {
            const bool real = i < sizes_[b];
            const LevelNode node = real ? nodes[order[i]] : LevelNode{0, 0, -INFINITY, 0.0, 0.0};
            if (real) places_[order[i] + 1] = i + 1;
            tokens[b * count_ + i] = node.token;
            log_probs[b * count_ + i] = node.log_prob;
            parents[b * count_ + i] = places_[node.parent];  // a node is never likelier than its parent
        }
    }

    int64_t most_ = 0;  // nodes of a sentence
    int breadth_ = 0, depth_ = 0, count_ = 0;
    int64_t end_ = 0;
    Vector<LevelNode> nodes_;                 // (B, most)
    Vector<int64_t> sizes_;                   // (B) nodes
    Vector<int64_t> numbers_, rows_, starts_, widths_;  // (B) of sentences that go on; roots' positions, widths of beams
    Vector<int64_t> beams_, window_, depths_;           // (B, breadth) of these: node numbers, tokens, depths
    Vector<int64_t> paths_, old_paths_;       // (B, breadth, depth); of one sentence
    Vector<int64_t> order_, places_;
};

}  // namespace

// The fused loop: draft, verify, accept exactly, commit.

#pragma once

#include <chrono>
#include <numeric>

#include "ahead.h"

namespace {

constexpr std::chrono::milliseconds PATIENCE{50};  // after which the loop comes back, so that Python can hear signals

// What a run works with; kept from run to run.
struct Buffers {
    Vector<int64_t> rows, active;                     // that have not ended; that go on after an iteration
    Vector<int64_t> drafts, parents;                  // (B, N) of draft trees; of chains, none
    Vector<float> draft_log_probs;                    // (B, N)
    Vector<int64_t> fresh;                            // (B, M) committed tokens that the drafter has not read
    Vector<int64_t> window, places, depths, paths;    // (B, N + 1) last tokens and verified nodes, (…, K + 1)
    Vector<int64_t> starts, counts, last;             // (B)
    Vector<int64_t> own, renumbered;                  // (R) the verifier's tokens; (N + 1) places of drafted nodes
    Vector<double> products;                          // (N + 1) of chances
    Vector<float> logits, hidden;
    struct Emitted {
        float* logits;
        const Shortlist* list;
        int64_t token;
        float* log_prob;
    };
    Vector<Emitted> emitted;
    // Of the loop that drafts: how many tokens sentences have there, may have, and have been judged; their log-probabilities
    // and chances.
    Vector<int64_t> stage_lengths, stage_limits, judged;
    Vector<float> stage_log_probs;
    Vector<double> chances;

    // Those of a loop, and of the one that drafts for it.
    static Buffers& get(bool drafts = false) {
        static Buffers all[2];
        return all[drafts];
    }
};

class Runner {
  public:
    explicit Runner(const Run& run, bool drafts = false)
        : r(run),
          confidence{run.scale, run.shift, run.floor, run.margin},
          most(run.nodes ? run.nodes : run.block ? run.block : run.recalled),
          s(Buffers::get(drafts)) {}

    int run() {
        const auto began = std::chrono::steady_clock::now();
        s.rows.clear();
        for (int64_t b = 0; b < r.sentences; ++b) s.rows.push_back(b);
        int iteration = 0;
        while (iteration < r.iterations && goes_on()) {
            iterate(iteration++);
            if (std::chrono::steady_clock::now() - began >= PATIENCE) break;
        }
        return iteration;
    }

    // Goes on with some sentences for as long as each is likely enough to be what another verifier says.
    void run_while(const Vector<int64_t>& rows, const Confidence& doubts) {
        s.rows = rows;
        s.judged.assign(r.lengths, r.lengths + r.sentences);
        s.chances.assign(r.sentences, 1.0);
        for (int iteration = 0; !s.rows.empty(); ++iteration) {
            iterate(iteration);
            s.active.clear();
            for (const int64_t row : s.rows) {
                for (int64_t& i = s.judged[row]; i < r.lengths[row]; ++i)
                    if (doubts.decides()) s.chances[row] *= doubts.chance(r.log_probs[row * r.log_stride + i]);
                if (doubts.goes_on(s.chances[row], false)) s.active.push_back(row);
            }
            std::swap(s.rows, s.active);
        }
    }

  private:
    void iterate(int iteration) {
        drafted = r.block == 0 ? 0 : draft();
        if (r.hints) recall();
        lay_windows();
        verify();
        commit(iteration);
    }

    bool goes_on() const {
        if (r.sentences - static_cast<int>(s.rows.size()) >= r.enough) return false;
        return std::all_of(s.rows.begin(), s.rows.end(), [&](int64_t row) { return r.lengths[row] <= r.room; });
    }

    // Returns a step over the windows of the rows that have not ended.
    Step step_over(int64_t width, const Cache& self, const Cache& cross, const int64_t* sources,
                   const Shortlist* shortlists, int64_t stride) const {
        Step step{};
        step.threads = r.threads;
        step.sentences = static_cast<int32_t>(s.rows.size());
        step.width = static_cast<int32_t>(width);
        step.rows = s.rows.data();
        step.tokens = s.window.data();
        step.starts = s.starts.data();
        step.counts = s.counts.data();
        step.sources = sources;
        step.self = self;
        step.cross = cross;
        step.shortlists = shortlists;
        step.compact = true;
        step.stride = stride;
        step.logits = s.logits.data();
        return step;
    }

    // Drafts for all active sentences; returns how many nodes each has at most.
    int64_t draft() {
        const int64_t count = static_cast<int64_t>(s.rows.size());
        s.drafts.assign(count * most, r.filler);
        s.draft_log_probs.assign(count * most, 0.0f);
        if (r.nodes) s.parents.assign(count * most, 0);
        if (r.stage) return draft_staged();
        if (!r.drafter) return most;
        s.starts.clear(), s.counts.clear(), s.last.clear();
        for (const int64_t row : s.rows) {
            s.starts.push_back(r.seen[row]);
            s.counts.push_back(r.lengths[row] - r.seen[row]);
            s.last.push_back(r.tokens[row * r.stride + r.lengths[row] - 1]);
        }
        const int64_t width = *std::max_element(s.counts.begin(), s.counts.end());
        s.fresh.assign(count * width, 0);
        for (int64_t b = 0; b < count; ++b)
            std::copy_n(r.tokens + s.rows[b] * r.stride + s.starts[b], s.counts[b], s.fresh.data() + b * width);
        const int64_t stride = compact_stride(*r.drafter, r.draft_shortlists, s.rows);
        fit(s.logits, count * (r.choice ? r.block : r.nodes ? r.breadth : 1) * stride);
        Step step = step_over(width, r.draft_self, r.draft_cross, r.draft_sources, r.draft_shortlists, stride);
        step.tokens = s.fresh.data();
        int64_t made = most;
        if (r.choice) {
            draft_masked(step);
        } else {
            step.wanted = LAST;
            if (r.nodes)
                LevelTrees::get().run(*r.drafter, step, r.block, r.breadth, r.nodes, r.end, confidence, s.drafts.data(),
                                      s.draft_log_probs.data(), s.parents.data());
            else
                made = run_ahead(*r.drafter, step, r.block, r.end, s.drafts.data(), s.draft_log_probs.data(), confidence);
        }
        for (const int64_t row : s.rows) r.seen[row] = r.lengths[row];
        return made;
    }

    // Lets another loop go on with the committed tokens. It leaves keys and values of its own behind them, in the places that
    // verifying fills.
    int64_t draft_staged() {
        s.stage_lengths.assign(r.lengths, r.lengths + r.sentences);
        s.stage_limits.resize(r.sentences);
        for (int b = 0; b < r.sentences; ++b) s.stage_limits[b] = std::min(r.limits[b], r.lengths[b] + most);
        fit(s.stage_log_probs, r.sentences * r.stride);
        Run stage = *r.stage;
        stage.lengths = s.stage_lengths.data();
        stage.limits = s.stage_limits.data();
        stage.log_probs = s.stage_log_probs.data();
        stage.log_stride = r.stride;
        stage.drafted = stage.accepted = nullptr;
        Runner(stage, true).run_while(s.rows, confidence);
        int64_t made = 0;
        for (size_t b = 0; b < s.rows.size(); ++b) {
            const int64_t row = s.rows[b], first = row * r.stride + r.lengths[row];
            const int64_t count = s.stage_lengths[row] - r.lengths[row];
            std::copy_n(r.tokens + first, count, s.drafts.data() + b * most);
            float* log_probs = s.draft_log_probs.data() + b * most;
            std::fill_n(std::copy_n(s.stage_log_probs.data() + first, count, log_probs), most - count, -INFINITY);
            made = std::max(made, count);
        }
        return made;
    }

    void draft_masked(Step& step) {
        fit(s.hidden, static_cast<int64_t>(s.rows.size()) * r.block * r.drafter->width);
        step.wanted = SLOTS;
        step.slots = r.block;
        step.hidden = s.hidden.data();
        run_step(*r.drafter, step);
        Draft choice = *r.choice;
        choice.threads = r.threads;
        choice.sentences = step.sentences;
        choice.slots = r.block;
        choice.nodes = r.nodes;
        choice.breadth = r.breadth;
        choice.stride = step.stride;
        choice.shortlists = r.draft_shortlists;
        choice.rows = s.rows.data();
        choice.logits = s.logits.data();
        choice.hidden = s.hidden.data();
        choice.last = s.last.data();
        choice.tokens = s.drafts.data();
        choice.log_probs = s.draft_log_probs.data();
        choice.parents = r.nodes ? s.parents.data() : nullptr;
        run_draft(choice);
    }

    // Puts in the place of drafts what hints go on with behind the last two tokens, where they have those.
    void recall() {
        const int64_t count = static_cast<int64_t>(s.rows.size()), room = r.block ? drafted : most;
        const int64_t longest = r.nodes ? std::min<int64_t>(room, r.block) : room;
        if (r.block == 0) {
            s.drafts.assign(count * most, r.filler);
            s.draft_log_probs.assign(count * most, -INFINITY);
        }
        for (int64_t b = 0; b < count; ++b) {
            const int64_t row = s.rows[b], length = r.lengths[row];
            if (length < 2 || r.hint_lengths[row] == 0) continue;
            const int64_t *hint = r.hints + row * r.hint_stride, *end = hint + r.hint_lengths[row];
            const int64_t* last = r.tokens + row * r.stride + length - 2;
            const int64_t* found = std::search(hint, end, last, last + 2);
            const int64_t known = std::min(longest, end - found - 2);
            if (known <= 0) continue;
            std::copy_n(found + 2, known, s.drafts.data() + b * most);
            float* log_probs = s.draft_log_probs.data() + b * most;
            std::fill_n(std::fill_n(log_probs, known, 0.0f), room - known, -INFINITY);
            if (r.nodes) std::iota(s.parents.data() + b * most, s.parents.data() + b * most + known, 0);
            drafted = std::max(drafted, known);
        }
    }

    // Lays out the windows: last committed tokens, and the nodes that are worth verifying. Of each window's places it
    // notes the place before, and of trees the whole path.
    void lay_windows() {
        const int64_t count = static_cast<int64_t>(s.rows.size()), width = drafted + 1, longest = r.block + 1;
        s.starts.resize(count);
        s.counts.resize(count);
        fit(s.window, count * width);
        fit(s.places, count * width);
        if (r.nodes) fit(s.depths, count * width), fit(s.paths, count * width * longest);
        fit(s.renumbered, width);
        fit(s.products, width);
        for (int64_t b = 0; b < count; ++b) {
            const int64_t row = s.rows[b], *tokens = s.drafts.data() + b * most, *parents = nullptr;
            if (r.nodes) parents = s.parents.data() + b * most;
            const float* log_probs = s.draft_log_probs.data() + b * most;
            int64_t *window = s.window.data() + b * width, *places = s.places.data() + b * width, kept = 0;
            int64_t *depths = nullptr, *paths = nullptr;
            if (r.nodes) depths = s.depths.data() + b * width, paths = s.paths.data() + b * width * longest;
            s.starts[b] = r.lengths[row] - 1;
            window[0] = r.tokens[row * r.stride + s.starts[b]];
            s.products[0] = 1.0;
            s.renumbered[0] = 0;
            if (r.nodes) depths[0] = paths[0] = 0;
            for (int64_t node = 1; node <= drafted; ++node) {
                const int64_t parent = r.nodes ? parents[node - 1] : node - 1;
                const float log_prob = log_probs[node - 1];
                s.products[node] = s.products[parent];
                const bool ended = parent > 0 && tokens[parent - 1] == r.end;
                // How sure a tree must be to go on was asked when it was drafted.
                const bool follows = confidence.goes_on(r.nodes ? 1.0 : s.products[parent], ended);
                if (confidence.decides()) s.products[node] *= confidence.chance(log_prob);
                if (log_prob == -INFINITY || !follows || !confidence.is_enough(s.products[node])) {
                    s.products[node] = 0.0;
                    if (r.nodes) continue;
                    break;
                }
                const int64_t place = s.renumbered[node] = ++kept, before = s.renumbered[parent];
                window[place] = tokens[node - 1];
                places[place] = before;
                if (!r.nodes) continue;
                const int64_t depth = depths[place] = depths[before] + 1;
                std::copy_n(paths + before * longest, depth, paths + place * longest);
                paths[place * longest + depth] = place;
            }
            s.counts[b] = kept + 1;
        }
    }

    // Finds the verifier's own tokens after each place of the windows.
    void verify() {
        const int64_t stride = compact_stride(*r.verifier, r.shortlists, s.rows);
        int64_t rows = 0;
        for (const int64_t count : s.counts) rows += count;
        fit(s.logits, rows * stride);
        fit(s.own, rows);
        Step step = step_over(drafted + 1, r.self, r.cross, r.sources, r.shortlists, stride);
        step.best = s.own.data();
        step.best_alone = !r.log_probs && r.tolerance == 0.0f;
        if (r.nodes && drafted) {
            step.depths = s.depths.data();
            step.paths = s.paths.data();
            step.longest = r.block + 1;
        }
        run_step(*r.verifier, step);
    }

    // Takes the drafts that are what the verifier says, and its next token.
    void commit(int iteration) {
        s.active.clear();
        s.emitted.clear();
        const int64_t stride = compact_stride(*r.verifier, r.shortlists, s.rows);
        int64_t first = 0;  // row of the window
        for (size_t b = 0; b < s.rows.size(); ++b) {
            const int64_t row = s.rows[b], start = s.starts[b], *own = s.own.data() + first;
            const int64_t *window = s.window.data() + b * (drafted + 1), *places = s.places.data() + b * (drafted + 1);
            int64_t stands = 0, place = 0;
            bool ended = false;
            for (;;) {
                int64_t& length = r.lengths[row];
                float* logits = s.logits.data() + (first + place) * stride;
                const Shortlist* list = shortlist_of(r.shortlists, row);
                int64_t next = s.counts[b];
                int least = r.tolerance == 0.0f ? 1 : r.beta;  // ranks under it stand; the best of them is taken
                for (int64_t node = place + 1; node < s.counts[b] && least > 0; ++node) {
                    if (places[node] != place) continue;
                    const bool best = window[node] == own[place];
                    const int rank = best ? 0 : rank_within(logits, list, own[place], window[node], least);
                    if (rank < least) next = node, least = rank;
                }
                const int64_t said = next == s.counts[b] ? own[place] : window[next];
                if (r.log_probs)
                    s.emitted.push_back({logits, list, said, r.log_probs + row * r.log_stride + length});
                r.tokens[row * r.stride + length++] = said;
                ended = said == r.end || length >= r.limits[row];
                if (next == s.counts[b]) break;
                ++stands;  // accepted, even if there is no room for what follows it
                if (ended) break;
                if (next != stands) keep(row, start + next, start + stands);
                place = next;
            }
            const int64_t index = iteration * static_cast<int64_t>(r.sentences) + row;
            if (r.drafted) r.drafted[index] = s.counts[b] - 1;
            if (r.accepted) r.accepted[index] = stands;
            // What drafts for the loop that drafts read on; the last token may be another one now.
            if (r.stage && r.stage->seen) r.stage->seen[row] = std::min(r.stage->seen[row], r.lengths[row] - 1);
            first += s.counts[b];
            if (!ended) s.active.push_back(row);
        }
        std::swap(s.rows, s.active);
        find_log_probs();
    }

    // The rank of a token that is not the best, or so many if it is too bad.
    int rank_within(const float* logits, const Shortlist* list, int64_t best, int64_t token, int least) const {
        if (least == 1) return least;
        const int count = list ? list->count : r.verifier->vocab;
        if (list) {
            const auto place_of = [&](int64_t id) { return std::lower_bound(list->ids, list->ids + count, id) - list->ids; };
            const int64_t place = place_of(token);
            if (place == count || list->ids[place] != token) return least;
            token = place, best = place_of(best);
        }
        return logits[best] - logits[token] <= r.tolerance ? rank_of(logits, count, token) : least;
    }

    // Moves what is kept of a node to where a chain would have it.
    void keep(int64_t row, int64_t from, int64_t to) const {
        const Network& n = *r.verifier;
        const int64_t size = n.width / n.heads * r.self.bytes;
        for (int l = 0; l < n.layers; ++l)
            for (int plane = 0; plane < r.self.planes; ++plane)
                for (int h = 0; h < n.heads; ++h) {
                    const int64_t begin = l * r.self.layer + plane * r.self.value + row * r.self.row + h * r.self.head;
                    char* place = static_cast<char*>(r.self.data) + begin * r.self.bytes;
                    std::memcpy(place + to * size, place + from * size, size);
                }
    }

    void find_log_probs() {
        if (!r.log_probs) return;
        for_each(r.threads, static_cast<int>(s.emitted.size()), [&](int i, int) {
            const auto& [logits, list, token, log_prob] = s.emitted[i];
            *log_prob = log_prob_of(logits, r.verifier->vocab, list, token);
        });
    }

    const Run& r;
    const Confidence confidence;
    const int64_t most;   // nodes that a sentence may get
    int64_t drafted = 0;  // that they have at most
    Buffers& s;
};

}  // namespace

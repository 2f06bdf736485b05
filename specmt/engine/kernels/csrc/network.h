// Encoder and decoder stacks.

#pragma once

#include "projection.h"

namespace {

template <class V>
void add_scaled(const V* x, float scale, const float* y, int width, float* out) {
    const Floats factor = floats(scale);
    for (int i = 0; i < width; i += LANES) store(out + i, fma(load(x + i), factor, load(y + i)));
}

// Makes room for stacks over so many rows.
template <class T>
void reserve(const Network& n, int64_t rows, int64_t longest, int threads) {
    Scratch& s = scratch();
    fit(s.x, rows * n.width);
    fit(s.projected, rows * 3 * n.width);
    fit(s.attended, rows * n.width);
    fit(s.inner, rows * std::max(n.ffn, n.width));
    if (static_cast<int>(s.own.size()) < threads) s.own.resize(threads);
    const auto reserve_rows = [&](Inputs& inputs) {
        inputs.rows.reserve<T>(rows, std::max(n.ffn, n.width));
        fit(inputs.normed, rows * n.width);
    };
    if (rows >= MANY_ROWS) reserve_rows(s.inputs);
    for (int thread = 0; thread < threads; ++thread) {
        Own& own = s.own[thread];
        if (rows < MANY_ROWS) reserve_rows(own.inputs);
        else own.inner.reserve<T>(FFN_ROWS, n.ffn);
        fit(own.scores, TOGETHER * (longest + LANES));
    }
}

// Where a cell lies, and the one before it; null for none.
struct Cell {
    const float* before;
    float* own;
};

// What one thread does of a stack. Where rows are few, every thread normalises and converts all of them for itself, which
// saves a barrier.
template <class T>
struct Worker {
    const Network& n;
    const Part part;
    const int rows;
    const int64_t longest;
    Scratch& s = scratch();
    Own& own = part.own();
    const bool shared = rows >= MANY_ROWS;
    Inputs& inputs = shared ? s.inputs : own.inputs;
    // Threads that have heads of their own wait for nobody from what those are computed from to what comes of them.
    const bool own_heads = part.alone || n.heads % part.threads == 0;
    const Range heads = own_heads ? part.of(n.heads) : Range{0, n.heads};
    const int64_t first;  // of its rows, among those that there is room for
    float *normed, *x, *projected, *attended, *inner;

    Worker(const Network& n, Part part, int rows, int64_t longest, int64_t first = 0)
        : n(n),
          part(part),
          rows(rows),
          longest(longest + LANES),
          first(first),
          normed(inputs.normed.data() + first * n.width),
          x(s.x.data() + first * n.width),
          projected(s.projected.data() + first * 3 * n.width),
          attended(s.attended.data() + first * n.width),
          inner(s.inner.data() + first * n.ffn) {}

    // Of so many rows, those that this thread prepares.
    Range prepared(int count) const { return shared ? part.of(count) : Range{0, count}; }

    // What is normalised is there for all threads once it is converted.
    void normalise(const Norm& norm) {
        normalise(norm, rows, [](int64_t r) { return r; });
    }

    template <class RowOf>
    void normalise(const Norm& norm, int count, RowOf row_of) {
        const Range mine = prepared(count);
        for (int64_t i = mine.begin; i < mine.end; ++i) {
            const float* from = &x[row_of(i) * n.width];
            if (norm.weight) layer_norm(from, norm.weight, norm.bias, n.epsilon, n.width, normed + i * n.width);
            else std::copy_n(from, n.width, normed + i * n.width);
        }
    }

    template <class Token, class Position>
    void embed(Token token_of, Position position_of) {
        const Range mine = part.of(rows);
        for (int r = mine.begin; r < mine.end; ++r) {
            const int64_t token = token_of(r);
            // A window may reach past the last position; what lies there is never committed.
            const float* place = n.positions + std::min<int64_t>(position_of(r), n.places - 1) * n.width;
            float* out = &x[static_cast<int64_t>(r) * n.width];
            const auto look_up = [&](const auto* table) {
                add_scaled(table + token * n.width, n.scale, place, n.width, out);
            };
            if (n.mask && token == n.vocab) add_scaled(n.mask, 1.0f, place, n.width, out);
            else with_floats(n.table_type, n.table, look_up);
        }
        part.sync();
    }

    // What the outputs of sublayers are added to.
    const float* residual() const { return n.post ? normed : x; }

    Rows<T> convert(const float* from, int width) { return convert(from, rows, width); }

    Rows<T> convert(const float* from, int count, int width) {
        const Rows<T> converted = inputs.rows.template convert<T>(from, prepared(count), width, first);
        if (shared) part.sync();
        return converted;
    }

    void from_normed(const Linear& linear, float* out, int64_t stride) {
        from_normed(linear, {0, linear.outputs / LANES}, out, stride);
    }

    // The outputs of some panels alone.
    void from_normed(const Linear& linear, Range panels, float* out, int64_t stride) {
        const Range mine = part.of(panels.end - panels.begin);
        multiply<T>(rows, convert(normed, n.width), linear, {panels.begin + mine.begin, panels.begin + mine.end}, {}, out,
                    stride);
        part.sync();
    }

    // Queries, or queries, keys and values, of the heads that this thread attends with, or of a share of all.
    void project_heads(const Linear& linear, int64_t stride) {
        if (!own_heads) return from_normed(linear, projected, stride);
        const Rows<T> x = convert(normed, n.width);
        const int size = n.width / n.heads / LANES, all = n.width / LANES;
        for (int begin = 0; begin < linear.outputs / LANES; begin += all)
            multiply<T>(rows, x, linear, {begin + heads.begin * size, begin + heads.end * size}, {}, projected, stride);
    }

    // Keys and values of a row and head, and how far away those are that are wanted next.
    template <class K>
    KeysValues<K> kept(const K* layer, const Cache& cache, int64_t row, int h) const {
        const K* keys = layer + row * cache.row + h * cache.head;
        const int64_t next = h + 1 < heads.end ? cache.head : cache.row - (heads.end - heads.begin - 1) * cache.head;
        return {keys, keys + cache.value, n.width / n.heads, next};
    }

    void add_attended(const Linear& linear) {
        multiply<T>(rows, convert(attended, n.width), linear, part.panels(linear), {false, residual()}, x, n.width);
        part.sync();
    }

    void ffn(const Layer& layer) {
        normalise(layer.ffn_norm);
        const Rows<T> all = convert(normed, n.width);
        const Range panels = part.panels(layer.ffn_in);
        const int step = part.alone ? FFN_ROWS : rows;
        for (int row = 0; row < rows; row += step) {
            const int count = std::min(step, rows - row);
            multiply<T>(count, all.from(row), layer.ffn_in, panels, {n.activation == RELU}, inner, n.ffn);
            if (n.activation == SWISH) apply(Swish{}, count, panels);
            if (n.activation == GELU) apply(Gelu{}, count, panels);
            part.sync();
            const Rows<T> converted =
                part.alone ? own.inner.template convert<T>(inner, {0, count}, n.ffn) : convert(inner, count, n.ffn);
            multiply<T>(count, converted, layer.ffn_out, part.panels(layer.ffn_out), {false, residual() + row * n.width},
                        x + row * n.width, n.width);
            part.sync();
        }
    }

    // An SSRU: c ← σ(f) c + (1 − σ(f)) W x along each branch, of which relu(c) is added (Kim et al. 2019, section 3.1). Tokens
    // come behind those that they follow; threads share the units of all sentences.
    template <class CellOf>
    void add_recurrent(const Linear& linear, const Vector<int>& starts, CellOf cell_of) {
        const Floats zero = floats(0.0f);
        const int64_t wide = 2 * n.width;
        const int panels = n.width / LANES;
        from_normed(linear, projected, wide);
        const Range mine = part.of(static_cast<int>(starts.size() - 1) * panels);
        for (int item = mine.begin; item < mine.end; ++item) {
            const int b = item / panels, i = item % panels * LANES;
            for (int64_t r = starts[b]; r < starts[b + 1]; ++r) {
                const float* place = &projected[r * wide + i];
                const Floats forget = sigmoid(load(place)), fresh = load(place + n.width);
                const auto [before, own] = cell_of(r, i);
                const Floats cell = fma(forget, subtract(before ? load(before) : zero, fresh), fresh);
                store(own, cell);
                const int64_t sum = r * n.width + i;
                store(&x[sum], add(load(residual() + sum), larger(cell, zero)));
            }
        }
        part.sync();
    }

    template <class F>
    void apply(F f, int count, Range panels) {
        for (int r = 0; r < count; ++r)
            for (int panel = panels.begin; panel < panels.end; ++panel) {
                float* place = &inner[static_cast<int64_t>(r) * n.ffn + panel * LANES];
                store(place, f(load(place)));
            }
    }

    // Works out attention on a share of all rows and heads, for some rows of a sentence at a time.
    template <class KeysOf, class SeenBy>
    void attend(const Vector<int>& starts, int64_t wide, KeysOf keys_of, SeenBy seen_by) {
        attend(starts, {0, static_cast<int>(starts.size()) - 1}, wide, keys_of, seen_by);
    }

    template <class KeysOf, class SeenBy>
    void attend(const Vector<int>& starts, Range sentences, int64_t wide, KeysOf keys_of, SeenBy seen_by) {
        const int size = n.width / n.heads;
        const int all = rows * (heads.end - heads.begin);
        const Range mine = own_heads ? Range{0, all} : part.of(all);
        int items = 0;
        for (int b = sentences.begin; b < sentences.end; ++b) {
            const int count = starts[b + 1] - starts[b];
            for (int h = heads.begin; h < heads.end; ++h, items += count) {
                const int end = std::min(mine.end - items, count);
                for (int i = std::max(mine.begin - items, 0); i < end; i += TOGETHER) {
                    const int64_t row = starts[b] - starts[sentences.begin] + i;
                    Seen seen[TOGETHER];
                    for (int r = 0; r < std::min(TOGETHER, end - i); ++r) seen[r] = seen_by(row + r);
                    const Queries queries{&projected[row * wide + h * size], wide, own.scores.data(), longest,
                                          &attended[row * n.width + h * size], n.width};
                    ::attend(size, queries, keys_of(row, h), seen, std::min(TOGETHER, end - i));
                }
            }
        }
        part.sync();
    }
};

// Lays out the rows of a step; returns the most keys that one of them sees.
int64_t lay_out(const Network& n, const Step& step, Layout& layout) {
    layout.clear();
    int64_t longest = 0;
    const auto add = [&](const Place& place, bool wanted) {
        layout.add(place, wanted);
        longest = std::max<int64_t>({longest, place.seen.count(), step.sources[place.row]});
    };
    for (int64_t b = 0; b < step.sentences; ++b) {
        layout.mark();
        const int64_t row = step.rows ? step.rows[b] : b;
        const int64_t first = step.starts[b], end = first + (step.counts ? step.counts[b] : step.width);
        for (int64_t p = first; p < end; ++p) {
            const int64_t item = b * step.width + p - first;
            Place place{step.tokens[item], row, p, p, {static_cast<int>(p) + 1}};
            if (step.paths) {
                place.position = first + step.depths[item];
                place.slot = p + step.first;
                place.seen = {static_cast<int>(first), step.paths + item * step.longest,
                              static_cast<int>(step.depths[item]) + 1};
            }
            add(place, step.wanted == ALL || (step.wanted == LAST && p == end - 1));
        }
        for (int64_t p = end; p < end + step.slots; ++p)
            add({n.vocab, row, p, p, {static_cast<int>(end) + step.slots}}, step.wanted == SLOTS);
    }
    layout.mark();
    return longest;
}

template <class T>
void step_part(const Network& n, const Step& step, const Layout& layout, int64_t longest, Part part) {
    using Kept = typename T::Kept;
    const Vector<Place>& places = layout.places;
    const int rows = static_cast<int>(places.size());
    Worker<T> w(n, part, rows, longest);
    const int size = n.width / n.heads;
    w.embed([&](int r) { return places[r].token; }, [&](int r) { return places[r].position; });
    for (int l = 0; l < n.layers; ++l) {
        const Layer& layer = n.layer[l];
        const Kept* cross = static_cast<const Kept*>(step.cross.data) + l * step.cross.layer;
        const int64_t wide = 3 * n.width;

        w.normalise(layer.attention_norm);
        if (layer.ssru.weight) {
            float* cells = static_cast<float*>(step.self.data) + l * step.self.layer;
            w.add_recurrent(layer.ssru, layout.starts, [&](int64_t r, int i) {
                const Seen& seen = places[r].seen;
                float* row = cells + places[r].row * step.self.row + i / size * step.self.head + i % size;
                const float* before = seen.count() > 1 ? row + seen.place(seen.count() - 2) * size : nullptr;
                return Cell{before, row + places[r].slot * size};
            });
        } else {
            Kept* self = static_cast<Kept*>(step.self.data) + l * step.self.layer;
            w.project_heads(layer.qkv, wide);
            const Range mine = w.own_heads ? Range{0, rows} : part.of(rows);
            for (int r = mine.begin; r < mine.end; ++r)
                for (int h = w.heads.begin; h < w.heads.end; ++h) {
                    Kept* place = self + places[r].row * step.self.row + h * step.self.head + places[r].slot * size;
                    const float* from = &w.projected[r * wide + n.width + h * size];
                    copy(from, place, size);
                    copy(from + n.width, place + step.self.value, size);
                }
            if (!w.own_heads) part.sync();
            w.attend(layout.starts, wide, [&](int64_t r, int h) { return w.kept(self, step.self, places[r].row, h); },
                     [&](int64_t r) { return places[r].seen; });
            w.add_attended(layer.attention_out);
        }

        w.normalise(layer.cross_norm);
        w.project_heads(layer.cross_query, wide);
        w.attend(layout.starts, wide, [&](int64_t r, int h) { return w.kept(cross, step.cross, places[r].row, h); },
                 [&](int64_t r) { return Seen{static_cast<int>(step.sources[places[r].row])}; });
        w.add_attended(layer.cross_out);
        w.ffn(layer);
    }
    // Only rows whose logits are wanted are projected to the vocabulary.
    const int wanted = static_cast<int>(layout.wanted.size());
    w.normalise(n.norm, wanted, [&](int64_t i) { return layout.wanted[i]; });
    const Rows<T> x = w.convert(w.normed, wanted, n.width);
    if (step.hidden && part.thread == 0) std::copy_n(w.normed, static_cast<int64_t>(wanted) * n.width, step.hidden);
    if (step.best) choose<T>(part, n, step, layout, w.normed, x);
    else project<T>(part, n, step, layout, x);
}

// Runs a step whose rows are laid out, and see so many keys at most.
template <class T>
void run_laid_out(const Network& n, const Step& step, int64_t longest) {
    const Layout& layout = scratch().layout;
    const int64_t rows = static_cast<int64_t>(layout.places.size());
    reserve<T>(n, rows, longest, step.threads);
    for (int thread = 0; thread < step.threads; ++thread) {
        Own& own = scratch().own[thread];
        if (step.best_alone) {
            own.rough.reserve<Int8>(rows, n.width);
            fit(own.listed, rows * AT_A_TIME * LANES);
            fit(own.tops, rows);
        }
        for (int b = 0; step.shortlists && !step.compact && b < step.sentences; ++b) {
            const Shortlist* list = shortlist_of(step.shortlists, layout.places[layout.starts[b]].row);
            const int64_t count = layout.wanted_starts[b + 1] - layout.wanted_starts[b];
            if (list) fit(own.listed, count * list->project.outputs);
        }
    }
    in_parallel(step.threads,
                [&](int thread, int threads) { step_part<T>(n, step, layout, longest, {thread, threads}); });
}

constexpr int ENOUGH_ROWS = 64;  // for a thread that reads all weights for them alone

// A thread's share of sentences: from that which begins nearest to where its share of the rows begins.
Range share_sentences(const int64_t* starts, int sentences, int thread, int threads) {
    const auto nearest = [&](int64_t row) {
        const int64_t* next = std::lower_bound(starts, starts + sentences, row);
        return static_cast<int>(next - starts - (next > starts && row - next[-1] < *next - row));
    };
    const int64_t rows = starts[sentences];
    return {nearest(rows * thread / threads), nearest(rows * (thread + 1) / threads)};
}

// Calls f(part, sentences) in several threads. Each has sentences of its own where those are enough for it, and about as
// many as for the others: it waits for nobody, and what it works on stays in its cache. Else all work on all of them.
template <class F>
void over_sentences(int threads, const int64_t* starts, int sentences, F f) {
    in_parallel(threads, [&](int thread, int count) {
        bool alone = true;
        for (int each = 0; each < count; ++each) {
            const Range its = share_sentences(starts, sentences, each, count);
            const int64_t rows = starts[its.end] - starts[its.begin];
            alone = alone && rows >= ENOUGH_ROWS && rows * count * 4 <= starts[sentences] * 5;
        }
        f(Part{thread, count, alone}, alone ? share_sentences(starts, sentences, thread, count) : Range{0, sentences});
    });
}

template <class T>
void run_encoding(const Network& n, const Encoding& e) {
    Vector<int>&sentences = scratch().sentences, &starts = scratch().starts;
    int64_t longest = 0;
    sentences.clear();
    starts.assign(e.starts, e.starts + e.sentences + 1);
    for (int b = 0; b < e.sentences; ++b) {
        sentences.insert(sentences.end(), starts[b + 1] - starts[b], b);
        longest = std::max<int64_t>(longest, starts[b + 1] - starts[b]);
    }
    reserve<T>(n, e.rows, longest, e.threads);
    over_sentences(e.threads, e.starts, e.sentences, [&](const Part& part, Range some) {
        const int first = starts[some.begin], *sentence_of = sentences.data() + first;
        const int rows = starts[some.end] - first, size = n.width / n.heads;
        Worker<T> w(n, part, rows, longest, first);
        const int64_t wide = 3 * n.width;
        w.embed([&](int r) { return e.tokens[first + r]; }, [&](int r) { return first + r - starts[sentence_of[r]]; });
        for (int l = 0; l < n.layers; ++l) {
            const Layer& layer = n.layer[l];
            w.normalise(layer.attention_norm);
            w.project_heads(layer.qkv, wide);
            const auto keys_of = [&](int64_t r, int h) {
                const float* keys = &w.projected[(starts[sentence_of[r]] - first) * wide + n.width + h * size];
                return KeysValues<float>{keys, keys + n.width, wide, 0};
            };
            w.attend(starts, some, wide, keys_of,
                     [&](int64_t r) { return Seen{starts[sentence_of[r] + 1] - starts[sentence_of[r]]}; });
            w.add_attended(layer.attention_out);
            w.ffn(layer);
        }
        const Range mine = part.of(rows);
        for (int64_t r = mine.begin; r < mine.end; ++r)
            layer_norm(&w.x[r * n.width], n.norm.weight, n.norm.bias, n.epsilon, n.width, e.states + (first + r) * n.width);
    });
}

template <class T>
void run_crossing(const Network& n, const Crossing& c) {
    reserve<T>(n, c.rows, 0, c.threads);
    over_sentences(c.threads, c.starts, c.sentences, [&](const Part& part, Range some) {
        const int64_t first = c.starts[some.begin];
        const int rows = static_cast<int>(c.starts[some.end] - first), size = n.width / n.heads;
        Worker<T> w(n, part, rows, 0, first);
        const int64_t wide = 2 * n.width;  // keys and values
        const Rows<T> states = w.convert(c.states + first * n.width, n.width);
        for (int l = 0; l < n.layers; ++l) {
            const Linear& linear = n.layer[l].cross_key_value;
            multiply<T>(rows, states, linear, part.panels(linear), {}, w.projected, wide);
            part.sync();
            const Range mine = part.of(some.end - some.begin);
            for (int b = some.begin + mine.begin; b < some.begin + mine.end; ++b)
                for (int64_t r = c.starts[b]; r < c.starts[b + 1]; ++r)
                    for (int h = 0; h < n.heads; ++h) {
                        const float* from = &w.projected[(r - first) * wide + h * size];
                        auto* place = static_cast<typename T::Kept*>(c.cross.data) + l * c.cross.layer +
                                      c.places[b] * c.cross.row + h * c.cross.head + (r - c.starts[b]) * size;
                        copy(from, place, size);
                        copy(from + n.width, place + c.cross.value, size);
                    }
            part.sync();
        }
    });
}

// Calls f with a value of the type that a network is in.
template <class F>
void in_type_of(const Network& n, F f) {
    if (n.type == FLOAT32) f(Float32{});
    else if (n.type == BFLOAT16) f(BFloat16{});
    else if (n.type == INT8) f(Int8{});
    else f(Int4{});
}

void run_laid_out(const Network& n, const Step& step, int64_t longest) {
    in_type_of(n, [&]<class T>(T) { run_laid_out<T>(n, step, longest); });
}

void run_step(const Network& n, const Step& step) { run_laid_out(n, step, lay_out(n, step, scratch().layout)); }

}  // namespace

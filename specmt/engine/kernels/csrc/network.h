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
    fit(s.wide, rows * 3 * n.width);
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
    float* normed = inputs.normed.data();

    Worker(const Network& n, Part part, int rows, int64_t longest)
        : n(n), part(part), rows(rows), longest(longest + LANES) {}

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
            const float* from = &s.x[row_of(i) * n.width];
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
            float* out = &s.x[static_cast<int64_t>(r) * n.width];
            const auto look_up = [&](const auto* table) {
                add_scaled(table + token * n.width, n.scale, place, n.width, out);
            };
            if (n.mask && token == n.vocab) add_scaled(n.mask, 1.0f, place, n.width, out);
            else if (n.table_type == FLOAT16) look_up(static_cast<const Half*>(n.table));
            else if (n.table_type == BFLOAT16) look_up(static_cast<const uint16_t*>(n.table));
            else look_up(static_cast<const float*>(n.table));
        }
        part.sync();
    }

    // What the outputs of sublayers are added to.
    const float* residual() const { return n.post ? normed : s.x.data(); }

    Rows<T> convert(const float* from, int width) { return convert(from, rows, width); }

    Rows<T> convert(const float* from, int count, int width) {
        const Rows<T> converted = inputs.rows.template convert<T>(from, prepared(count), width);
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

    void add_attended(const Linear& linear) {
        multiply<T>(rows, convert(s.attended.data(), n.width), linear, part.panels(linear), {false, residual()},
                    s.x.data(), n.width);
        part.sync();
    }

    void ffn(const Layer& layer) {
        normalise(layer.ffn_norm);
        multiply<T>(rows, convert(normed, n.width), layer.ffn_in, part.panels(layer.ffn_in), {n.activation == RELU},
                    s.inner.data(), n.ffn);
        if (n.activation == SWISH) apply(Swish{}, part.panels(layer.ffn_in));
        if (n.activation == GELU) apply(Gelu{}, part.panels(layer.ffn_in));
        part.sync();
        multiply<T>(rows, convert(s.inner.data(), n.ffn), layer.ffn_out, part.panels(layer.ffn_out),
                    {false, residual()}, s.x.data(), n.width);
        part.sync();
    }

    // An SSRU: c ← σ(f) c + (1 − σ(f)) W x along each branch, of which relu(c) is added (Kim et al. 2019, section 3.1). Tokens
    // come behind those that they follow; threads share the units of all sentences.
    template <class CellOf>
    void add_recurrent(const Linear& linear, const Vector<int>& starts, CellOf cell_of) {
        const Floats zero = floats(0.0f);
        const int64_t wide = 2 * n.width;
        const int panels = n.width / LANES;
        from_normed(linear, s.wide.data(), wide);
        const Range mine = part.of(static_cast<int>(starts.size() - 1) * panels);
        for (int item = mine.begin; item < mine.end; ++item) {
            const int b = item / panels, i = item % panels * LANES;
            for (int64_t r = starts[b]; r < starts[b + 1]; ++r) {
                const Floats forget = sigmoid(load(&s.wide[r * wide + i])), fresh = load(&s.wide[r * wide + n.width + i]);
                const auto [before, own] = cell_of(r, i);
                const Floats cell = fma(forget, subtract(before ? load(before) : zero, fresh), fresh);
                store(own, cell);
                const int64_t place = r * n.width + i;
                store(&s.x[place], add(load(residual() + place), larger(cell, zero)));
            }
        }
        part.sync();
    }

    template <class F>
    void apply(F f, Range panels) {
        for (int r = 0; r < rows; ++r)
            for (int panel = panels.begin; panel < panels.end; ++panel) {
                float* place = &s.inner[static_cast<int64_t>(r) * n.ffn + panel * LANES];
                store(place, f(load(place)));
            }
    }

    // Works out attention on a share of all rows and heads, for some rows of a sentence at a time.
    template <class KeysOf, class SeenBy>
    void attend(const Vector<int>& starts, int64_t wide, KeysOf keys_of, SeenBy seen_by) {
        const int size = n.width / n.heads;
        const Range mine = part.of(rows * n.heads);
        int items = 0;
        for (size_t b = 0; b + 1 < starts.size(); ++b) {
            const int count = starts[b + 1] - starts[b];
            for (int h = 0; h < n.heads; ++h, items += count) {
                const int end = std::min(mine.end - items, count);
                for (int i = std::max(mine.begin - items, 0); i < end; i += TOGETHER) {
                    const int64_t row = starts[b] + i;
                    Seen seen[TOGETHER];
                    for (int r = 0; r < std::min(TOGETHER, end - i); ++r) seen[r] = seen_by(row + r);
                    const Queries queries{&s.wide[row * wide + h * size], wide, own.scores.data(), longest,
                                          &s.attended[row * n.width + h * size], n.width};
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
    Scratch& s = w.s;
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
            w.from_normed(layer.qkv, s.wide.data(), wide);
            const Range mine = part.of(rows);
            for (int r = mine.begin; r < mine.end; ++r)
                for (int h = 0; h < n.heads; ++h) {
                    Kept* place = self + places[r].row * step.self.row + h * step.self.head + places[r].slot * size;
                    const float* from = &s.wide[r * wide + n.width + h * size];
                    copy(from, place, size);
                    copy(from + n.width, place + step.self.value, size);
                }
            part.sync();
            const auto self_of = [&](int64_t r, int h) {
                const Kept* keys = self + places[r].row * step.self.row + h * step.self.head;
                return KeysValues<Kept>{keys, keys + step.self.value, size, step.self.head};
            };
            w.attend(layout.starts, wide, self_of, [&](int64_t r) { return places[r].seen; });
            w.add_attended(layer.attention_out);
        }

        w.normalise(layer.cross_norm);
        w.from_normed(layer.cross_query, s.wide.data(), wide);
        const auto cross_of = [&](int64_t r, int h) {
            const Kept* keys = cross + places[r].row * step.cross.row + h * step.cross.head;
            return KeysValues<Kept>{keys, keys + step.cross.value, size, step.cross.head};
        };
        w.attend(layout.starts, wide, cross_of,
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

template <class T>
void run_step(const Network& n, const Step& step) {
    Layout& layout = scratch().layout;
    const int64_t longest = lay_out(n, step, layout), rows = static_cast<int64_t>(layout.places.size());
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

template <class T>
void run_encoding(const Network& n, const Encoding& e) {
    Scratch& s = scratch();
    Vector<int>&sentences = s.sentences, &starts = s.starts;
    int64_t longest = 0;
    sentences.clear();
    starts.assign(e.starts, e.starts + e.sentences + 1);
    for (int b = 0; b < e.sentences; ++b) {
        sentences.insert(sentences.end(), starts[b + 1] - starts[b], b);
        longest = std::max<int64_t>(longest, starts[b + 1] - starts[b]);
    }
    reserve<T>(n, e.rows, longest, e.threads);
    in_parallel(e.threads, [&](int thread, int threads) {
        const Part part{thread, threads};
        Worker<T> w(n, part, e.rows, longest);
        const int size = n.width / n.heads;
        const int64_t wide = 3 * n.width;
        w.embed([&](int r) { return e.tokens[r]; }, [&](int r) { return r - starts[sentences[r]]; });
        for (int l = 0; l < n.layers; ++l) {
            const Layer& layer = n.layer[l];
            w.normalise(layer.attention_norm);
            w.from_normed(layer.qkv, s.wide.data(), wide);
            const auto keys_of = [&](int64_t r, int h) {
                const float* keys = &s.wide[starts[sentences[r]] * wide + n.width + h * size];
                return KeysValues<float>{keys, keys + n.width, wide, 0};
            };
            w.attend(starts, wide, keys_of,
                     [&](int64_t r) { return Seen{starts[sentences[r] + 1] - starts[sentences[r]]}; });
            w.add_attended(layer.attention_out);
            w.ffn(layer);
        }
        const Range mine = part.of(e.rows);
        for (int64_t r = mine.begin; r < mine.end; ++r)
            layer_norm(&s.x[r * n.width], n.norm.weight, n.norm.bias, n.epsilon, n.width, e.states + r * n.width);
    });
}

template <class T>
void run_crossing(const Network& n, const Crossing& c) {
    reserve<T>(n, c.rows, 0, c.threads);
    in_parallel(c.threads, [&](int thread, int threads) {
        const Part part{thread, threads};
        Worker<T> w(n, part, c.rows, 0);
        float* both = w.s.wide.data();  // keys and values
        const int size = n.width / n.heads;
        const int64_t wide = 2 * n.width;
        const Rows<T> states = w.convert(c.states, n.width);
        for (int l = 0; l < n.layers; ++l) {
            const Linear& linear = n.layer[l].cross_key_value;
            multiply<T>(c.rows, states, linear, part.panels(linear), {}, both, wide);
            part.sync();
            const Range mine = part.of(c.sentences);
            for (int b = mine.begin; b < mine.end; ++b)
                for (int64_t r = c.starts[b]; r < c.starts[b + 1]; ++r)
                    for (int h = 0; h < n.heads; ++h) {
                        auto* place = static_cast<typename T::Kept*>(c.cross.data) + l * c.cross.layer +
                                      c.places[b] * c.cross.row + h * c.cross.head + (r - c.starts[b]) * size;
                        copy(both + r * wide + h * size, place, size);
                        copy(both + r * wide + n.width + h * size, place + c.cross.value, size);
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

void run_step(const Network& n, const Step& step) {
    in_type_of(n, [&]<class T>(T) { run_step<T>(n, step); });
}

}  // namespace

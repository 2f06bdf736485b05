// Attention to the source by some heads of a decoder layer, for targets that are known: layers up to that one are run
// over all tokens at once, with keys and values, or cells, that nobody keeps.

#pragma once

#include "network.h"

namespace {

template <class T>
void run_alignment(const Network& n, const Alignment& a) {
    using Kept = typename T::Kept;
    Vector<int>&sentences = scratch().sentences, &starts = scratch().starts;
    sentences.clear();
    starts.assign(a.starts, a.starts + a.sentences + 1);
    int64_t longest = 0;
    for (int b = 0; b < a.sentences; ++b) {
        sentences.insert(sentences.end(), starts[b + 1] - starts[b], b);
        longest = std::max<int64_t>({longest, starts[b + 1] - starts[b], a.sources[a.places[b]]});
    }
    const int rows = starts[a.sentences], size = n.width / n.heads;
    int first = n.heads, last = 0;  // of the heads that are read
    for (int h = 0; h < n.heads; ++h)
        if (a.heads[h]) first = std::min(first, h), last = h + 1;
    const Range all{0, n.width / LANES}, read{first * size / LANES, (last * size + LANES - 1) / LANES};
    reserve<T>(n, rows, longest, a.threads);
    in_parallel(a.threads, [&](int thread, int threads) {
        const Part part{thread, threads};
        Worker<T> w(n, part, rows, longest);
        const int64_t wide = 3 * n.width;
        w.embed([&](int r) { return a.tokens[r]; }, [&](int r) { return r - starts[sentences[r]]; });
        for (int l = 0; l <= a.layer; ++l) {
            const Layer& layer = n.layer[l];
            const Kept* cross = static_cast<const Kept*>(a.cross.data) + l * a.cross.layer;
            const auto place_of = [&](int64_t r) { return a.places[sentences[r]]; };
            w.normalise(layer.attention_norm);
            if (layer.ssru.weight) {
                w.add_recurrent(layer.ssru, starts, [&](int64_t r, int i) {
                    float* own = &w.attended[r * n.width + i];
                    return Cell{r > starts[sentences[r]] ? own - n.width : nullptr, own};
                });
            } else {
                w.from_normed(layer.qkv, w.projected, wide);
                const auto self_of = [&](int64_t r, int h) {
                    const float* keys = &w.projected[starts[sentences[r]] * wide + n.width + h * size];
                    return KeysValues<float>{keys, keys + n.width, wide, 0};
                };
                w.attend(starts, wide, self_of,
                         [&](int64_t r) { return Seen{static_cast<int>(r) - starts[sentences[r]] + 1}; });
                w.add_attended(layer.attention_out);
            }
            w.normalise(layer.cross_norm);
            w.from_normed(layer.cross_query, l < a.layer ? all : read, w.projected, wide);
            const auto cross_of = [&](int64_t r, int h) {
                const Kept* keys = cross + place_of(r) * a.cross.row + h * a.cross.head;
                return KeysValues<Kept>{keys, keys + a.cross.value, size, 0};
            };
            if (l < a.layer) {
                w.attend(starts, wide, cross_of,
                         [&](int64_t r) { return Seen{static_cast<int>(a.sources[place_of(r)])}; });
                w.add_attended(layer.cross_out);
                w.ffn(layer);
                continue;
            }
            const Range mine = part.of(rows);
            for (int64_t r = mine.begin; r < mine.end; ++r) {
                float* out = a.weights + r * a.stride;
                const int source = static_cast<int>(a.sources[place_of(r)]);
                std::fill_n(out, a.stride, 0.0f);
                for (int h = first; h < last; ++h) {
                    if (!a.heads[h]) continue;
                    // What attention works out on the way: e to the power of the scores.
                    const Seen seen{source};
                    const Queries query{&w.projected[r * wide + h * size], wide, w.own.scores.data(), w.longest,
                                        &w.attended[r * n.width + h * size], n.width};
                    ::attend(size, query, cross_of(r, h), &seen, 1);
                    const float* scores = w.own.scores.data();
                    float sum = 0.0f;
                    for (int t = 0; t < source; ++t) sum += scores[t];
                    for (int t = 0; t < source; ++t) out[t] += scores[t] / sum;
                }
            }
        }
    });
}

}  // namespace

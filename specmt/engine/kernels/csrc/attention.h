// Attention of a few queries over cached keys and values, in position order.

#pragma once

#include "simd.h"

namespace {

// What a query sees, in position order: the places 0 … prefix − 1, then those that a branch of a draft tree lies at,
// counted from there.
struct Seen {
    int prefix = 0;
    const int64_t* branch = nullptr;
    int nodes = 0;

    int count() const { return prefix + nodes; }
    int64_t place(int t) const { return t < prefix ? t : prefix + branch[t - prefix]; }
};

constexpr int TOGETHER = REGISTERS == 32 ? 4 : 1;  // queries that attention is worked out for at a time

// Keys and values of one head and sentence.
template <class K>
struct KeysValues {
    const K* keys;
    const K* values;
    int64_t stride;  // of both
    int64_t next;    // how far away those lie that are probably wanted next; 0 if they are near

    // Fetches, in passing, what will be wanted.
    void fetch(const K* place) const {
        if (next) __builtin_prefetch(place + next);
    }
};

// Some queries of one head.
struct Queries {
    const float* first;
    int64_t stride;
    float* scores;    // TOGETHER rows of the most keys that are seen, rounded up to LANES
    int64_t longest;  // of such a row
    float* out;
    int64_t out_stride;
};

// softmax(q kᵀ) v over what each query sees, in that order. What one gets does not depend on the others.
template <int D16, int ROWS, class K>
void attend(const Queries& q, const KeysValues<K>& m, const Seen* seen) {
    constexpr int LINE = 64 / LANES / sizeof(K);  // registers full of a line of the cache
    int shared = seen[0].prefix;
    for (int r = 1; r < ROWS; ++r) shared = std::min(shared, seen[r].prefix);
    shared -= shared % 4;
    for (int t = 0; t < shared; t += 4) {
        Floats sum[ROWS][4];
#pragma GCC unroll 16
        for (int i = 0; i < D16; ++i) {
            Floats key[4];
#pragma GCC unroll 16
            for (int k = 0; k < 4; ++k) {
                const K* place = m.keys + (t + k) * m.stride + i * LANES;
                key[k] = load(place);
                if (i % LINE == 0) m.fetch(place);
            }
#pragma GCC unroll 16
            for (int r = 0; r < ROWS; ++r) {
                const Floats query = load(q.first + r * q.stride + i * LANES);
#pragma GCC unroll 16
                for (int k = 0; k < 4; ++k)
                    sum[r][k] = i == 0 ? multiply(query, key[k]) : fma(query, key[k], sum[r][k]);
            }
        }
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r)
            store_sums(q.scores + r * q.longest + t, sum[r][0], sum[r][1], sum[r][2], sum[r][3]);
    }
    float scales[ROWS];
    for (int r = 0; r < ROWS; ++r) {
        const int count = seen[r].count();
        float* scores = q.scores + r * q.longest;
        const auto product = [&](int t) {
            const float* query = q.first + r * q.stride;
            const K* key = m.keys + seen[r].place(std::min(t, count - 1)) * m.stride;
            Floats sum = multiply(load(query), load(key));
            for (int i = 1; i < D16; ++i) sum = fma(load(query + i * LANES), load(key + i * LANES), sum);
            return sum;
        };
        for (int t = shared; t < count; t += 4)
            store_sums(scores + t, product(t), product(t + 1), product(t + 2), product(t + 3));
        scales[r] = exponentials(scores, count);
    }
    Floats total[ROWS][D16];
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 16
        for (int i = 0; i < D16; ++i) total[r][i] = floats(0.0f);
    for (int t = 0; t < shared; ++t) {
        Floats value[D16];
#pragma GCC unroll 16
        for (int i = 0; i < D16; ++i) {
            const K* place = m.values + t * m.stride + i * LANES;
            value[i] = load(place);
            if (i % LINE == 0) m.fetch(place);
        }
#pragma GCC unroll 16
        for (int r = 0; r < ROWS; ++r) {
            const Spread p = spread(q.scores[r * q.longest + t]);
#pragma GCC unroll 16
            for (int i = 0; i < D16; ++i) total[r][i] = fma(p, value[i], total[r][i]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r) {
        for (int t = shared; t < seen[r].count(); ++t) {
            const Spread p = spread(q.scores[r * q.longest + t]);
            const K* value = m.values + seen[r].place(t) * m.stride;
#pragma GCC unroll 16
            for (int i = 0; i < D16; ++i) total[r][i] = fma(p, load(value + i * LANES), total[r][i]);
        }
        const Floats scale = floats(scales[r]);
#pragma GCC unroll 16
        for (int i = 0; i < D16; ++i)
            store(q.out + r * q.out_stride + i * LANES, multiply(total[r][i], scale));
    }
}

template <int D16, class K>
void attend(const Queries& q, const KeysValues<K>& m, const Seen* seen, int rows) {
    switch (rows) {
        case 1: return attend<D16, 1>(q, m, seen);
        case 2: return attend<D16, 2>(q, m, seen);
        case 3: return attend<D16, 3>(q, m, seen);
        default: return attend<D16, TOGETHER>(q, m, seen);
    }
}

template <class K>
void attend(int head_dim, const Queries& q, const KeysValues<K>& m, const Seen* seen, int rows) {
    switch (head_dim / LANES) {
        case 1: return attend<1>(q, m, seen, rows);
        case 2: return attend<2>(q, m, seen, rows);
        case 3: return attend<3>(q, m, seen, rows);
        case 4: return attend<4>(q, m, seen, rows);
        case 6: return attend<6>(q, m, seen, rows);
        default: return attend<8>(q, m, seen, rows);
    }
}

}  // namespace

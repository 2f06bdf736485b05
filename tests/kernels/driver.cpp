// Runs a variant of the kernels on made-up networks and prints hashes of what comes out, for machines without Python.
//
//     driver LIBRARY VARIANT

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "../../specmt/engine/kernels/csrc/structures.h"

namespace {

uint32_t state = 1;

// In [−1, 1), exact in every type of floats.
float draw() {
    state = state * 1664525u + 1013904223u;
    return static_cast<float>(static_cast<int32_t>(state) >> 24) / 128.0f;
}

template <class T>
T* room(int64_t count) {
    static std::deque<std::vector<char>> kept;
    kept.emplace_back(count * sizeof(T) + 64);
    const auto address = reinterpret_cast<uintptr_t>(kept.back().data());
    return reinterpret_cast<T*>((address + 63) / 64 * 64);
}

template <class T, class F>
T* filled(int64_t count, F f) {
    T* place = room<T>(count);
    for (int64_t i = 0; i < count; ++i) place[i] = static_cast<T>(f(i));
    return place;
}

float* floats(int64_t count, float scale, float middle = 0.0f) {
    return filled<float>(count, [&](int64_t) { return middle + scale * draw(); });
}

Norm make_norm(int width) { return {floats(width, 0.25f, 1.0f), floats(width, 0.25f)}; }

Linear make_linear(int type, int outputs, int inputs) {
    outputs = (outputs + 15) / 16 * 16;
    const int64_t count = static_cast<int64_t>(outputs) * inputs;
    Linear linear{nullptr, floats(outputs, 0.5f), nullptr, nullptr, outputs, inputs};
    if (type == FLOAT32) linear.weight = floats(count, 0.25f);
    if (type == BFLOAT16)
        linear.weight = filled<uint16_t>(count, [](int64_t) {
            const float value = 0.25f * draw();
            uint32_t bits;
            std::memcpy(&bits, &value, sizeof bits);
            return bits >> 16;
        });
    if (type == INT8) {
        auto* weight = filled<int8_t>(count, [](int64_t) { return 127.0f * draw(); });
        auto* offset = filled<int32_t>(outputs, [](int64_t) { return 0; });
        for (int64_t i = 0; i < count; ++i)
            offset[i / (inputs * 16) * 16 + i % 64 / 4] += 128 * weight[i];
        linear.weight = weight, linear.offset = offset;
        linear.scale = floats(outputs, 0.0005f, 0.001f);
    }
    if (type == CODES) {
        auto* codes = filled<uint8_t>(count / 2, [](int64_t) { return 128.0f + 128.0f * draw(); });
        auto* offset = filled<int32_t>(outputs, [](int64_t) { return 0; });
        for (int64_t i = 0; i < count / 2; ++i)
            offset[i / (inputs * 8) * 16 + i % 64 / 4] += 128 * (LEVELS[codes[i] & 15] + LEVELS[codes[i] >> 4]);
        linear.weight = codes, linear.offset = offset;
        linear.scale = floats(outputs, 0.0005f, 0.001f);
    }
    return linear;
}

struct Sizes {
    int width, heads, ffn, vocab, layers, activation, post, ssru;
};

Network make_network(int type, const Sizes& z, bool decoder, bool masked) {
    Network n{};
    n.type = type, n.layers = z.layers, n.width = z.width, n.heads = z.heads, n.ffn = z.ffn, n.places = 96;
    n.vocab = z.vocab, n.activation = z.activation, n.post = z.post, n.scale = 1.7f, n.epsilon = 1e-5f;
    n.table_type = type == FLOAT32 ? FLOAT32 : FLOAT16;
    n.table = n.table_type == FLOAT32
                  ? static_cast<const void*>(floats(static_cast<int64_t>(z.vocab) * z.width, 1.0f))
                  : filled<uint16_t>(static_cast<int64_t>(z.vocab) * z.width,
                                     [](int64_t) { return 0x3800 + 512 * draw(); });
    if (masked) n.mask = floats(z.width, 1.0f);
    n.positions = floats(n.places * z.width, 0.5f);
    auto* layers = room<Layer>(z.layers);
    for (int l = 0; l < z.layers; ++l) {
        Layer& layer = layers[l] = Layer{};
        if (!z.post || l > 0) layer.attention_norm = make_norm(z.width);
        if (decoder && z.ssru) {
            layer.ssru = make_linear(type, 2 * z.width, z.width);
        } else {
            layer.qkv = make_linear(type, 3 * z.width, z.width);
            layer.attention_out = make_linear(type, z.width, z.width);
        }
        if (decoder) {
            layer.cross_norm = make_norm(z.width);
            layer.cross_query = make_linear(type, z.width, z.width);
            layer.cross_key_value = make_linear(type, 2 * z.width, z.width);
            layer.cross_out = make_linear(type, z.width, z.width);
        }
        layer.ffn_norm = make_norm(z.width);
        layer.ffn_in = make_linear(type, z.ffn, z.width);
        layer.ffn_out = make_linear(type, z.width, z.ffn);
    }
    n.layer = layers;
    n.norm = make_norm(z.width);
    if (decoder) n.project = make_linear(type, z.vocab, z.width);
    return n;
}

constexpr int SENTENCES = 3, PLACES = 48;

Cache make_cache(const Network& n, bool cells) {
    const int64_t size = n.width / n.heads, head = PLACES * size, row = head * n.heads, value = row * SENTENCES;
    const int32_t planes = cells ? 1 : 2, bytes = cells || n.type == FLOAT32 ? 4 : 2;
    auto* data = filled<char>(n.layers * planes * value * bytes, [](int64_t) { return 0; });
    return {data, planes * value, value, row, head, planes, bytes};
}

void* library;
std::string variant;

template <class... Arguments>
int call(const char* name, Arguments... arguments) {
    void* function = dlsym(library, ("specmt_" + variant + "_" + name).c_str());
    const int result = function ? reinterpret_cast<int (*)(Arguments...)>(function)(arguments...) : -3;
    if (result < 0) std::printf("%s failed: %d\n", name, result), std::exit(1);
    return result;
}

template <class T>
void show(const char* what, const T* values, int64_t count) {
    uint64_t hash = 14695981039346656037u;
    const auto* bytes = reinterpret_cast<const unsigned char*>(values);
    for (int64_t i = 0; i < count * static_cast<int64_t>(sizeof(T)); ++i) hash = (hash ^ bytes[i]) * 1099511628211u;
    std::printf("  %s %016llx\n", what, static_cast<unsigned long long>(hash));
}

void show(const char* what, const Network& n, const Cache& cache) {
    show(what, static_cast<char*>(cache.data), n.layers * cache.layer * cache.bytes);
}

const int64_t SOURCES[SENTENCES] = {5, 1, 17};

void run_all(int type, const Sizes& z) {
    std::printf("type %d width %d heads %d activation %d post %d ssru %d\n", type, z.width, z.heads, z.activation, z.post,
                z.ssru);
    const Network encoder = make_network(type, z, false, false), verifier = make_network(type, z, true, false);
    Sizes small = z;
    small.layers = 1, small.ssru = 0;
    const Network masked = make_network(INT8, small, true, true), ahead = make_network(CODES, small, true, false);
    const int rows = 23, width = 7, stride = verifier.project.outputs;
    const auto token = [&](int64_t i) { return 4 + i * 37 % (z.vocab - 4); };
    const int64_t starts[] = {0, 5, 6, 23}, places[] = {0, 1, 2}, none[SENTENCES] = {};

    float* states = floats(rows * z.width, 0.0f);
    const Encoding encoding{2, rows, SENTENCES, filled<int64_t>(rows, token), starts, states};
    call("encode", &encoder, &encoding);
    show("encode", states, rows * z.width);

    // Enough for threads that have sentences of their own.
    const int64_t many[] = {0, 70, 75, 140};
    float* apart = floats(140 * z.width, 0.0f);
    const Encoding other{2, 140, SENTENCES, filled<int64_t>(140, token), many, apart};
    call("encode", &encoder, &other);
    show("encode apart", apart, 140 * z.width);

    Cache self[3], cross[3];
    const Network* networks[] = {&verifier, &masked, &ahead};
    for (int i = 0; i < 3; ++i) {
        self[i] = make_cache(*networks[i], networks[i]->layer->ssru.weight), cross[i] = make_cache(*networks[i], false);
        const Crossing crossing{2, rows, SENTENCES, states, starts, places, cross[i]};
        call("cross", networks[i], &crossing);
        show("cross", *networks[i], cross[i]);
    }

    float* logits = floats(64 * stride, 0.0f);
    float* hidden = floats(64 * z.width, 0.0f);
    const int64_t* tokens = filled<int64_t>(SENTENCES * width, token);
    Step step{};
    step.threads = 2, step.sentences = SENTENCES, step.width = width, step.wanted = ALL;
    step.tokens = tokens, step.starts = none, step.sources = SOURCES;
    step.self = self[0], step.cross = cross[0], step.stride = stride, step.logits = logits, step.hidden = hidden;
    call("step", &verifier, &step);
    show("step", logits, SENTENCES * width * stride);
    show("hidden", hidden, SENTENCES * width * z.width);
    show("cache", verifier, self[0]);

    int64_t* ids = filled<int64_t>(64 * 16, [](int64_t) { return 0; });
    float* log_probs = floats(64 * 16, 0.0f);
    call("candidates", logits, static_cast<int64_t>(stride), SENTENCES * width, z.vocab, 2, ids, log_probs);
    show("candidates", ids, SENTENCES * width * 16);
    show("log-probabilities of candidates", log_probs, SENTENCES * width * 16);
    call("log_probs", logits, static_cast<int64_t>(stride), SENTENCES * width, z.vocab, 2, tokens, log_probs);
    show("log-probabilities", log_probs, SENTENCES * width);

    // A tree: two tokens after the root, one after the second of them.
    const int64_t depths[] = {0, 1, 1, 2, 0, 1, 1, 2, 0, 1, 1, 2}, from[] = {7, 7, 7};
    const int64_t paths[] = {0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 2, 3, 0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 2, 3,
                             0, 0, 0, 0, 1, 0, 0, 2, 0, 0, 2, 3};
    Step tree = step;
    tree.width = 4, tree.starts = from, tree.depths = depths, tree.paths = paths, tree.longest = 3;
    call("step", &verifier, &tree);
    show("tree", logits, SENTENCES * 4 * stride);

    // Shortlists, also compact.
    Shortlist lists[SENTENCES] = {};
    for (int b = 0; b < 2; ++b) {
        const int count = 20 + 30 * b;
        lists[b].project = make_linear(type, count, z.width);
        lists[b].ids = filled<int32_t>(count, [&](int64_t i) { return 2 + i * 3; });
        lists[b].count = count;
    }
    call("shorten", &verifier, static_cast<const Shortlist*>(lists), 2, 2);
    for (const int compact : {0, 1}) {
        Step listed = step;
        listed.shortlists = lists, listed.compact = compact;
        std::memset(logits, 0, 64 * stride * sizeof(float));
        call("step", &verifier, &listed);
        show("shortlists", logits, SENTENCES * width * stride);
    }

    // The masked drafter: slots, a chain and a tree.
    const int rank = 32, slots = 4, nodes = 9;
    step.self = self[1], step.cross = cross[1], step.wanted = SLOTS, step.slots = slots;
    call("step", &masked, &step);
    show("slots", logits, SENTENCES * slots * stride);
    Draft draft{};
    draft.threads = 2, draft.sentences = SENTENCES, draft.slots = slots, draft.vocab = z.vocab, draft.width = z.width;
    draft.rank = rank, draft.stride = stride, draft.logits = logits, draft.hidden = hidden, draft.last = tokens;
    draft.embedded = floats(static_cast<int64_t>(z.vocab) * 2 * rank, 0.5f);
    draft.corrected = floats(static_cast<int64_t>(z.vocab) * rank, 0.5f);
    draft.known = make_linear(FLOAT32, 2 * rank, z.width), draft.carried = make_linear(FLOAT32, 2 * rank, rank);
    draft.breadth = 3, draft.tokens = ids, draft.log_probs = log_probs;
    call("draft", &draft);
    show("chain", ids, SENTENCES * slots);
    show("chain", log_probs, SENTENCES * slots);
    Draft branching = draft;
    branching.nodes = nodes, branching.parents = filled<int64_t>(SENTENCES * nodes, [](int64_t) { return 0; });
    call("draft", &branching);
    show("best first", ids, SENTENCES * nodes);
    show("best first", log_probs, SENTENCES * nodes);
    show("best first", branching.parents, SENTENCES * nodes);

    // The loop, by every drafter. It comes back after a while, and may then go on with sentences that have not ended.
    // Two networks will do, with and without SSRUs: an emulator takes longer for loops than for all the rest.
    for (int way = 0; way < (z.post ? 5 : 0); ++way)
        for (int b = 0; b < SENTENCES; ++b) {
            const bool is_masked = way == 1 || way == 2;
            const int number = is_masked ? 1 : 2;
            const auto cache_of = [&](Cache cache) {
                cache.data = static_cast<char*>(cache.data) + b * cache.row * cache.bytes;
                return cache;
            };
            int64_t length = 1, limit = 4 + 2 * b, seen = 0, counts[2][64];
            auto* said = filled<int64_t>(PLACES, [](int64_t) { return 1; });
            float* scores = floats(PLACES, 0.0f);
            Run run{};
            run.threads = 1 + b % 2, run.sentences = run.enough = 1, run.iterations = 64, run.room = PLACES - 13;
            run.end = 2, run.filler = 3, run.verifier = &verifier, run.block = way ? 4 : 0;
            run.nodes = way == 2 || way == 4 ? 8 : 0, run.breadth = 3;
            run.drafter = way == 0 ? nullptr : networks[number], run.choice = is_masked ? &draft : nullptr;
            run.self = cache_of(self[0]), run.cross = cache_of(cross[0]);
            run.draft_self = cache_of(self[number]), run.draft_cross = cache_of(cross[number]);
            run.sources = run.draft_sources = SOURCES + b, run.tokens = said, run.stride = PLACES;
            run.log_probs = scores, run.log_stride = PLACES, run.lengths = &length, run.limits = &limit;
            run.seen = &seen, run.drafted = counts[0], run.accepted = counts[1];
            while (length < limit && said[length - 1] != run.end) call("run", &run);
            show("said", said, length);
            show("scores", scores, length);
        }
}

// Packs a matrix of which not all panels are full, from and to every type.
void pack_all() {
    const int rows = 37, inputs = 96, stride = 103, outputs = 48;
    const int64_t count = static_cast<int64_t>(rows) * stride;
    const auto halves = [&](int bits) {
        return filled<uint16_t>(count, [&](int64_t) { return bits + 511 * draw(); });
    };
    const Stored stored[] = {
        {floats(count, 0.3f), nullptr, stride, FLOAT32, rows, inputs, 0.7f},
        {halves(0x3E80), nullptr, stride, BFLOAT16, rows, inputs, 1.0f},
        {halves(0x3400), nullptr, stride, FLOAT16, rows, inputs, 0.7f},
        {filled<int8_t>(count, [](int64_t) { return 127.0f * draw(); }), floats(rows, 0.003f, 0.01f), stride, INT8,
         rows, inputs, 1.0f}};
    for (const Stored& from : stored) {
        std::printf("packed from type %d\n", from.type);
        Linear layer{};
        for (const int type : {INT8, CODES, BFLOAT16, FLOAT32}) {
            const int bytes = type == INT8 ? 4 : type == CODES ? 2 : type == BFLOAT16 ? 8 : 16;  // of four inputs
            auto* weight = filled<char>(outputs * inputs * bytes / 4, [](int64_t) { return 1; });
            auto* offset = filled<int32_t>(outputs, [](int64_t) { return 1; });
            float *scale = floats(outputs, 1.0f), bounds[2] = {};
            layer = {weight, nullptr, scale, offset, outputs, inputs};
            Packing packing{2, type, from, layer, type == INT8 ? bounds : nullptr, BFLOAT16};
            call("pack", &packing);
            show("panels", weight, outputs * inputs * bytes / 4);
            show("scales", scale, outputs);
            show("offsets", offset, outputs);
            show("bounds", bounds, 2);
        }
        float* products = floats(rows * outputs, 1.0f);
        Products call_of{2, from, layer, products};
        call("products", &call_of);
        show("products", products, rows * outputs);
    }
}

}  // namespace

int main(int, char** arguments) {
    library = dlopen(arguments[1], RTLD_NOW);
    if (!library) return std::printf("%s\n", dlerror()), 1;
    variant = arguments[2];
    for (const int type : {FLOAT32, INT8, BFLOAT16}) {
        run_all(type, {96, 2, 48, 171, 2, RELU, 0});
        run_all(type, {64, 4, 96, 160, 2, SWISH, 1});
        run_all(type, {128, 1, 80, 155, 1, GELU, 0});
        run_all(type, {96, 2, 48, 157, 2, RELU, 1, 1});
    }
    pack_all();
}

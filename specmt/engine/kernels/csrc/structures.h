// What Python hands over: structures.py reads it here (header.py says how), so that a field is written down once. A library
// that was built from other declarations than those beside it is left alone.

#pragma once

#include <cstdint>

constexpr int LANES = 16;  // floats at a time, and outputs in a panel of packed weights

constexpr int HEAD_DIMS[] = {16, 32, 48, 64, 96, 128};  // what attention is compiled for

enum Type : int32_t { FLOAT32 = 0, BFLOAT16 = 1, INT8 = 2, FLOAT16 = 3, CODES = 4 };

// What codes of four bits stand for: the best 16 levels for numbers that are normally distributed (Max, Quantizing for
// Minimum Distortion, 1960, table I), the outermost being 127.
alignas(16) constexpr int8_t LEVELS[16] = {-127, -96, -75, -58, -44, -31, -18, -6, 6, 18, 31, 44, 58, 75, 96, 127};

// Panels of 16 outputs, of each of which four bytes stand side by side. float32: [panel][input][16]; bfloat16:
// [panel][input / 2][16][2]; int8: [panel][input / 4][16][4]; codes of levels: [panel][input / 8][16][4], those of four
// inputs in the lower halves of bytes, those of the next four in the upper ones.
struct Linear {
    const void* weight;
    const float* bias;      // null for none
    const float* scale;     // of each output's weights; int8 and codes only
    const int32_t* offset;  // what 128 times each output's weights add up to; int8 and codes only
    int32_t outputs;        // a multiple of 16
    int32_t inputs;         // a multiple of 16
};

// A matrix as it is stored; not in codes.
struct Stored {
    const void* values;      // (N, I)
    const float* scales;     // (N) what rows are multiplied by; int8 only
    int64_t stride;          // from row to row
    int32_t type;
    int32_t rows, inputs;    // N, I; the latter a multiple of 16
    float factor;            // what everything is multiplied by
};

// The rows of a matrix as outputs of a linear layer, in panels, filled up with zeros.
struct Packing {
    int32_t threads, type;
    Stored stored;
    Linear to;               // what is there is written, but for biases
    float* bounds;           // (2) of a filter: error and norm; null for none
    int32_t exact;           // type of the layer that counts
};

// Products of the rows of a table with a linear layer in float32.
struct Products {
    int32_t threads;
    Stored table;
    Linear linear;
    float* products;         // (N, outputs)
};

struct Norm {
    const float* weight;
    const float* bias;
};

// Each norm is that of a sublayer's input. In networks that normalise residual sums it is the one behind the sublayer
// before, none in front of the first.
struct Layer {
    Norm attention_norm;  // of an SSRU, too
    Linear qkv, attention_out;
    Linear ssru;      // of decoder layers that have one in the place of these two, else no weights: D forget gates, D inputs
    Norm cross_norm;  // of decoder layers only, as the next three
    Linear cross_query, cross_key_value, cross_out;
    Norm ffn_norm;
    Linear ffn_in, ffn_out;
};

enum Activation : int32_t { RELU = 0, SWISH = 1, GELU = 2 };

// A projection in int8 beside the one that counts, to find out what outputs cannot be the best.
struct Filter {
    Linear project;           // no weights: there is none
    float error, norm, bias;  // at most: how far off an output's weights are, their 2-norm (both in int8), and a bias
};

struct Network {
    int32_t type, layers, width, heads, ffn, places, vocab;
    int32_t activation;
    int32_t post;            // whether residual sums are normalised, so that what is added to is normalised, too
    int32_t table_type;
    float scale;             // of embeddings
    float epsilon;           // what norms add to a variance
    const void* table;       // (V, D) embeddings
    const float* mask;       // (D) what stands for token V, in drafters; not scaled
    const float* positions;  // (places, D)
    const Layer* layer;
    Norm norm;               // behind the last layer
    Linear project;
    Filter filter;
};

// The outputs of a projection that a sentence may use, packed as a layer of their own. No sum depends on where its output
// lies, so that they have the bits of the whole projection.
struct Shortlist {
    Linear project;      // `count` outputs, filled up with zeros
    const int32_t* ids;  // which outputs they are, in ascending order
    int32_t count;       // 0: the sentence may use the whole vocabulary
};

// Keys and values of all layers: (L, 2, B, H, T, D_h), in float32 for networks in float32, else in bfloat16. Of an SSRU the
// cell behind each token: (L, 1, B, H, T, D_h), in float32.
struct Cache {
    void* data;
    int64_t layer, value, row, head;  // strides
    int32_t planes, bytes;            // vectors of a token in a layer; bytes of a number
};

// Whose logits a step is asked for: of all tokens, of the last one of each sentence, or of the slots.
enum Wanted : int32_t { ALL = 0, LAST = 1, SLOTS = 2 };

// A window of tokens for each of B rows of the caches, with slots of [MASK] behind them or none.
struct Step {
    int32_t threads, sentences, width, slots;
    int32_t wanted;
    const int64_t* rows;     // (B) the cache row of each; null for the first B
    const int64_t* tokens;   // (B, W)
    const int64_t* starts;   // (B) the position of the first token of each
    const int64_t* counts;   // (B) how many tokens each has; null for W
    const int64_t* sources;  // source lengths of the cache rows
    // Of draft trees, else null. Tokens stand behind the prefix in the cache as they come, whatever their positions.
    const int64_t* depths;   // (B, W) positions, counted from the start
    const int64_t* paths;    // (B, W, P) where the token at each depth up to its own lies, counted from the start
    int32_t longest, first;  // P; how many nodes came in earlier calls
    Cache self, cross;
    const Shortlist* shortlists;  // of the cache rows; null: the whole vocabulary for all
    int32_t compact;         // whether logits are those listed alone, one after the other; else what is not listed is left
    int64_t stride;          // of a row of logits: V rounded up to 16, or what the longest list needs
    float* logits;           // (R, stride), one row after the other of what is wanted
    float* hidden;           // (R, D) their last hidden states; null if nobody wants them
    int64_t* best;           // (R) the best tokens; null if logits are wanted alone
    int32_t best_alone;      // whether nobody wants logits beside those, so that noise may be left in their place
};

struct Encoding {
    int32_t threads, rows, sentences;
    const int64_t* tokens;  // (R) all sentences one after the other
    const int64_t* starts;  // (B + 1) where each begins
    float* states;          // (R, D)
};

struct Crossing {
    int32_t threads, rows, sentences;
    const float* states;    // (R, D) encoder output
    const int64_t* starts;  // (B + 1)
    const int64_t* places;  // (B) the cache row of each
    Cache cross;
};

// What is known of the slots of blocks, and what they are to become: a best chain, a best-first tree, or step by step
// whatever the caller chooses among candidates.
struct Draft {
    int32_t threads, sentences, slots, vocab, width, rank;
    int32_t nodes, breadth;  // of trees: N, and how many candidates may follow a token; chains have K nodes
    int64_t stride;          // of a slot's logits
    const float* logits;     // (B · K, stride)
    const float* hidden;     // (B · K, D)
    const int64_t* last;     // (B)
    const float* embedded;   // (V, 2 R) what a token adds to the gates
    const float* corrected;  // (V, R) what a state adds to a token's logit
    Linear known, carried;   // D → 2 R, R → 2 R
    int64_t* tokens;         // (B, N)
    float* log_probs;        // (B, N); −∞ where there is no node
    int64_t* parents;        // (B, N) the number of the node before, from 1; 0 for none. Null for chains
    const Shortlist* shortlists;  // of the cache rows, if logits are compact; else null
    const int64_t* rows;     // (B) the cache row of each
};

// Candidates for one slot of every sentence after W tokens each.
struct Expansion {
    int32_t slot, width;
    const int64_t* before;   // (B, W) the tokens
    float* states;           // (B, W, R) that the tokens were scored with; becomes those of the slot
    int64_t* ids;            // (B, W, C)
    float* log_probs;        // (B, W, C)
};

// Iterations over B sentences, of which each drafts, verifies and commits what greedy decoding would have said, or what is
// nearly as good (specmt/decoding/accept.py), without a word to Python in between.
struct Run {
    int32_t threads, sentences;
    int32_t iterations, enough;       // it ends after so many of them, or when so many sentences have ended
    int32_t block;                    // tokens to look ahead; 0 for no drafts
    int32_t nodes, breadth;           // of best-first trees; no nodes: chains
    int64_t room;                     // it ends before a sentence with more tokens than so many: caches are too small
    int64_t end, filler;              // end of sentence; what drafts consist of where nobody makes them
    const Network *verifier, *drafter;  // no drafter: null
    const Draft* choice;              // how a masked drafter chooses tokens; null for an autoregressive one
    Cache self, cross, draft_self, draft_cross;
    const Shortlist *shortlists, *draft_shortlists;  // of the cache rows; null: the whole vocabulary for all
    const int64_t *sources, *draft_sources;  // (B) source lengths
    int64_t* tokens;                  // (B, stride) committed ones, from BOS on
    int64_t stride;
    float* log_probs;                 // (B, log_stride) of committed tokens; null if nobody wants them
    int64_t log_stride;
    int64_t* lengths;                 // (B) how many tokens are committed
    const int64_t* limits;            // (B) how many they may become
    int64_t* seen;                    // (B) how many of them the drafter has read
    const int64_t* hints;             // (B, hint_stride) what sentences may go on with from some place on; null for none
    const int64_t* hint_lengths;      // (B) 0 for none
    int64_t hint_stride;
    int32_t recalled;                 // how many tokens of a hint are drafted at a time, where there are no other drafts
    // What is worth drafting and verifying (specmt/engine/fused.py, Confidence); everything where the floor is 0.
    double scale, shift, floor, margin;
    int64_t *drafted, *accepted;      // (I, B) of each iteration; −1 where a sentence had ended
    // A draft stands among the verifier's so many best tokens, if its logit is so little below the highest; with 0, the
    // best stands alone.
    int32_t beta;
    float tolerance;
    // A loop whose output is drafted: over the same sentences and caches, with what is like the verifier and cheaper. Its
    // lengths, limits, log-probabilities and counts are set anew for every draft. Null for none.
    const Run* stage;
};

// Attention to the source that known targets have in some heads of a layer, added up over those heads.
struct Alignment {
    int32_t threads, sentences, layer;
    const int64_t* tokens;   // (R) targets, one after the other
    const int64_t* starts;   // (B + 1) where each begins
    const int64_t* places;   // (B) the cache row of each
    const int64_t* sources;  // source lengths of the cache rows
    Cache cross;
    const char* heads;       // (H) whether a head counts
    int64_t stride;
    float* weights;          // (R, stride)
};

// Steps of beam search over B sentences of K hypotheses each, without a word to Python in between (specmt/decoding/beam.py).
// Hypotheses of a sentence share a row of the caches: each has a list of where its keys and values lie, so that nothing
// moves when one of them gives way to another.
struct Beam {
    int32_t threads, sentences, width;  // B, K
    int32_t iterations, enough;         // it ends after so many steps, or when so many sentences have ended
    int64_t room;                       // places of a row of the cache
    int64_t end, never;                 // end of sentence; what is never said
    const Network* network;
    Cache self, cross;
    const int64_t* sources;             // (B) source lengths
    int64_t stride;                     // T
    int64_t *tokens, *slots;            // (B, K, T) of hypotheses: tokens from BOS on, places of their keys and values
    float* scores;                      // (B, K) sums of log-probabilities
    int64_t *counts, *lengths;          // (B) how many hypotheses go on, 0 if the sentence has ended; their tokens
    const int64_t* limits;              // (B) the most tokens
    int64_t* extents;                   // (B) one more than the last place used
    int64_t *found_tokens, *found_lengths;  // (B, K, T), (B, K) hypotheses that have ended
    float* found_scores;                // (B, K)
    int64_t *found, *calls;             // (B) how many those are; calls that were made
    int64_t *drafted, *accepted;        // (B) continuations that were guessed; calls that made two steps thereby
    int64_t* reads;                     // (B, K) how many tokens of hypotheses the drafter has read
    int32_t ahead;                      // how many continuations are guessed of a sentence
    const Network* drafter;             // null for none
    Cache draft_self, draft_cross;
    const int64_t* draft_sources;
    const Shortlist* draft_shortlists;
};

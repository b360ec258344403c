// The keys to which each query attends: the operands of attention_forward and attention_backward that
// hide keys from queries, their validation, and the fields from which kernels compute what is hidden.
//
// Query s is at position p = firstQuery + s of the sequence, and key k at position firstKey + k, so that a
// call may compute some queries of a sequence with some of its keys. A query attends to every key that none
// of these options hides:
//   causal: hides keys after p
//   windowSize: with causal, w of 0 or more hides keys before p - w; -1: no window
//   keyStart?  [B, S] int32: hides keys before position keyStart[b, s] (the first position of its document)
//   keyMask?   [B, K] uint8: hides keys where it is 0 (padding)
//   starts?    [N + 1] int32: packed samples. Sample n has the rows starts[n] to starts[n + 1] of T, without
//   padding. Keys of other samples are hidden, and positions count from firstQueries and firstKeys. There
//   is no B, and no firstQuery, firstKey, keyStart and keyMask. Rows from starts[N] on do not belong to any
//   sample: their results are 0, and their inputs must be finite, as under a key mask.
//   longest: no sample has more rows. numScores: how many scores count as FLOPs, the sum of the squares of
//   all lengths. Both are 0 without packed samples.
//   queryStarts?  [N + 1] int32, with starts: sample n has the queries queryStarts[n] to queryStarts[n + 1]
//   of U rows, which are any part of the sample. Queries and outputs have U rows instead of T.
//   longestQueries: no sample has more queries (0 without queryStarts). numScores is then the sum over all
//   samples of queries times keys.
//   firstQueries?, firstKeys?  [N] int32, with starts: the positions of each sample's first query and first key
//   in its sequence. Default: 0.
#pragma once

#include "core/host_device.h"
#include "core/op_call.h"

namespace mtl {

// The operands that this file describes, which every attention op has, each with its name in the schema. In
// an op's enumerations, these tensors are consecutive and in this order, and these attributes come first.
#define MTL_VISIBILITY_TENSORS(USE) \
  USE(kKeyStart, "keyStart?") USE(kKeyMask, "keyMask?") USE(kStarts, "starts?") USE(kQueryStarts, "queryStarts?") \
  USE(kFirstQueries, "firstQueries?") USE(kFirstKeys, "firstKeys?")
#define MTL_VISIBILITY_ATTRIBUTES(USE) \
  USE(kCausal, "causal") USE(kWindowSize, "windowSize") USE(kFirstQuery, "firstQuery") USE(kFirstKey, "firstKey") \
  USE(kLongest, "longest") USE(kLongestQueries, "longestQueries") USE(kNumScores, "numScores")
#define MTL_CONSTANT_OF(constant, name) constant,
#define MTL_NAME_OF(constant, name) name,

// Stands for the absence of a window. It exceeds any position, and is half the range of 32 bits.
constexpr int64_t kNoWindow = int64_t{1} << 30;

// S query positions and K key positions of B samples. A query attends to all keys that no field hides.
// Positions count from the start of the complete sequence.
struct Visibility {
  int64_t num_queries, num_keys;   // S and K; with packed samples at least the length of the longest
  int64_t batch;                   // B
  int64_t first_query, first_key;  // positions of query 0 and key 0
  bool causal;                     // hides keys after the query's position
  int64_t window;                  // hides keys more than `window` positions before the query's; or kNoWindow
  const int32_t* key_start;        // [B, S]: hides keys before this position; or null
  const uint8_t* key_mask;         // [B, K]: hides keys where it is 0; or null
  // Packed samples: sample b has the keys starts[b] to starts[b + 1] of T rows, and the queries
  // query_starts[b] to query_starts[b + 1] of U rows. The operands have no sample dimension.
  const int32_t *starts, *query_starts;  // [B + 1], the same pointer if queries have the rows of keys; or null
  const int32_t *first_queries, *first_keys;  // [B]: first_query and first_key of each sample; or null
  int64_t rows, query_rows;                   // T and U
  int64_t num_scores;                         // the sum over samples of queries times keys
};

// The operands above as they are in a call of an op, and the sizes of the op's query and key.
struct VisibilityCall {
  const OpCall& call;
  int first_tensor;               // the index of keyStart
  int64_t num_queries, num_keys;  // positions; of packed samples rows
  int64_t batch;                  // samples; below 0 if `starts` is empty
};

Status validate_visibility(const VisibilityCall& operands);
// Returns the fields of a validated call.
Visibility read_visibility(const VisibilityCall& operands);
// Returns how many of a head's scores count as FLOPs.
double counted_scores(const VisibilityCall& operands);
// Checks on the host that starts are ascending, within the rows and consistent with num_scores. Requires
// packed samples.
Status check_packed_rows(const OpCall& call, const Visibility& visibility);

// Returns the position of a sample's query 0 in its sequence.
MTL_HOST_DEVICE static inline int64_t first_query_of(const Visibility& visibility, int64_t batch) {
  return visibility.first_queries == nullptr ? visibility.first_query : visibility.first_queries[batch];
}

// Returns the position of a sample's key 0 in its sequence.
MTL_HOST_DEVICE static inline int64_t first_key_of(const Visibility& visibility, int64_t batch) {
  return visibility.first_keys == nullptr ? visibility.first_key : visibility.first_keys[batch];
}

// Returns how many positions a sample has: its own length for packed samples, otherwise `padded`.
MTL_HOST_DEVICE static inline int64_t length_of(const int32_t* starts, int64_t batch, int64_t padded) {
  return starts == nullptr ? padded : starts[batch + 1] - starts[batch];
}

// Returns true if the queries of packed samples differ from the keys in their rows or positions.
static inline bool has_queries_apart(const Visibility& visibility) {
  return visibility.query_starts != visibility.starts || visibility.first_queries != nullptr ||
         visibility.first_keys != nullptr;
}

}  // namespace mtl

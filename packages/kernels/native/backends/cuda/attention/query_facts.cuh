// Facts about a tile of 64 queries that the gradients of keys and values need in addition to the queries'
// rows, and the functions that use them. These work on tiles of 64 keys (rows, 16 for each of four warps) by
// queries (columns). For attention_key_value_gradient.cu and its Hopper counterpart.
#pragma once

#include "backends/cuda/attention/masks.cuh"

namespace mtl::cuda {

// The facts about each tile of queries, stored next to it.
struct QueryFacts {
  float log_sum_exp[kTile];  // in base 2
  float delta[kTile];
  int begin[kTile];              // the first key that the query attends to
  uint16_t kept[kWarps][kTile];  // bit i: dropout keeps the probability of key 16 w + i
};

// The first of a block's keys, and the mask of the keys that are not hidden (shown_keys).
struct Keys {
  int first;
  uint64_t shown;
};

// Stores the facts about query `number` of the tile; the next barrier makes them visible.
MTL_PTX void load_facts(QueryFacts& facts, const AttentionArguments& a, const HeadPlace& place, int first_query, int number) {
  const int query = first_query + number;
  const bool real = query < a.sequence;
  // infinite beyond the last query, so that probabilities there become 0
  facts.log_sum_exp[number] = real ? a.log_sum_exp[place.statistics + query] * kLog2E : INFINITY;
  facts.delta[number] = real ? a.delta[place.statistics + query] : 0.0f;
  facts.begin[number] = real ? keys_of_query(a, place.batch, query).begin : a.num_keys;
}

// Computes the dropout bits. The four words of a Philox block belong to keys that are 16 apart, one for each
// of the four warps: half a warp per query computes every block once, and the warps share the bits. Called by
// the block's first four warps.
MTL_PTX void load_dropout(QueryFacts& facts, const DropoutSite& site, int first_query, int first_key) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
#pragma unroll 1
  for (int number = 2 * warp; number < kTile; number += 2 * kWarps) {
    const int query = number + lane / 16;
    const PhiloxBlock random = philox(site.key, philox_column_counter(first_key + lane % 16),
                                      static_cast<uint32_t>(first_query + query), site.sample_low, site.sample_high);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const unsigned kept = __ballot_sync(kWholeWarp, random.words[word] >= site.threshold);
      if (lane % 16 == 0) facts.kept[word][query] = static_cast<uint16_t>(kept >> lane);
    }
  }
}

// Converts scores of 16 keys (rows) by kColumns queries, from first_column of the tile on, to probabilities;
// 0 if a query does not attend to a key.
template <int kColumns>
MTL_PTX void to_probabilities(float (&scores)[kColumns / 8][4], const AttentionArguments& a, const QueryFacts& facts,
                              const Keys& keys, int key_row, int first_query, int first_column, bool whole) {
  const int column = first_column + static_cast<int>(threadIdx.x) % 4 * 2;
  const float scale_log2 = a.scale * kLog2E;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = 8 * n + column + i % 2, row = key_row + i / 2 * 8;
      const float probability = fast_exp2(scores[n][i] * scale_log2 - facts.log_sum_exp[query]);
      const bool visible = whole || ((keys.shown >> row & 1) != 0 && keys.first + row >= facts.begin[query] &&
                                     (!a.causal || keys.first + row <= a.first_position + first_query + query));
      scores[n][i] = visible ? probability : 0.0f;
    }
  }
}

// Writes zeros for elements that dropout drops.
template <int kColumns>
MTL_PTX void drop_transposed(float (&values)[kColumns / 8][4], const QueryFacts& facts, int first_column) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % kWarps;
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
    const uint32_t kept = in_one_access<uint32_t>(&facts.kept[warp][first_column + 8 * n + lane % 4 * 2]);  // of two queries
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if ((kept >> (16 * (i % 2) + lane / 4 + i / 2 * 8) & 1) == 0) values[n][i] = 0.0f;
    }
  }
}

// Converts probabilities and the gradient of the probabilities after dropout to the gradient of the scores.
template <bool kDropout, int kColumns>
MTL_PTX void to_score_gradients(float (&gradients)[kColumns / 8][4], const float (&probabilities)[kColumns / 8][4],
                                const AttentionArguments& a, const QueryFacts& facts, int first_column) {
  const int column = first_column + static_cast<int>(threadIdx.x) % 4 * 2;
  if constexpr (kDropout) drop_transposed<kColumns>(gradients, facts, first_column);
#pragma unroll
  for (int n = 0; n < kColumns / 8; ++n) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float gradient = kDropout ? gradients[n][i] * a.inverse_keep : gradients[n][i];
      gradients[n][i] = probabilities[n][i] * (gradient - facts.delta[8 * n + column + i % 2]);
    }
  }
}

}  // namespace mtl::cuda

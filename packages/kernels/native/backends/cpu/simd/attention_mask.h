// Determines which keys a query attends to, tile by tile, and which probabilities dropout keeps.
#pragma once

#include "backends/cpu/simd/attention_tiles.h"
#include "backends/cpu/simd/simd_philox_tile.h"
#include "ops/attention.h"

namespace mtl {
namespace {

constexpr float kHidden = -__builtin_inff();  // the score of a masked key

typedef int32_t VIntU __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

// A range of keys [begin, end).
struct KeyRange {
  int64_t begin, end;
};

// The parameters of one sample's masks.
struct SampleMasks {
  int64_t num_queries, num_keys;
  int64_t first_position;    // of query 0 among the keys, or below 0
  int64_t first_key;         // the position of key 0; key_start counts from there
  bool causal;
  int64_t window;            // number of keys before a query's own key that it attends to; causal only
  const int32_t* key_start;  // [num_queries], or null
  const uint8_t* key_mask;   // [num_keys], or null

  // Returns the range of keys that a query may attend to. If it is empty, its end may precede its beginning
  // and key 0.
  MTL_INLINE KeyRange keys_of(const SampleMasks& v, int64_t query) {
    if (query >= v.num_queries) return {0, 0};
    const int64_t position = v.first_position + query;
    const int64_t start = v.key_start == nullptr ? 0 : v.key_start[query] - v.first_key;
    return {larger(start, larger(0, position - v.window)), v.causal ? smaller(v.num_keys, position + 1) : v.num_keys};
  }
};

// Properties that are the same for all queries in a row of tiles.
struct TileRow {
  int64_t first_query, num_queries;
  KeyRange any;  // no query attends to keys outside
  KeyRange all;  // every query attends to keys inside, unless the key mask hides them
};

MTL_INLINE TileRow tile_row(const SampleMasks& masks, int64_t index) {
  const int64_t first = index * kTile;
  const int64_t num_queries = smaller(kTile, masks.num_queries - first);
  TileRow row = {first, num_queries, {masks.num_keys, 0}, {0, masks.num_keys}};
  if (masks.key_start == nullptr) {  // ranges move only forward: the first and the last query decide
    const KeyRange of_first = SampleMasks::keys_of(masks, first);
    const KeyRange of_last = SampleMasks::keys_of(masks, first + row.num_queries - 1);
    row.any = {of_first.begin, of_last.end};
    row.all = {of_last.begin, of_first.end};
    return row;
  }
  for (int64_t query = first; query < first + row.num_queries; ++query) {
    const KeyRange range = SampleMasks::keys_of(masks, query);
    row.all = {larger(row.all.begin, range.begin), smaller(row.all.end, range.end)};
    if (range.begin >= range.end) continue;
    row.any = {smaller(row.any.begin, range.begin), larger(row.any.end, range.end)};
  }
  return row;
}

enum class TileKind { kSkipped, kMasked, kWhole };

// Returns the kind of a tile. `key_kind` is the kind that follows from the key mask alone (see
// key_tile_kind).
MTL_INLINE TileKind tile_kind(const TileRow& row, int64_t first_key, TileKind key_kind) {
  if (key_kind == TileKind::kSkipped || first_key >= row.any.end || first_key + kTile <= row.any.begin) {
    return TileKind::kSkipped;
  }
  const bool whole = first_key >= row.all.begin && first_key + kTile <= row.all.end;
  return whole && key_kind == TileKind::kWhole ? TileKind::kWhole : TileKind::kMasked;
}

MTL_INLINE TileKind key_tile_kind(const SampleMasks& masks, int64_t first_key) {
  if (masks.key_mask == nullptr) return TileKind::kWhole;
  int64_t seen = 0;
  const int64_t end = smaller(first_key + kTile, masks.num_keys);
  for (int64_t key = first_key; key < end; ++key) seen += masks.key_mask[key] != 0;
  return seen == 0 ? TileKind::kSkipped : seen == end - first_key ? TileKind::kWhole : TileKind::kMasked;
}

// Sets `seen` to all ones for every key that exists and is not hidden by the key mask, and to 0 for all other
// keys.
MTL_INLINE void seen_keys(int32_t* seen, const SampleMasks& masks, int64_t first_key) {
  for (int64_t key = 0; key < kTile; ++key) {
    const bool real = first_key + key < masks.num_keys;
    seen[key] = real && (masks.key_mask == nullptr || masks.key_mask[first_key + key] != 0) ? -1 : 0;
  }
}

// Returns how many of the tile's keys a matmul of the `count` rows from first_row on must include. None of
// these rows attends to a later key.
MTL_INLINE int64_t keys_of_rows(const SampleMasks& masks, const TileRow& row, int64_t first_row, int64_t count,
                                int64_t first_key) {
  if (!masks.causal) return smaller(kTile, larger(0, row.any.end - first_key));
  const int64_t last = row.first_query + smaller(first_row + count, row.num_queries) - 1;
  return smaller(kTile, larger(0, SampleMasks::keys_of(masks, last).end - first_key));
}

// Overwrites the scores of the keys that `query` does not attend to with kHidden, in the first `vectors`
// vectors of a tile's row.
MTL_INLINE void hide_keys(float* scores, const SampleMasks& masks, int64_t query, int64_t first_key,
                          const int32_t* seen, int64_t vectors) {
  const KeyRange range = SampleMasks::keys_of(masks, query);
  const int32_t begin = static_cast<int32_t>(larger(0, smaller(kTile, range.begin - first_key)));
  const int32_t end = static_cast<int32_t>(larger(0, smaller(kTile, range.end - first_key)));
  VInt lanes;
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = lane;
  for (int64_t vector = 0; vector < vectors; ++vector) {
    const VInt keys = lanes + static_cast<int32_t>(vector * kLanes);
    const VInt shown = *reinterpret_cast<const VIntU*>(seen + vector * kLanes);
    store(scores + vector * kLanes, select(shown & (VInt)(keys >= begin) & (VInt)(keys < end),
                                           load(scores + vector * kLanes), splat(kHidden)));
  }
}

struct Dropout {
  bool active;
  uint32_t threshold;
  float inverse_keep;  // 1 / (1 - probability)
  PhiloxSite site;
  int64_t first_query, first_key;  // positions of query 0 and key 0
};

// Returns 0 for dropped elements, otherwise the value.
MTL_INLINE VFloat keep(VFloat value, VInt mask) { return bits_to_float(float_to_bits(value) & (VUint)mask); }

MTL_INLINE Dropout no_dropout() { return {false, 0, 1.0f, {}, 0, 0}; }

// Values that the dropout masks of all rows in a tile of keys share. If a tile begins inside a group of
// columns, it consists of the end of this group and the beginning of the next group.
struct DroppedColumns {
  PhiloxColumns groups[2];
  int64_t offset;  // of the tile's first key in the first group
};

MTL_INLINE void set_dropped_columns(DroppedColumns* columns, const Dropout& dropout, int64_t first_key) {
  const int64_t column = dropout.first_key + first_key;
  columns->offset = column % kTile;
  columns->groups[0] = philox_columns(dropout.site, column / kTile);
  if (columns->offset != 0) columns->groups[1] = philox_columns(dropout.site, column / kTile + 1);
}

// Computes the masks of a tile whose columns belong to two groups.
__attribute__((noinline)) void keep_masks_between(VInt* masks, const Dropout& dropout, const DroppedColumns& columns,
                                                  uint32_t row) {
  VInt both[2 * kTileVectors];
  keep_masks_of_row(both, dropout.site, columns.groups[0], row, dropout.threshold);
  keep_masks_of_row(both + kTileVectors, dropout.site, columns.groups[1], row, dropout.threshold);
  const char* const first = reinterpret_cast<const char*>(both) + columns.offset * 4;
  for (int64_t vector = 0; vector < kTileVectors; ++vector) {
    masks[vector] = *reinterpret_cast<const VIntU*>(first + vector * kLanes * 4);
  }
}

// Computes the dropout masks of a query's probabilities. A mask has all bits set if the probability is kept.
MTL_INLINE void keep_masks(VInt* masks, const Dropout& dropout, const DroppedColumns& columns, int64_t query) {
  const uint32_t row = static_cast<uint32_t>(dropout.first_query + query);
  if (columns.offset != 0) {
    keep_masks_between(masks, dropout, columns, row);
  } else {
    keep_masks_of_row(masks, dropout.site, columns.groups[0], row, dropout.threshold);
  }
}

// Returns a head's rows in an operand. `size` is the length of a row. `padded` is the number of rows if
// samples are not packed.
template <typename T>
MTL_INLINE Matrix<T> matrix_of(const AttentionProblem& problem, const AttentionOperand& operand, int64_t batch,
                               int64_t head, int64_t padded, int64_t size) {
  return {static_cast<T*>(operand.data) + head_at(problem, operand, batch, head), operand.position,
          length_of(operand.starts, batch, padded), size};
}

template <typename T>
MTL_INLINE Results<T> results_of(const AttentionProblem& problem, const AttentionOperand& operand, int64_t batch,
                                 int64_t head, int64_t padded, int64_t size) {
  if (operand.dtype != problem.dtype) return {{}, matrix_of<float>(problem, operand, batch, head, padded, size)};
  return {matrix_of<T>(problem, operand, batch, head, padded, size), {}};
}

MTL_INLINE SampleMasks masks_of(const AttentionProblem& problem, int64_t batch) {
  return {length_of(problem.query_starts, batch, problem.num_queries),
          length_of(problem.starts, batch, problem.num_keys),
          first_query_of(problem, batch) - first_key_of(problem, batch),
          first_key_of(problem, batch),
          problem.causal,
          problem.window,
          problem.key_start == nullptr ? nullptr : problem.key_start + batch * problem.num_queries,
          problem.key_mask == nullptr ? nullptr : problem.key_mask + batch * problem.num_keys};
}

MTL_INLINE Dropout dropout_of(const AttentionProblem& problem, int64_t batch, int64_t head) {
  if (problem.dropout_probability == 0.0) return no_dropout();
  const int64_t sample = problem.samples[batch];
  return {true,
          dropout_threshold(problem.dropout_probability),
          static_cast<float>(1.0 / (1.0 - problem.dropout_probability)),
          philox_site(problem.philox_key, philox_sample_low(sample), philox_sample_high(sample, problem.head_offset + head)),
          first_query_of(problem, batch),
          first_key_of(problem, batch)};
}

// Returns into how many parts the work of each head is split: more than 1 if there are too few heads for all
// threads. The result depends only on sizes and the number of threads.
MTL_INLINE int64_t parts_per_head(int64_t heads, int64_t threads, int64_t most) {
  if (heads >= 4 * threads || heads % threads == 0) return 1;
  return larger(1, smaller(most, (2 * threads + heads - 1) / heads));
}

}  // namespace
}  // namespace mtl

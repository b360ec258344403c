// The forward pass of attention for one head, one tile of queries at a time. Iterates over tiles of keys with
// a running maximum and denominator ("online softmax"; Milakov and Gimelshein 2018, Dao et al. 2022).
#pragma once

#include "backends/cpu/simd/attention_on_tiles.h"
#include "backends/cpu/simd/attention_mask.h"
#include "backends/cpu/simd/attention_math.h"
#include "core/caching_allocator.h"

namespace mtl {
namespace {

// The initial running maximum. It is finite, so that no difference is NaN, and lower than every score.
constexpr float kNoMaximum = static_cast<float>(kEmptyLogSumExp);

// The running maximum is raised only when a score (in base 2) exceeds it by more than this value.
constexpr float kSlack = 8.0f;

// One head of one sample.
template <typename T>
struct ForwardHead {
  Matrix<const T> queries, keys, values;
  Results<T> outputs;
  float* log_sum_exp;  // [num_queries], or null
  float* highest_score;  // raised to the highest score; or null
  SampleMasks masks;
  Dropout dropout;
  ScoreScale scale;
};

// Per-thread memory. Keys and values are packed once per head, and all tiles of queries use the packed
// copies. If there is only one tile of queries, memory for one packed tile is enough.
struct ForwardScratch {
  Word *queries, *probabilities, *keys, *values;
  float *scores, *output, *denominators, *maxima, *factors, *statistics;
  int32_t* seen;
  uint8_t *key_kinds, *packed;
  int64_t slots;
};

// Allocates parts of a block of memory, aligned to 64 bytes. If the base is null, only counts the bytes.
struct Carver {
  char* base;
  int64_t used;
};

template <typename Element>
MTL_INLINE Element* carve(Carver* carver, int64_t count) {
  Element* part = reinterpret_cast<Element*>(carver->base + carver->used);
  carver->used += round_up(count * static_cast<int64_t>(sizeof(Element)), 64);
  return part;
}

template <typename Gemm>
ForwardScratch carve_forward(Carver* carver, const AttentionProblem& problem) {
  const int64_t num_queries = problem.num_queries, num_keys = problem.num_keys, head_size = problem.head_size;
  const int64_t columns = round_up(problem.value_size, kLanes);
  const int64_t key_tiles = (num_keys + kTile - 1) / kTile;
  ForwardScratch scratch;
  scratch.slots = num_queries > kTile ? key_tiles : 1;
  scratch.queries = carve<Word>(carver, kTile * row_words<Gemm>(head_size));
  scratch.scores = carve<float>(carver, kTile * kTile);
  scratch.probabilities = Gemm::kDepth == 1 ? reinterpret_cast<Word*>(scratch.scores)
                                            : carve<Word>(carver, kTile * kTile / Gemm::kDepth);
  scratch.output = carve<float>(carver, kTile * columns);
  scratch.denominators = carve<float>(carver, kTile * kLanes);
  scratch.maxima = carve<float>(carver, kTile);
  scratch.factors = carve<float>(carver, kTile);
  scratch.statistics = carve<float>(carver, kTile);
  scratch.seen = carve<int32_t>(carver, kTile);
  scratch.key_kinds = carve<uint8_t>(carver, key_tiles);
  scratch.packed = carve<uint8_t>(carver, key_tiles);
  scratch.keys = carve<Word>(carver, scratch.slots * row_words<Gemm>(head_size) * kTile);
  scratch.values = carve<Word>(carver, scratch.slots * kTile / Gemm::kDepth * columns);
  return scratch;
}

// Stores kDepth vectors of probabilities as the left operand of a matmul. The words are floats, or pairs of
// bfloat16.
template <typename Gemm>
MTL_INLINE void store_probabilities(Word* words, const VFloat* values) {
  if constexpr (Gemm::kDepth == 1) {
    store_words(words, float_to_bits(values[0]));
  } else {
    store_words(words, to_bfloat16_words(values[0], values[1]));
  }
}

// Returns how many vectors cover `keys` scores. The result is a multiple of how many vectors
// store_probabilities takes.
template <typename Gemm>
MTL_INLINE int64_t vectors_of(int64_t keys) {
  return round_up((keys + kLanes - 1) / kLanes, Gemm::kDepth);
}

// Computes one row of softmax_tile, which has `vectors` vectors: writes the probabilities and returns their
// sum.
template <typename Gemm, bool kDropout, bool kWhole>
MTL_INLINE VFloat softmax_row(Word* probabilities, const float* scores, const VInt* masks, float scale, float highest,
                              int64_t vectors) {
  constexpr bool kToBfloat16 = Gemm::kDepth == 2;
  VFloat total = {};
#pragma GCC unroll 4
  for (int64_t vector = 0; vector < vectors; vector += Gemm::kDepth) {
    VFloat kept[Gemm::kDepth];
    for (int part = 0; part < Gemm::kDepth; ++part) {
      const VFloat score = load(scores + (vector + part) * kLanes);
      const VFloat weight = power_of_two<kToBfloat16, kWhole>(score * scale - highest);
      total += weight;
      kept[part] = kDropout ? keep(weight, masks[vector + part]) : weight;
    }
    store_probabilities<Gemm>(probabilities + vector * kLanes / Gemm::kDepth, kept);
  }
  return total;
}

// Returns, for each lane, the highest score in this lane of any vector.
MTL_INLINE VFloat highest_lanes(const float* scores, int64_t vectors) {
  VFloat highest = splat(kHidden);
  for (int64_t vector = 0; vector < vectors; ++vector) highest = maximum(highest, load(scores + vector * kLanes));
  return highest;
}

MTL_INLINE float highest_score(const float* scores, int64_t vectors) { return largest(highest_lanes(scores, vectors)); }

// Raises the running maxima of kLanes rows, and computes the factors for their earlier sums. On tiles, a
// maximum is raised only if scores in base 2 exceed it by more than `slack`, because a factor other than 1
// requires a pass over the sums.
MTL_INLINE void raise_maxima(const ForwardScratch& scratch, int64_t row, const VFloat* lanes_of_rows, float scale,
                             float slack) {
  VUint lanes[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = float_to_bits(lanes_of_rows[lane]);
  transpose(lanes);
  VFloat highest = bits_to_float(lanes[0]);
  for (int lane = 1; lane < kLanes; ++lane) highest = maximum(highest, bits_to_float(lanes[lane]));
  const VFloat before = load(scratch.maxima + row), now = highest * scale;
  const VFloat maxima = select(now > before + slack, now, before), exponent = before - maxima;
  store(scratch.maxima + row, maxima);
  // if the maximum does not change, the factor is exactly 1, so a tile without visible keys does not change
  // any bit of a row
  store(scratch.factors + row, select(exponent == 0.0f, splat(1.0f), power_of_two<false>(exponent)));
}

// Converts a tile's scores to 2^(score - running maximum), applies dropout, and updates maximum and
// denominator. `scale` converts scores to base 2. scratch.factors receives the factors by which each row's
// earlier sums must be multiplied. vectors[row group] is the length of the group's rows in vectors, which is
// kTileVectors in a whole tile.
template <typename Gemm, bool kDropout, bool kWhole>
void softmax_tile(const ForwardScratch& scratch, const int64_t* vectors, int64_t num_rows, float scale,
                  float slack, const Dropout& dropout, int64_t first_query, int64_t first_key) {
  for (int64_t first = 0; first < num_rows; first += kLanes) {
    VFloat lanes[kLanes];
#pragma GCC unroll 16
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const int64_t row = smaller(first + lane, num_rows - 1);
      lanes[lane] = highest_lanes(scratch.scores + row * kTile, kWhole ? kTileVectors : vectors[row / Gemm::kRowGroup]);
    }
    raise_maxima(scratch, first, lanes, scale, slack);
  }
  DroppedColumns dropped;
  if (kDropout) set_dropped_columns(&dropped, dropout, first_key);
  for (int64_t row = 0; row < num_rows; ++row) {
    const int64_t count = kWhole ? kTileVectors : vectors[row / Gemm::kRowGroup];
    VInt masks[kTileVectors];
    if (kDropout) keep_masks(masks, dropout, dropped, first_query + row);
    float* denominator = scratch.denominators + row * kLanes;
    const VFloat total =
        softmax_row<Gemm, kDropout, kWhole>(scratch.probabilities + row * kTile / Gemm::kDepth,
                                    scratch.scores + row * kTile, masks, scale, scratch.maxima[row], count);
    store(denominator, load(denominator) * scratch.factors[row] + total);
  }
}

// The rows to prefetch: inputs of the next tiles and the output of the current tile row. A matrix without
// rows is not prefetched.
template <typename T>
struct ForwardAhead {
  Matrix<const T> queries, keys, values;
  Results<T> outputs;
};

// Soft-caps a tile's scores. vectors[row group] is the length of the group's rows in vectors.
template <typename Gemm>
__attribute__((noinline)) void cap_tile(float* scores, const int64_t* vectors, int64_t num_groups, const ScoreScale& scale) {
  for (int64_t row = 0; row < num_groups * Gemm::kRowGroup; ++row) {
    cap_scores(scores + row * kTile, vectors[row / Gemm::kRowGroup], scale);
  }
}

// Processes one tile of scores: the matmul with the keys, soft cap, masks, softmax, and the matmul with the
// values.
template <typename Gemm, typename T>
void forward_tile(const ForwardHead<T>& head, const ForwardScratch& scratch, const TileRow& row, int64_t key_tile,
                  TileKind kind, const ForwardAhead<T>& ahead, bool first_tile) {
  const int64_t head_size = head.queries.columns;
  const int64_t columns = round_up(head.values.columns, kLanes);
  const int64_t query_stride = row_words<Gemm>(head_size);
  const int64_t steps = steps_of<Gemm>(head_size);
  const int64_t first_key = key_tile * kTile;
  const int64_t slot = key_tile % scratch.slots;
  const Word* keys = scratch.keys + slot * query_stride * kTile;
  const Word* values = scratch.values + slot * kTile / Gemm::kDepth * columns;
  constexpr int64_t kRowGroup = Gemm::kRowGroup;
  const int64_t num_groups = divide_up(row.num_queries, kRowGroup);
  int64_t num_keys[kTile / kRowGroup], vectors[kTile / kRowGroup];
  for (int64_t group = 0; group < num_groups; ++group) {
    const int64_t first_row = group * kRowGroup;
    num_keys[group] =
        kind == TileKind::kWhole ? kTile : keys_of_rows(head.masks, row, first_row, kRowGroup, first_key);
    vectors[group] = vectors_of<Gemm>(num_keys[group]);
    prefetch_rows(ahead.queries, first_row, kRowGroup);
    prefetch_rows(ahead.keys, first_row, kRowGroup);
    prefetch_rows(ahead.values, first_row, kRowGroup);
    prefetch_rows<true>(ahead.outputs, first_row, kRowGroup);
    multiply_rows<Gemm>(scratch.scores + first_row * kTile, kTile, scratch.queries + first_row * query_stride,
                        query_stride, 1, keys, kTile, vectors[group], steps, kOverwrite);
  }
  if (head.scale.cap != 0.0f) cap_tile<Gemm>(scratch.scores, vectors, num_groups, head.scale);
  if (kind == TileKind::kMasked) {
    seen_keys(scratch.seen, head.masks, first_key);
    for (int64_t index = 0; index < num_groups * kRowGroup; ++index) {
      hide_keys(scratch.scores + index * kTile, head.masks, row.first_query + index, first_key, scratch.seen,
                vectors[index / kRowGroup]);
    }
  }
  const bool whole = kind == TileKind::kWhole;
  auto* softmax = head.dropout.active
                      ? (whole ? softmax_tile<Gemm, true, true> : softmax_tile<Gemm, true, false>)
                      : (whole ? softmax_tile<Gemm, false, true> : softmax_tile<Gemm, false, false>);
  const float slack = Gemm::kOnTiles && head.highest_score == nullptr ? kSlack : 0.0f;
  softmax(scratch, vectors, num_groups * kRowGroup, ScoreScale::to_base_two(head.scale), slack, head.dropout,
          row.first_query, first_key);
  for (int64_t group = 0; group < num_groups; ++group) {
    const int64_t first_row = group * kRowGroup;
    const Word* left = scratch.probabilities + first_row * kTile / Gemm::kDepth;
    multiply_rows<Gemm>(scratch.output + first_row * columns, columns, left, kTile / Gemm::kDepth, 1, values,
                        columns, columns / kLanes, steps_of<Gemm>(num_keys[group]),
                        first_tile ? kOverwrite : scratch.factors + first_row);
  }
}

// Raises a head's highest score to the maximum of `maxima` (in base 2). Threads that compute other samples
// and parts may raise it at the same time.
__attribute__((noinline)) void raise_highest(float* highest, const float* maxima, int64_t count) {
  float greatest = maxima[0];
  for (int64_t row = 1; row < count; ++row) greatest = maxima[row] > greatest ? maxima[row] : greatest;
  if (!(greatest > kNoMaximum)) return;  // no query saw a key
  greatest *= kLn2;
  float before;
  __atomic_load(highest, &before, __ATOMIC_RELAXED);
  while (greatest > before &&
         !__atomic_compare_exchange(highest, &before, &greatest, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}

// Computes the weighted sums [columns] of values, over the keys to which a query attends. `highest` is the
// highest score of these keys, in base 2.
template <typename T>
__attribute__((noinline)) void sum_seen_values(float* sums, const ForwardHead<T>& head, int64_t query, float highest) {
  const int64_t size = head.queries.columns, value_size = head.values.columns;
  const KeyRange seen = SampleMasks::keys_of(head.masks, query);
  DroppedColumns dropped;
  VInt kept[kTileVectors];
  for (int64_t column = 0; column < value_size; column += kLanes) store(sums + column, VFloat{});
  for (int64_t key = seen.begin; key < seen.end; ++key) {
    if (head.dropout.active && (key == seen.begin || key % kTile == 0)) {
      set_dropped_columns(&dropped, head.dropout, key / kTile * kTile);
      keep_masks(kept, head.dropout, dropped, query);
    }
    if (head.masks.key_mask != nullptr && head.masks.key_mask[key] == 0) continue;
    VFloat products = {};
    for (int64_t d = 0; d < size; d += kLanes) {
      products += load_up_to(head.queries.data + query * head.queries.stride + d, size - d) *
                  load_up_to(head.keys.data + key * head.keys.stride + d, size - d);
    }
    float score[kLanes];
    store(score, splat(sum(products)));
    if (head.scale.cap != 0.0f) cap_scores(score, 1, head.scale);
    VFloat weight = power_of_two<false>(load(score) * ScoreScale::to_base_two(head.scale) - highest);
    if (head.dropout.active) weight = keep(weight, kept[key % kTile / kLanes][key % kLanes] - VInt{});
    for (int64_t column = 0; column < value_size; column += kLanes) {
      store(sums + column, load(sums + column) + weight * load_up_to(head.values.data + key * head.values.stride + column,
                                                                     value_size - column));
    }
  }
}

// Divides the sums of a tile of queries by the denominators, and writes outputs and statistics. If a row is
// not finite, it is computed again from only the keys to which its query attends. This is necessary because a
// tile's matmul multiplies the values of hidden keys by 0, which gives NaN if such a value is infinite or
// NaN.
template <typename T>
void finish_rows(const ForwardHead<T>& head, const ForwardScratch& scratch, const TileRow& row) {
  const int64_t value_size = head.values.columns;
  const int64_t columns = round_up(value_size, kLanes);
  float* factors = scratch.factors;
  for (int64_t index = 0; index < kTile; ++index) {
    factors[index] = sum(load(scratch.denominators + index * kLanes));
  }
  for (int64_t index = 0; index < kTile; index += kLanes) {
    const VFloat denominator = load(factors + index);
    const VInt empty = denominator == 0.0f;
    store(factors + index, select(empty, VFloat{}, head.dropout.inverse_keep / denominator));
    store(scratch.statistics + index, select(empty, splat(kNoMaximum),
                                     load(scratch.maxima + index) * kLn2 + natural_logarithm(denominator)));
  }
  with_matrix(head.outputs, [&](const auto& outputs) {
    for (int64_t index = 0; index < row.num_queries; ++index) {
      auto* const output = outputs.data + (row.first_query + index) * outputs.stride;
      float* const sums = scratch.output + index * columns;
      const auto write = [&]() {
        VFloat zeros = {};  // NaN where a value is not finite
        for (int64_t column = 0; column < columns; column += kLanes) {
          const VFloat value = load(sums + column) * factors[index];
          zeros += value * 0.0f;
          store_up_to(output + column, value, value_size - column);
        }
        return sum(zeros) == 0.0f;
      };
      if (write()) continue;
      const float statistic = scratch.statistics[index];
      if (statistic != statistic) continue;  // the query or a key that it sees is NaN
      sum_seen_values(sums, head, row.first_query + index, scratch.maxima[index]);
      write();
    }
  });
  if (head.highest_score != nullptr) raise_highest(head.highest_score, scratch.maxima, row.num_queries);
  for (int64_t index = 0; head.log_sum_exp != nullptr && index < row.num_queries; ++index) {
    head.log_sum_exp[row.first_query + index] = scratch.statistics[index];
  }
}

MTL_INLINE void fill_zero(float* values, int64_t count) {
  for (int64_t index = 0; index < count; index += kLanes) store(values + index, VFloat{});
}

// Returns the rows to prefetch while tile (query_tile, key_tile) is computed. `next_key_tile` is the tile of
// keys that follows, or key_tiles if none follows.
template <typename T>
ForwardAhead<T> look_ahead(const ForwardHead<T>& head, const ForwardHead<T>* next_head, const ForwardScratch& scratch,
                           const TileRow& row, int64_t next_query_tile, int64_t next_key_tile) {
  ForwardAhead<T> ahead = {};
  const int64_t key_tiles = (head.keys.rows + kTile - 1) / kTile;
  if (next_key_tile < key_tiles) {
    if (scratch.packed[next_key_tile]) return ahead;
    ahead.keys = rows_of(head.keys, next_key_tile * kTile);
    ahead.values = rows_of(head.values, next_key_tile * kTile);
    return ahead;
  }
  ahead.outputs = rows_of(head.outputs, row.first_query);
  if (next_query_tile * kTile < head.queries.rows) {
    ahead.queries = rows_of(head.queries, next_query_tile * kTile);
    // Causal attention continues with the keys at the same positions as the next queries.
    if (!head.masks.causal || next_query_tile >= key_tiles || scratch.packed[next_query_tile]) return ahead;
    ahead.keys = rows_of(head.keys, next_query_tile * kTile);
    ahead.values = rows_of(head.values, next_query_tile * kTile);
  } else if (next_head != nullptr) {
    ahead.queries = rows_of(next_head->queries, 0);
    ahead.keys = rows_of(next_head->keys, 0);
    ahead.values = rows_of(next_head->values, 0);
  }
  return ahead;
}

// Computes the query tiles part, part + num_parts, ... of one head.
template <typename Gemm, typename T>
void forward_head(const ForwardHead<T>& head, const ForwardHead<T>* next_head, const ForwardScratch& scratch,
                  int64_t part, int64_t num_parts) {
  const int64_t head_size = head.queries.columns;
  const int64_t columns = round_up(head.values.columns, kLanes);
  const int64_t key_tiles = (head.masks.num_keys + kTile - 1) / kTile;
  const int64_t query_tiles = (head.masks.num_queries + kTile - 1) / kTile;
  for (int64_t tile = 0; tile < key_tiles; ++tile) {
    scratch.key_kinds[tile] = static_cast<uint8_t>(key_tile_kind(head.masks, tile * kTile));
    scratch.packed[tile] = 0;
  }
  for (int64_t query_tile = part; query_tile < query_tiles; query_tile += num_parts) {
    const TileRow row = tile_row(head.masks, query_tile);
    fill_zero(scratch.denominators, kTile * kLanes);
    for (int64_t index = 0; index < kTile; index += kLanes) store(scratch.maxima + index, splat(kNoMaximum));
    const auto kind_of = [&](int64_t tile) {
      return tile_kind(row, tile * kTile, static_cast<TileKind>(scratch.key_kinds[tile]));
    };
    const auto next_seen = [&](int64_t tile) {
      while (tile < key_tiles && kind_of(tile) == TileKind::kSkipped) ++tile;
      return tile;
    };
    const int64_t first_tile = next_seen(0);
    if (first_tile == key_tiles) {
      fill_zero(scratch.output, kTile * columns);
    } else {
      pack_rows<Gemm>(scratch.queries, rows_of(head.queries, row.first_query));
    }
    for (int64_t key_tile = first_tile, next; key_tile < key_tiles; key_tile = next) {
      next = next_seen(key_tile + 1);
      if (!scratch.packed[key_tile]) {  // a single tile of queries uses each tile of keys once
        const int64_t slot = key_tile % scratch.slots;
        pack_transposed<Gemm>(scratch.keys + slot * row_words<Gemm>(head_size) * kTile,
                              rows_of(head.keys, key_tile * kTile));
        pack_columns<Gemm>(scratch.values + slot * kTile / Gemm::kDepth * columns,
                           rows_of(head.values, key_tile * kTile));
        scratch.packed[key_tile] = 1;
      }
      forward_tile<Gemm>(head, scratch, row, key_tile, kind_of(key_tile),
                         look_ahead(head, next_head, scratch, row, query_tile + num_parts, next),
                         key_tile == first_tile);
    }
    finish_rows(head, scratch, row);
  }
}

MTL_INLINE ScoreScale scale_of(const AttentionProblem& problem) {
  return {static_cast<float>(problem.scale), static_cast<float>(problem.soft_cap)};
}

template <typename T>
MTL_INLINE ForwardHead<T> forward_head_of(const AttentionProblem& problem, int64_t number) {
  const int64_t batch = number / problem.heads, head = number % problem.heads;
  float *const log_sum_exp = static_cast<float*>(problem.log_sum_exp),
               *const highest_scores = static_cast<float*>(problem.highest_scores);
  return {matrix_of<const T>(problem, problem.query, batch, head, problem.num_queries, problem.head_size),
          matrix_of<const T>(problem, problem.key, batch, head, problem.num_keys, problem.head_size),
          matrix_of<const T>(problem, problem.value, batch, head, problem.num_keys, problem.value_size),
          results_of<T>(problem, problem.output, batch, head, problem.num_queries, problem.value_size),
          log_sum_exp == nullptr ? nullptr : log_sum_exp + statistics_at(problem, batch, head),
          highest_scores == nullptr ? nullptr : highest_scores + head,
          masks_of(problem, batch),
          dropout_of(problem, batch, head),
          scale_of(problem)};
}

template <typename Gemm>
int64_t forward_bytes_of_thread(const AttentionProblem& problem) {
  Carver counter = {nullptr, 0};
  carve_forward<Gemm>(&counter, problem);
  return counter.used;
}

// Returns the number of bytes of scratch memory that `forward_all` needs.
template <typename Gemm>
int64_t forward_bytes(const AttentionProblem& problem) {
  return forward_bytes_of_thread<Gemm>(problem) * num_threads();
}

// Computes all heads in parallel. Results do not depend on which thread computes which part.
template <typename Gemm, typename T>
Status forward_all(const AttentionProblem& problem) {
  const int64_t num_heads = problem.batch * problem.heads, num_queries = problem.num_queries;
  const int threads = num_threads();
  const int64_t bytes_of_thread = forward_bytes_of_thread<Gemm>(problem);
  const Scratch memory(static_cast<uint64_t>(forward_bytes<Gemm>(problem)));
  if (memory.data == nullptr) {
    return error_status("MTL_OUT_OF_MEMORY", "no %lld bytes of scratch memory for attention",
                        static_cast<long long>(forward_bytes<Gemm>(problem)));
  }
  const int64_t parts = parts_per_head(num_heads, threads, (num_queries + kTile - 1) / kTile);
  // each thread takes several consecutive heads, because they are neighbours in memory, so that the thread
  // can prefetch the next head
  const int64_t chunk = larger(1, num_heads * parts / (8 * threads));
  for_tasks(num_heads * parts, chunk, threads, [&](int64_t task, int thread) {
    Carver carver = {static_cast<char*>(memory.data) + bytes_of_thread * thread, 0};
    const ForwardScratch scratch = carve_forward<Gemm>(&carver, problem);
    const int64_t head = task / parts;
    const ForwardHead<T> next_head = forward_head_of<T>(problem, smaller(head + 1, num_heads - 1));
    Gemm::begin();
    forward_head<Gemm>(forward_head_of<T>(problem, head), parts == 1 && head + 1 < num_heads ? &next_head : nullptr, scratch,
                       task % parts, parts);
    Gemm::end();
  });
  return ok_status();
}

}  // namespace
}  // namespace mtl

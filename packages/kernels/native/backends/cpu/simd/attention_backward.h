// The backward pass of attention for one head (see Dao et al. 2022, 2023). For every tile of keys, it loops
// over the tiles of queries:
//   P = e^(scale * Q @ K^T - logSumExp)    dP = dO @ V^T (dropout applied)    dS = P * (dP - delta)
//   dV += P^T @ dO    dK += dS^T @ Q    dQ += dS @ K    with delta = rowSums, the row sums of dO * O
// The gradients of a tile's keys and values are complete after the loop over the queries; the gradients of
// queries are summed over all tiles of keys.
#pragma once

#include "backends/cpu/simd/attention_online.h"

namespace mtl {
namespace {

// One query head of one sample, with its group's keys and values.
template <typename T>
struct BackwardHead {
  Matrix<const T> queries, keys, values, output_gradients;
  Results<T> query_gradients, key_gradients, value_gradients;
  bool accumulate;  // adds to the old gradients
  const float *log_sum_exp, *row_sums;
  SampleMasks masks;
  Dropout dropout;
  ScoreScale scale;
};

// The progress of a tile of queries. kPrepared: packed, and its gradients are partly summed. kWritten: its
// gradients are written.
enum class TileState : uint8_t { kUntouched, kPrepared, kWritten };

// Per-thread memory. Matmuls sum over the head size of `rows` operands (for output gradients, over the
// values' head size), and over the sequence of `columns` operands. With float32 arithmetic, both kinds of
// operands contain the same words. On tiles, the queries' `columns` operands are transposed (see
// pack_columns_as_rows), and so are the gradients of a tile of keys.
struct BackwardScratch {
  Word *query_rows, *query_columns, *output_gradient_rows, *output_gradient_columns;   // whole heads of a group
  Word *keys_transposed, *values_transposed, *key_columns;                             // one tile
  Word *probabilities, *score_gradients, *score_gradient_rows;                         // one tile
  float *scores, *probability_gradients, *key_gradients, *value_gradients;             // one tile
  int32_t* seen;                                                                       // one tile
  float *log_sum_exp, *delta;                                                          // whole heads; base 2
  TileState* states;                                                                   // for tiles of these heads
  TileRow* tile_rows;                                                                  // for every head
};

// Returns how many columns an operand or a sum needs if its rows have `size` elements. The result includes
// additional columns that a matmul computes.
template <typename Gemm>
MTL_INLINE int64_t padded_columns(int64_t size) {
  return round_up(size, Gemm::kOnTiles ? Gemm::kRowGroup : kLanes);
}

template <typename Gemm>
BackwardScratch carve_backward(Carver* carver, const AttentionProblem& problem, int64_t members) {
  constexpr bool kShared = Gemm::kDepth == 1;
  const int64_t sequence = problem.num_queries;
  const int64_t words = row_words<Gemm>(problem.head_size), columns = padded_columns<Gemm>(problem.head_size);
  const int64_t value_words = row_words<Gemm>(problem.value_size), value_columns = padded_columns<Gemm>(problem.value_size);
  const int64_t padded = members * round_up(sequence, kTile);  // positions of the queries of all heads in a group
  BackwardScratch scratch;
  scratch.query_rows = carve<Word>(carver, padded * words);
  scratch.output_gradient_rows = carve<Word>(carver, padded * value_words);
  scratch.query_columns = kShared ? scratch.query_rows : carve<Word>(carver, padded / Gemm::kDepth * columns);
  scratch.output_gradient_columns =
      kShared ? scratch.output_gradient_rows : carve<Word>(carver, padded / Gemm::kDepth * value_columns);
  scratch.keys_transposed = carve<Word>(carver, words * kTile);
  scratch.values_transposed = carve<Word>(carver, value_words * kTile);
  scratch.key_columns = carve<Word>(carver, kTile / Gemm::kDepth * columns);
  scratch.scores = carve<float>(carver, kTile * kTile);
  scratch.probability_gradients = carve<float>(carver, kTile * kTile);
  scratch.probabilities =
      kShared ? reinterpret_cast<Word*>(scratch.scores) : carve<Word>(carver, kTile * kTile / Gemm::kDepth);
  scratch.score_gradients =
      kShared ? reinterpret_cast<Word*>(scratch.probability_gradients)
              : carve<Word>(carver, kTile * kTile / Gemm::kDepth);
  scratch.score_gradient_rows =
      kShared ? scratch.score_gradients : carve<Word>(carver, kTile * kTile / Gemm::kDepth);
  scratch.key_gradients = carve<float>(carver, kTile * columns);
  scratch.value_gradients = carve<float>(carver, kTile * value_columns);
  scratch.seen = carve<int32_t>(carver, kTile);
  scratch.log_sum_exp = carve<float>(carver, padded);
  scratch.delta = carve<float>(carver, padded);
  scratch.states = carve<TileState>(carver, padded / kTile);
  scratch.tile_rows = carve<TileRow>(carver, round_up(sequence, kTile) / kTile);
  return scratch;
}

// Returns the scratch memory of head `member` in the group.
template <typename Gemm>
BackwardScratch of_member(BackwardScratch scratch, const AttentionProblem& problem, int64_t member) {
  const int64_t first = member * round_up(problem.num_queries, kTile);
  scratch.query_rows += first * row_words<Gemm>(problem.head_size);
  scratch.output_gradient_rows += first * row_words<Gemm>(problem.value_size);
  scratch.query_columns += first / Gemm::kDepth * padded_columns<Gemm>(problem.head_size);
  scratch.output_gradient_columns += first / Gemm::kDepth * padded_columns<Gemm>(problem.value_size);
  scratch.log_sum_exp += first;
  scratch.delta += first;
  scratch.states += first / kTile;
  return scratch;
}

// Packs a tile of queries and output gradients, and copies the tile's statistics.
template <typename Gemm, typename T>
void prepare_queries(const BackwardHead<T>& head, const BackwardScratch& scratch, float* query_gradients,
                     int64_t first) {
  const int64_t sequence = head.queries.rows, size = head.queries.columns, value_size = head.values.columns;
  const int64_t columns = round_up(size, kLanes);
  const Matrix<const T> output_gradients = rows_of(head.output_gradients, first);
  pack_rows<Gemm>(scratch.query_rows + first * row_words<Gemm>(size), rows_of(head.queries, first));
  pack_rows<Gemm>(scratch.output_gradient_rows + first * row_words<Gemm>(value_size), output_gradients);
  Word* const query_columns = scratch.query_columns + first / Gemm::kDepth * padded_columns<Gemm>(size);
  Word* const output_gradient_columns =
      scratch.output_gradient_columns + first / Gemm::kDepth * padded_columns<Gemm>(value_size);
  if constexpr (Gemm::kOnTiles) {
    pack_columns_as_rows<Gemm>(query_columns, rows_of(head.queries, first));
    pack_columns_as_rows<Gemm>(output_gradient_columns, output_gradients);
  } else if constexpr (Gemm::kDepth > 1) {
    pack_columns<Gemm>(query_columns, rows_of(head.queries, first));
    pack_columns<Gemm>(output_gradient_columns, output_gradients);
  }
  for (int64_t row = first; row < first + kTile; ++row) {
    // rows after the last query get the probability e^(0 - huge) = 0
    const bool real = row < sequence;
    scratch.log_sum_exp[row] = (real ? head.log_sum_exp[row] : -kNoMaximum) * kLog2E;
    scratch.delta[row] = real ? head.row_sums[row] : 0.0f;
  }
  fill_zero(query_gradients + first * columns, kTile * columns);
  scratch.states[first / kTile] = TileState::kPrepared;
}

// The rows to prefetch: inputs of the next tiles and outputs of the current tile. A matrix without rows is
// not prefetched.
template <typename T>
struct BackwardAhead {
  Matrix<const T> queries, output_gradients, keys, values;
  Results<T> query_gradients, key_gradients, value_gradients;
};

// Returns the rows to prefetch while tile `tile` of queries is computed with the key tile that precedes
// `next_key_tile`.
template <typename T>
BackwardAhead<T> look_ahead(const BackwardHead<T>& head, const BackwardHead<T>* next_head,
                            const BackwardScratch& scratch, int64_t tile, int64_t next_key_tile) {
  BackwardAhead<T> ahead = {};
  int64_t next_tile = tile + 1;
  const BackwardHead<T>* source = &head;
  const bool end_of_row = next_tile * kTile >= head.queries.rows;
  const bool end_of_head = end_of_row && next_key_tile * kTile >= head.keys.rows;
  if (end_of_head) {
    if (next_head == nullptr) return ahead;
    source = next_head;
    next_tile = next_key_tile = 0;
  }
  if (end_of_row) {
    ahead.keys = rows_of(source->keys, next_key_tile * kTile);
    ahead.values = rows_of(source->values, next_key_tile * kTile);
  }
  if (end_of_head || (!end_of_row && scratch.states[next_tile] == TileState::kUntouched)) {
    ahead.queries = rows_of(source->queries, next_tile * kTile);
    ahead.output_gradients = rows_of(source->output_gradients, next_tile * kTile);
  }
  return ahead;
}

// Stores a vector of probabilities and a vector of score gradients. They belong to one row, or to two rows if
// each word contains a pair of values from these rows.
template <typename Gemm>
MTL_INLINE void store_gradients(const BackwardScratch& scratch, int64_t row, int64_t vector, const VFloat* probability,
                                const VFloat* gradient) {
  const int64_t at = row / Gemm::kDepth * kTile + vector * kLanes;
  if constexpr (Gemm::kDepth == 1) {
    store_words(scratch.probabilities + at, float_to_bits(probability[0]));
    store_words(scratch.score_gradients + at, float_to_bits(gradient[0]));
  } else {
    const VUint gradients = to_bfloat16_words(gradient[0], gradient[1]);
    store_words(scratch.probabilities + at, interleave_halves(to_bfloat16_words(probability[0], probability[1])));
    store_words(scratch.score_gradients + at, interleave_halves(gradients));
    Word* rows = scratch.score_gradient_rows + (row * kTile + vector * kLanes) / 2;
    const VHalfU* halves = reinterpret_cast<const VHalfU*>(&gradients);
    *reinterpret_cast<VHalfU*>(rows) = halves[0];
    *reinterpret_cast<VHalfU*>(rows + kTile / 2) = halves[1];
  }
}

// Computes one row of gradient_tile. In bfloat16, computes two rows, whose values form pairs in words.
template <typename Gemm, bool kDropout, bool kCapped, bool kWhole>
MTL_INLINE void gradient_row(const BackwardScratch& scratch, int64_t row, int64_t vectors, const ScoreScale& scale,
                             const Dropout& dropout, const DroppedColumns& dropped, int64_t first_query) {
  constexpr int kRows = Gemm::kDepth;
  const float to_base_two = ScoreScale::to_base_two(scale), inverse_cap = 1.0f / scale.cap;
  VInt masks[kRows][kTileVectors];
  for (int part = 0; kDropout && part < kRows; ++part) {
    keep_masks(masks[part], dropout, dropped, first_query + row + part);
  }
#pragma GCC unroll 4
  for (int64_t vector = 0; vector < vectors; ++vector) {
    VFloat probability[kRows], gradient[kRows];
    for (int part = 0; part < kRows; ++part) {
      const int64_t at = (row + part) * kTile + vector * kLanes;
      const int64_t query = first_query + row + part;
      const VFloat score = load(scratch.scores + at);
      const VFloat whole = power_of_two<kRows == 2, kWhole>(score * to_base_two - scratch.log_sum_exp[query]);
      VFloat output_part = load(scratch.probability_gradients + at);
      if (kDropout) output_part = keep(output_part * dropout.inverse_keep, masks[part][vector]);
      gradient[part] = whole * (output_part - scratch.delta[query]);
      if (kCapped) {  // times 1 - (score / cap)^2, which is 0 for a hidden key, as its probability is
        const VFloat ratio = maximum(score, splat(-scale.cap)) * inverse_cap;
        gradient[part] *= (1.0f - ratio) * (1.0f + ratio);
      }
      probability[part] = kDropout ? keep(whole, masks[part][vector]) : whole;
    }
    store_gradients<Gemm>(scratch, row, vector, probability, gradient);
  }
  const VFloat zeros[kRows] = {};
  for (int64_t vector = vectors; vector < kTileVectors; ++vector) {
    store_gradients<Gemm>(scratch, row, vector, zeros, zeros);
  }
}

// Converts a tile's scores and probability gradients into the operands of the three gradient matmuls. In each
// row, only the first vectors[row group] vectors have been computed (in a whole tile, all vectors). The
// remaining vectors become zero.
template <typename Gemm, bool kDropout, bool kCapped, bool kWhole>
void gradient_tile(const BackwardScratch& scratch, const int64_t* vectors, int64_t num_rows, const ScoreScale& scale,
                   const Dropout& dropout, int64_t first_query, int64_t first_key) {
  DroppedColumns dropped;
  if (kDropout) set_dropped_columns(&dropped, dropout, first_key);
  for (int64_t row = 0; row < num_rows; row += Gemm::kDepth) {
    gradient_row<Gemm, kDropout, kCapped, kWhole>(scratch, row, kWhole ? kTileVectors : vectors[row / Gemm::kRowGroup],
                                                  scale, dropout, dropped, first_query);
  }
}

// Adds left^T @ right to the sums of `key` and of the keys that are computed together with it. The sum over
// the queries begins at `first`. `left` has words [query, key] of probabilities or score gradients. `right`
// has `count` words of `columns` columns.
template <typename Gemm>
MTL_INLINE void add_key_gradient(float* sums, const Word* left, const Word* right, int64_t columns, int64_t key,
                                 int64_t first, int64_t count) {
  left += first * kTile + key;
  if constexpr (Gemm::kOnTiles) {
    constexpr int64_t kStride = kTile / Gemm::kDepth;  // of the left operand, which the columns are
    for (int64_t column = 0; column < columns; column += Gemm::kRowGroup) {
      multiply_rows<Gemm>(sums + column * kTile + key, kTile, right + column * kStride + first, kStride, 1, left, kTile,
                          Gemm::kRowGroup / kLanes, count, kAdd);
    }
  } else {
    multiply_rows<Gemm>(sums + key * columns, columns, left, 1, kTile, right + first * columns, columns,
                        columns / kLanes, count, kAdd);
  }
}

// Computes dV += P^T @ dO and dK += dS^T @ Q for the `num_rows` queries of a tile.
template <typename Gemm, typename T>
void add_key_gradients(const BackwardHead<T>& head, const BackwardScratch& scratch, const TileRow& row,
                       int64_t first_key, int64_t num_rows) {
  const int64_t columns = padded_columns<Gemm>(head.queries.columns), position = row.first_query / Gemm::kDepth;
  const int64_t value_columns = padded_columns<Gemm>(head.values.columns);
  for (int64_t key = 0; key < kTile; key += Gemm::kRowGroup) {
    // with causal attention, a query before the group's first key attends to none of the group's keys
    const int64_t first_position = head.masks.first_position + row.first_query;
    const int64_t hidden = head.masks.causal ? larger(0, first_key + key - first_position) : 0;
    const int64_t first = hidden / Gemm::kDepth / Gemm::kStepMultiple * Gemm::kStepMultiple;
    const int64_t count = num_rows / Gemm::kDepth - first;
    if (count <= 0) break;
    add_key_gradient<Gemm>(scratch.value_gradients, scratch.probabilities,
                           scratch.output_gradient_columns + position * value_columns, value_columns, key, first, count);
    add_key_gradient<Gemm>(scratch.key_gradients, scratch.score_gradients, scratch.query_columns + position * columns,
                           columns, key, first, count);
  }
}

// Returns the instance of gradient_tile for the given dropout and kind of tile.
template <typename Gemm, bool kCapped>
MTL_INLINE auto* gradient_of_tile(const Dropout& dropout, TileKind kind) {
  const bool whole = kind == TileKind::kWhole;
  return dropout.active
             ? (whole ? gradient_tile<Gemm, true, kCapped, true> : gradient_tile<Gemm, true, kCapped, false>)
             : (whole ? gradient_tile<Gemm, false, kCapped, true> : gradient_tile<Gemm, false, kCapped, false>);
}

template <typename Gemm, typename T>
void backward_tile(const BackwardHead<T>& head, const BackwardScratch& scratch, float* query_gradients,
                   const TileRow& row, int64_t first_key, TileKind kind, const BackwardAhead<T>& ahead) {
  const int64_t size = head.queries.columns, value_size = head.values.columns;
  const int64_t columns = round_up(size, kLanes);
  const int64_t stride = row_words<Gemm>(size), value_stride = row_words<Gemm>(value_size);
  const Word* queries = scratch.query_rows + row.first_query * stride;
  const Word* output_gradients = scratch.output_gradient_rows + row.first_query * value_stride;
  constexpr int64_t kRowGroup = Gemm::kRowGroup;
  const int64_t num_groups = divide_up(row.num_queries, kRowGroup);
  int64_t num_keys[kTile / kRowGroup], vectors[kTile / kRowGroup];
  for (int64_t group = 0; group < num_groups; ++group) {
    const int64_t first = group * kRowGroup;
    num_keys[group] =
        kind == TileKind::kWhole ? kTile : keys_of_rows(head.masks, row, first, kRowGroup, first_key);
    vectors[group] = vectors_of<Gemm>(num_keys[group]);
    prefetch_rows(ahead.queries, first, kRowGroup);
    prefetch_rows(ahead.output_gradients, first, kRowGroup);
    prefetch_rows(ahead.keys, first, kRowGroup);
    prefetch_rows(ahead.values, first, kRowGroup);
    prefetch_rows<true>(ahead.query_gradients, first, kRowGroup);
    prefetch_rows<true>(ahead.key_gradients, first, kRowGroup);
    prefetch_rows<true>(ahead.value_gradients, first, kRowGroup);
    multiply_rows<Gemm>(scratch.scores + first * kTile, kTile, queries + first * stride, stride, 1,
                        scratch.keys_transposed, kTile, vectors[group], steps_of<Gemm>(size), kOverwrite);
    multiply_rows<Gemm>(scratch.probability_gradients + first * kTile, kTile, output_gradients + first * value_stride,
                        value_stride, 1, scratch.values_transposed, kTile, vectors[group], steps_of<Gemm>(value_size),
                        kOverwrite);
  }
  const int64_t num_rows = num_groups * kRowGroup;
  if (head.scale.cap != 0.0f) cap_tile<Gemm>(scratch.scores, vectors, num_groups, head.scale);
  if (kind == TileKind::kMasked) {
    seen_keys(scratch.seen, head.masks, first_key);
    for (int64_t index = 0; index < num_rows; ++index) {
      hide_keys(scratch.scores + index * kTile, head.masks, row.first_query + index, first_key, scratch.seen,
                vectors[index / kRowGroup]);
    }
  }
  auto* gradient = head.scale.cap != 0.0f ? gradient_of_tile<Gemm, true>(head.dropout, kind)
                                          : gradient_of_tile<Gemm, false>(head.dropout, kind);
  gradient(scratch, vectors, num_rows, head.scale, head.dropout, row.first_query, first_key);

  add_key_gradients<Gemm>(head, scratch, row, first_key, num_rows);
  for (int64_t group = 0; group < num_groups; ++group) {
    const int64_t first = group * kRowGroup;
    multiply_rows<Gemm>(query_gradients + (row.first_query + first) * columns, columns,
                        scratch.score_gradient_rows + first * kTile / Gemm::kDepth, kTile / Gemm::kDepth, 1,
                        scratch.key_columns, columns, columns / kLanes,
                        steps_of<Gemm>(num_keys[group]), kAdd);
  }
}

// How gradients are written: as factor * sums, and added to the old values if `accumulate` is true.
struct Writing {
  float factor;
  bool accumulate;
};

// Writes one vector of a row. `count` is how many columns remain in the row.
template <typename T>
MTL_INLINE void write_values(T* destination, VFloat sums, int64_t count, const Writing& how) {
  const VFloat value = sums * how.factor;
  store_up_to(destination, how.accumulate ? load_up_to(destination, count) + value : value, count);
}

// Writes the gradients [row, column] that `sums` [row, column] contains.
template <typename T>
void write_gradients(const Results<T>& results, const float* sums, const Writing& how) {
  with_matrix(results, [&](const auto& gradients) {
    const int64_t size = gradients.columns, columns = round_up(size, kLanes);
    for (int64_t row = 0; row < gradients.rows; ++row) {
      auto* const destination = gradients.data + row * gradients.stride;
      for (int64_t column = 0; column < size; column += kLanes) {
        write_values(destination + column, load(sums + row * columns + column), size - column, how);
      }
    }
  });
}

// Writes the gradients of a tile of keys. If they were computed on tiles, their sums are transposed.
template <typename Gemm, typename T>
void write_key_gradients(const Results<T>& results, const float* sums, const Writing& how) {
  if constexpr (!Gemm::kOnTiles) {
    write_gradients(results, sums, how);
  } else {  // sums[column, row]
    with_matrix(results, [&](const auto& gradients) {
      for (int64_t row = 0; row < gradients.rows; row += kLanes) {
        for (int64_t column = 0; column < gradients.columns; column += kLanes) {
          VUint rows[kLanes];
          for (int lane = 0; lane < kLanes; ++lane) rows[lane] = float_to_bits(load(sums + (column + lane) * kTile + row));
          transpose(rows);
          for (int64_t lane = 0; lane < smaller(kLanes, gradients.rows - row); ++lane) {
            write_values(gradients.data + (row + lane) * gradients.stride + column, bits_to_float(rows[lane]),
                         gradients.columns - column, how);
          }
        }
      }
    });
  }
}

// One group's heads in one sample. `number` is the group's index, counted over all samples.
struct BackwardGroup {
  const AttentionProblem& problem;
  int64_t number;

  int64_t members() const { return problem.heads / problem.groups; }
  template <typename T>
  BackwardHead<T> head(int64_t member) const {
    const int64_t batch = number / problem.groups, a = number % problem.groups * members() + member;
    const auto operand = [&](const AttentionOperand& of, int64_t positions, int64_t size) {
      return matrix_of<const T>(problem, of, batch, a, positions, size);
    };
    const auto results = [&](const AttentionOperand& of, int64_t positions, int64_t size) {
      return results_of<T>(problem, of, batch, a, positions, size);
    };
    const int64_t queries = problem.num_queries, keys = problem.num_keys;
    return {operand(problem.query, queries, problem.head_size),
            operand(problem.key, keys, problem.head_size),
            operand(problem.value, keys, problem.value_size),
            operand(problem.output_gradient, queries, problem.value_size),
            results(problem.query_gradient, queries, problem.head_size),
            results(problem.key_gradient, keys, problem.head_size),
            results(problem.value_gradient, keys, problem.value_size),
            problem.accumulate,
            static_cast<const float*>(problem.log_sum_exp) + statistics_at(problem, batch, a),
            static_cast<const float*>(problem.row_sums) + statistics_at(problem, batch, a),
            masks_of(problem, batch),
            dropout_of(problem, batch, a),
            scale_of(problem)};
  }
};

// Processes one tile of keys with all queries of one head. Adds to the gradients of keys and values in
// `scratch`. `last` is true for the group's last head.
template <typename Gemm, typename T>
void backward_keys(const BackwardHead<T>& head, const BackwardHead<T>* next_head, const BackwardScratch& scratch,
                   float* query_gradients, int64_t key_tile, int64_t num_parts, bool last) {
  const SampleMasks& masks = head.masks;
  const int64_t columns = round_up(head.queries.columns, kLanes), first_key = key_tile * kTile;
  const int64_t tiles = (head.queries.rows + kTile - 1) / kTile;
  const TileKind key_kind = key_tile_kind(masks, first_key);
  const int64_t first_tile = masks.causal ? larger(0, first_key - masks.first_position) / kTile : 0;
  for (int64_t tile = first_tile; tile < tiles; ++tile) {
    const TileRow& row = scratch.tile_rows[tile];
    const TileKind kind = tile_kind(row, first_key, key_kind);
    if (kind == TileKind::kSkipped) continue;
    if (scratch.states[tile] == TileState::kUntouched) {
      prepare_queries<Gemm>(head, scratch, query_gradients, tile * kTile);
    }
    // no later tile of keys is visible to these queries
    const bool complete = num_parts == 1 && row.any.end <= first_key + kTile;
    BackwardAhead<T> ahead = look_ahead(head, next_head, scratch, tile, key_tile + num_parts);
    if (complete) ahead.query_gradients = rows_of(head.query_gradients, tile * kTile);
    if (last && tile + 1 == tiles) {
      ahead.key_gradients = rows_of(head.key_gradients, first_key);
      ahead.value_gradients = rows_of(head.value_gradients, first_key);
    }
    backward_tile<Gemm>(head, scratch, query_gradients, row, first_key, kind, ahead);
    if (!complete) continue;
    write_gradients(rows_of(head.query_gradients, tile * kTile), query_gradients + tile * kTile * columns,
                    {head.scale.factor, head.accumulate});
    scratch.states[tile] = TileState::kWritten;
  }
}

// Returns true if any of a head's queries attends to any key in the tile. The result is the same for all
// heads of a group.
MTL_INLINE bool is_seen(const SampleMasks& masks, const TileRow* rows, int64_t num_rows, int64_t first_key) {
  const TileKind key_kind = key_tile_kind(masks, first_key);
  for (int64_t row = 0; row < num_rows; ++row) {
    if (tile_kind(rows[row], first_key, key_kind) != TileKind::kSkipped) return true;
  }
  return false;
}

// Processes the key tiles part, part + num_parts, ... for all heads of a group. Writes the gradients of keys
// and values to the outputs. If this is the only part, also writes the gradients of queries. Otherwise they
// stay in query_gradients, which is [members, member_size] and has [S padded to tiles, columns] for each
// head.
template <typename Gemm, typename T>
void backward_group(const BackwardGroup& group, const BackwardHead<T>* next_head, const BackwardScratch& scratch,
                    float* query_gradients, int64_t member_size, int64_t part, int64_t num_parts) {
  const BackwardHead<T> first = group.head<T>(0);
  const int64_t members = group.members(), sequence = group.problem.num_queries, size = first.queries.columns;
  const int64_t columns = round_up(size, kLanes), tiles = (first.queries.rows + kTile - 1) / kTile;
  const int64_t key_tiles = (first.keys.rows + kTile - 1) / kTile, scratch_tiles = round_up(sequence, kTile) / kTile;
  for (int64_t tile = 0; tile < members * scratch_tiles; ++tile) scratch.states[tile] = TileState::kUntouched;
  for (int64_t tile = 0; tile < tiles; ++tile) scratch.tile_rows[tile] = tile_row(first.masks, tile);
  for (int64_t key_tile = part; key_tile < key_tiles; key_tile += num_parts) {
    const int64_t first_key = key_tile * kTile;
    fill_zero(scratch.key_gradients, kTile * padded_columns<Gemm>(size));
    fill_zero(scratch.value_gradients, kTile * padded_columns<Gemm>(group.problem.value_size));
    const bool seen = is_seen(first.masks, scratch.tile_rows, tiles, first_key);
    if (seen) {
      pack_transposed<Gemm>(scratch.keys_transposed, rows_of(first.keys, first_key));
      pack_transposed<Gemm>(scratch.values_transposed, rows_of(first.values, first_key));
      pack_columns<Gemm>(scratch.key_columns, rows_of(first.keys, first_key));
    }
    for (int64_t member = 0; seen && member < members; ++member) {
      const BackwardHead<T> head = member == 0 ? first : group.head<T>(member);
      backward_keys<Gemm>(head, member + 1 == members ? next_head : nullptr,
                          of_member<Gemm>(scratch, group.problem, member), query_gradients + member * member_size,
                          key_tile, num_parts, member + 1 == members);
    }
    if (!seen && first.accumulate) continue;
    write_key_gradients<Gemm>(rows_of(first.key_gradients, first_key), scratch.key_gradients, {first.scale.factor, first.accumulate});
    write_key_gradients<Gemm>(rows_of(first.value_gradients, first_key), scratch.value_gradients,
                              {first.dropout.inverse_keep, first.accumulate});
  }
  for (int64_t index = 0; index < members * tiles; ++index) {  // queries without keys in this part, or in the last tile
    const int64_t member = index / tiles, tile = index % tiles;
    const TileState state = scratch.states[member * scratch_tiles + tile];
    if (state == TileState::kWritten) continue;
    float* const sums = query_gradients + member * member_size + tile * kTile * columns;
    if (state == TileState::kUntouched) fill_zero(sums, kTile * columns);
    if (num_parts > 1 || (state == TileState::kUntouched && first.accumulate)) continue;
    write_gradients(rows_of(group.head<T>(member).query_gradients, tile * kTile), sums, {first.scale.factor, first.accumulate});
  }
}

// Sums the query gradients of all parts for a tile of queries, always in the same order, and writes the sum.
// The gradients of consecutive parts are `stride` floats apart in memory.
template <typename T>
void write_query_gradients(const BackwardHead<T>& head, float* parts, int64_t stride, int64_t num_parts,
                           int64_t first_query) {
  const int64_t columns = round_up(head.queries.columns, kLanes);
  const int64_t num_rows = smaller(kTile, head.queries.rows - first_query);
  float* total = parts + first_query * columns;
  for (int64_t part = 1; part < num_parts; ++part) {
    for (int64_t index = 0; index < num_rows * columns; index += kLanes) {
      store(total + index, load(total + index) + load(total + part * stride + index));
    }
  }
  write_gradients(rows_of(head.query_gradients, first_query), total, {head.scale.factor, head.accumulate});
}

// How backward_all divides its work and its scratch memory.
struct BackwardPlan {
  int threads;
  int64_t groups, members, tiles;  // tiles of queries
  int64_t parts;            // parts per group
  int64_t bytes_of_thread;  // scratch memory for tiles
  // the size of query gradients: for the current part if a thread computes whole groups, otherwise for all
  // parts
  int64_t member_size, part_size;
  int64_t bytes;  // total
};

template <typename Gemm>
BackwardPlan backward_plan(const AttentionProblem& problem) {
  BackwardPlan plan = {};
  plan.threads = num_threads();
  plan.groups = problem.batch * problem.groups;
  if (plan.groups == 0) return plan;
  plan.members = problem.heads / problem.groups;
  plan.tiles = (problem.num_queries + kTile - 1) / kTile;
  plan.parts = parts_per_head(plan.groups, plan.threads, (problem.num_keys + kTile - 1) / kTile);
  Carver counter = {nullptr, 0};
  carve_backward<Gemm>(&counter, problem, plan.members);
  plan.bytes_of_thread = counter.used;
  plan.member_size = plan.tiles * kTile * round_up(problem.head_size, kLanes);
  plan.part_size = plan.members * plan.member_size;
  const int64_t num_buffers = plan.parts == 1 ? plan.threads : plan.groups * plan.parts;
  plan.bytes = counter.used * plan.threads + num_buffers * plan.part_size * static_cast<int64_t>(sizeof(float));
  return plan;
}

template <typename Gemm, typename T>
Status backward_all(const AttentionProblem& problem) {
  const BackwardPlan plan = backward_plan<Gemm>(problem);
  const int threads = plan.threads;
  const int64_t groups = plan.groups, members = plan.members, tiles = plan.tiles, parts = plan.parts;
  const int64_t bytes_of_thread = plan.bytes_of_thread, member_size = plan.member_size, part_size = plan.part_size;
  if (groups == 0) return ok_status();
  const Scratch memory(static_cast<uint64_t>(plan.bytes));
  if (memory.data == nullptr) {
    return error_status("MTL_OUT_OF_MEMORY", "no %lld bytes of scratch memory for attention",
                        static_cast<long long>(plan.bytes));
  }
  char* const base = static_cast<char*>(memory.data);
  float* const buffers = reinterpret_cast<float*>(base + bytes_of_thread * threads);
  // each thread takes several consecutive groups, because they are neighbours in memory, so that the thread
  // can prefetch the next group
  const int64_t chunk = larger(1, groups * parts / (8 * threads));
  for_tasks(groups * parts, chunk, threads, [&](int64_t task, int thread) {
    Carver carver = {base + bytes_of_thread * thread, 0};
    const BackwardScratch scratch = carve_backward<Gemm>(&carver, problem, members);
    float* query_gradients = buffers + (parts == 1 ? thread : task) * part_size;
    const BackwardGroup group = {problem, task / parts}, next = {problem, smaller(task / parts + 1, groups - 1)};
    const BackwardHead<T> next_head = next.head<T>(0);
    Gemm::begin();
    backward_group<Gemm>(group, parts == 1 && task + 1 < groups ? &next_head : nullptr, scratch, query_gradients,
                         member_size, task % parts, parts);
    Gemm::end();
  });
  if (parts == 1) return ok_status();
  for_each(groups * members * tiles, groups * parts * part_size, [&](int64_t task) {
    const int64_t head = task / tiles, group = head / members, member = head % members;
    write_query_gradients(BackwardGroup{problem, group}.head<T>(member),
                          buffers + group * parts * part_size + member * member_size, part_size, parts,
                          task % tiles * kTile);
  });
  return ok_status();
}

}  // namespace
}  // namespace mtl

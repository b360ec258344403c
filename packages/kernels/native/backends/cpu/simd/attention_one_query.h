// Attention for a single query of one head, as in a step of generation. Every key and value is used only
// once, so keys and values are read sequentially, at memory bandwidth, instead of being packed into tiles.
#pragma once

#include "backends/cpu/simd/attention_online.h"

namespace mtl {
namespace {

template <typename T>
struct OneQuery {
  const T* query;          // [head_size]
  Matrix<const T> keys;    // that the query attends to, [num_keys, head_size]
  Matrix<const T> values;  // [num_keys, value_size]
  Results<T> output;       // [1, value_size]
  ScoreScale scale;
};

// Per-thread memory: the query and the running sum of values, both as float, and the scores for a tile of
// keys.
struct OneQueryScratch {
  float *query, *sums, *scores;
};

MTL_INLINE OneQueryScratch carve_one_query(Carver* carver, const AttentionProblem& problem) {
  return {carve<float>(carver, round_up(problem.head_size, kLanes)),
          carve<float>(carver, round_up(problem.value_size, kLanes)), carve<float>(carver, kTile)};
}

// Returns the dot product of the query and a key. `query` must be padded with zeros to whole vectors.
template <typename T>
MTL_INLINE float score_of(const float* query, const T* key, int64_t head_size) {
  VFloat products = {};
  for (int64_t column = 0; column < head_size; column += kLanes) {
    products += load(query + column) * load_up_to(key + column, head_size - column);
  }
  return sum(products);
}

// Computes sums = factor * sums + weights^T @ values for `kVectors` vectors of columns. The sums stay in
// registers.
template <int kVectors, typename T>
MTL_INLINE void add_values(float* sums, float factor, const float* weights, const T* values, int64_t stride,
                           int64_t num_keys, int64_t size, int64_t column) {
  VFloat running[kVectors];
  for (int vector = 0; vector < kVectors; ++vector) running[vector] = load(sums + column + vector * kLanes) * factor;
  for (int64_t key = 0; key < num_keys; ++key) {
    const T* row = values + key * stride + column;
    for (int vector = 0; vector < kVectors; ++vector) {
      // if there is more than one vector, all vectors are complete
      const VFloat value = kVectors > 1 ? load(row + vector * kLanes) : load_up_to(row, size - column);
      running[vector] += weights[key] * value;
    }
  }
  for (int vector = 0; vector < kVectors; ++vector) store(sums + column + vector * kLanes, running[vector]);
}

// Processes the keys tile by tile, with a running maximum and denominator as in attention_online.h. The
// probabilities stay in float.
template <typename T>
void attend_one_query(const OneQuery<T>& head, const OneQueryScratch& scratch) {
  constexpr int kVectors = 4;
  const int64_t size = head.keys.columns, value_size = head.values.columns;
  for (int64_t column = 0; column < size; column += kLanes) {
    store(scratch.query + column, load_up_to(head.query + column, size - column));
  }
  fill_zero(scratch.sums, value_size);
  const float to_base_two = ScoreScale::to_base_two(head.scale);
  float highest = kNoMaximum;
  VFloat denominator = {};
  for (int64_t first = 0; first < head.keys.rows; first += kTile) {
    const int64_t num_keys = smaller(kTile, head.keys.rows - first);
    const int64_t vectors = (num_keys + kLanes - 1) / kLanes;
    for (int64_t key = 0; key < num_keys; ++key) {
      scratch.scores[key] = score_of(scratch.query, head.keys.data + (first + key) * head.keys.stride, size);
    }
    if (head.scale.cap != 0.0f) cap_scores(scratch.scores, vectors, head.scale);
    for (int64_t vector = 0; vector < vectors; ++vector) {
      store(scratch.scores + vector * kLanes, load(scratch.scores + vector * kLanes) * to_base_two);
    }
    for (int64_t key = num_keys; key < vectors * kLanes; ++key) scratch.scores[key] = kHidden;
    const float before = highest, of_tile = highest_score(scratch.scores, vectors);
    highest = of_tile > before ? of_tile : before;
    const float factor = power_of_two<false>(splat(before - highest))[0];
    denominator *= factor;
    for (int64_t vector = 0; vector < vectors; ++vector) {
      const VFloat weight = power_of_two<false>(load(scratch.scores + vector * kLanes) - highest);
      store(scratch.scores + vector * kLanes, weight);
      denominator += weight;
    }
    const T* values = head.values.data + first * head.values.stride;
    int64_t column = 0;
    for (; column + kVectors * kLanes <= value_size; column += kVectors * kLanes) {
      add_values<kVectors>(scratch.sums, factor, scratch.scores, values, head.values.stride, num_keys, value_size, column);
    }
    for (; column < value_size; column += kLanes) {
      add_values<1>(scratch.sums, factor, scratch.scores, values, head.values.stride, num_keys, value_size, column);
    }
  }
  const float inverse = 1.0f / sum(denominator);
  with_matrix(head.output, [&](const auto& output) {
    for (int64_t column = 0; column < value_size; column += kLanes) {
      store_up_to(output.data + column, load(scratch.sums + column) * inverse, value_size - column);
    }
  });
}

inline int one_query_threads(const AttentionProblem& problem) {
  const int64_t elements = problem.batch * problem.heads * problem.num_keys * (problem.head_size + problem.value_size) / 2;
  return threads_for(elements);
}

inline int64_t one_query_bytes_of_thread(const AttentionProblem& problem) {
  Carver counter = {nullptr, 0};
  carve_one_query(&counter, problem);
  return counter.used;
}

// Returns the number of bytes of scratch memory that `attend_one_query_all` needs.
inline int64_t one_query_bytes(const AttentionProblem& problem) {
  return one_query_bytes_of_thread(problem) * one_query_threads(problem);
}

// Returns true if `attend_one_query_all` can compute a problem: it has one query, which attends to a range of
// at least one key, and neither statistics nor dropout.
inline bool has_one_query(const AttentionProblem& problem) {
  const int64_t position = problem.first_query - problem.first_key;
  return problem.num_queries == 1 && position >= 0 && position < problem.num_keys && problem.log_sum_exp == nullptr &&
         problem.highest_scores == nullptr && problem.starts == nullptr && problem.key_start == nullptr && problem.key_mask == nullptr &&
         problem.dropout_probability == 0.0;
}

// Computes all heads of a problem for which has_one_query is true. Uses several threads if the keys and
// values to read are large enough. Results do not depend on the number of threads.
template <typename T>
Status attend_one_query_all(const AttentionProblem& problem) {
  const int64_t num_heads = problem.batch * problem.heads, num_keys = problem.num_keys;
  const int threads = one_query_threads(problem);
  const int64_t bytes_of_thread = one_query_bytes_of_thread(problem);
  const Scratch memory(static_cast<uint64_t>(one_query_bytes(problem)));
  if (memory.data == nullptr) {
    return error_status("MTL_OUT_OF_MEMORY", "no %lld bytes of scratch memory for attention",
                        static_cast<long long>(one_query_bytes(problem)));
  }
  for_tasks(num_heads, 1, threads, [&](int64_t head, int thread) {
    Carver carver = {static_cast<char*>(memory.data) + bytes_of_thread * thread, 0};
    const int64_t batch = head / problem.heads, of_batch = head % problem.heads;
    const KeyRange seen = SampleMasks::keys_of(masks_of(problem, batch), 0);
    const auto seen_rows = [&](const AttentionOperand& operand, int64_t size) -> Matrix<const T> {
      const Matrix<const T> all = matrix_of<const T>(problem, operand, batch, of_batch, num_keys, size);
      return {all.data + seen.begin * all.stride, all.stride, seen.end - seen.begin, size};
    };
    attend_one_query(OneQuery<T>{matrix_of<const T>(problem, problem.query, batch, of_batch, 1, problem.head_size).data,
                                 seen_rows(problem.key, problem.head_size),
                                 seen_rows(problem.value, problem.value_size),
                                 results_of<T>(problem, problem.output, batch, of_batch, 1, problem.value_size),
                                 scale_of(problem)},
                     carve_one_query(&carver, problem));
  });
  return ok_status();
}

}  // namespace
}  // namespace mtl

// The formulas of attention, computed for one score at a time, in double. S is the number of queries, K the
// number of keys, D the head size of queries and keys, and E the head size of values.
#include "ops/attention.h"

#include <cmath>

#include "backends/cpu/reference/element.h"
#include "core/caching_allocator.h"

namespace mtl::reference {
namespace {

// One query head of one sample.
struct Head {
  const AttentionProblem& problem;
  int64_t batch, head;

  int64_t num_queries() const { return length_of(problem.query_starts, batch, problem.num_queries); }
  int64_t num_keys() const { return length_of(problem.starts, batch, problem.num_keys); }
  int64_t position_of(int64_t query) const { return first_query_of(problem, batch) + query; }
  int64_t statistics_index(int64_t query) const { return statistics_at(problem, batch, head) + query; }
  int64_t index(const AttentionOperand& operand, int64_t position, int64_t d) const {
    return head_at(problem, operand, batch, head) + position * operand.position + d;
  }
  TensorView view(const AttentionOperand& operand) const { return {operand.data, operand.dtype}; }
  double element(const AttentionOperand& operand, int64_t position, int64_t d) const {
    return get(view(operand), index(operand, position, d));
  }
  // Stores `size` values in a row. If `add` is true, adds them to the row instead.
  void store(const AttentionOperand& operand, int64_t position, const double* values, int64_t size,
             bool add = false) const {
    for (int64_t d = 0; d < size; ++d) {
      set(view(operand), index(operand, position, d), add ? element(operand, position, d) + values[d] : values[d]);
    }
  }
  DType statistics_dtype() const { return problem.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }
  TensorView statistics() const { return {problem.log_sum_exp, statistics_dtype()}; }
  // returns the sum, over all keys, of each probability times its gradient
  double row_sum(int64_t query) const {
    return get(TensorView{const_cast<void*>(problem.row_sums), statistics_dtype()}, statistics_index(query));
  }

  bool visible(int64_t query, int64_t key) const {
    const int64_t own = position_of(query), other = first_key_of(problem, batch) + key;
    if (problem.causal && (other > own || other < own - problem.window)) return false;
    if (problem.key_start != nullptr && other < problem.key_start[batch * problem.num_queries + query]) return false;
    return problem.key_mask == nullptr || problem.key_mask[batch * problem.num_keys + key] != 0;
  }
  double score(int64_t query, int64_t key) const {
    double sum = 0.0;
    for (int64_t d = 0; d < problem.head_size; ++d) {
      sum += element(problem.query, query, d) * element(problem.key, key, d);
    }
    const double cap = problem.soft_cap;
    return cap == 0.0 ? problem.scale * sum : cap * std::tanh(problem.scale * sum / cap);
  }
  // Returns the derivative of a soft-capped score with respect to the score before the soft cap, without the
  // factor `scale`.
  double cap_derivative(double score) const {
    const double ratio = problem.soft_cap == 0.0 ? 0.0 : score / problem.soft_cap;
    return 1.0 - ratio * ratio;
  }
  // Returns the factor by which dropout multiplies a probability.
  double dropout_factor(int64_t query, int64_t key) const {
    if (problem.dropout_probability == 0.0) return 1.0;
    const uint32_t random =
        philox_element(problem.philox_key, first_key_of(problem, batch) + key, position_of(query), problem.samples[batch],
                       problem.head_offset + head);
    return random >= dropout_threshold(problem.dropout_probability) ? 1.0 / (1.0 - problem.dropout_probability) : 0.0;
  }
};

Status no_memory() { return error_status("MTL_OUT_OF_MEMORY", "no scratch memory for the reference attention"); }

void forward_query(const Head& head, int64_t query, double* sums) {
  const AttentionProblem& problem = head.problem;
  double maximum = -INFINITY;
  for (int64_t key = 0; key < head.num_keys(); ++key) {
    if (head.visible(query, key)) maximum = std::fmax(maximum, head.score(query, key));
  }
  if (problem.highest_scores != nullptr) {
    const TensorView highest = {problem.highest_scores, head.statistics_dtype()};
    set(highest, head.head, std::fmax(get(highest, head.head), maximum));
  }
  double denominator = 0.0;
  for (int64_t d = 0; d < problem.value_size; ++d) sums[d] = 0.0;
  for (int64_t key = 0; key < head.num_keys(); ++key) {
    if (!head.visible(query, key)) continue;
    const double weight = std::exp(head.score(query, key) - maximum);
    denominator += weight;
    const double kept = weight * head.dropout_factor(query, key);
    for (int64_t d = 0; d < problem.value_size; ++d) sums[d] += kept * head.element(problem.value, key, d);
  }
  const bool empty = denominator == 0.0;
  for (int64_t d = 0; d < problem.value_size; ++d) sums[d] = empty ? 0.0 : sums[d] / denominator;
  head.store(problem.output, query, sums, problem.value_size);
  if (problem.log_sum_exp == nullptr) return;
  set(head.statistics(), head.statistics_index(query), empty ? kEmptyLogSumExp : maximum + std::log(denominator));
}

Status forward_of(const AttentionProblem& problem) {
  const Scratch sums(static_cast<uint64_t>(problem.value_size) * sizeof(double));
  if (sums.data == nullptr) return no_memory();
  for (int64_t batch = 0; batch < problem.batch; ++batch) {
    for (int64_t a = 0; a < problem.heads; ++a) {
      const Head head{problem, batch, a};
      for (int64_t query = 0; query < head.num_queries(); ++query) {
        forward_query(head, query, static_cast<double*>(sums.data));
      }
    }
  }
  return ok_status();
}

// Adds one query's contribution to its head's gradients: [S, D] for queries, [K, D] for keys and [K, E] for
// values.
void backward_query(const Head& head, int64_t query, double* queries, double* keys, double* values) {
  const AttentionProblem& problem = head.problem;
  const int64_t size = problem.head_size, value_size = problem.value_size;
  const double log_sum_exp = get(head.statistics(), head.statistics_index(query));
  const double row_sum = head.row_sum(query);
  for (int64_t key = 0; key < head.num_keys(); ++key) {
    if (!head.visible(query, key)) continue;
    const double score = head.score(query, key), probability = std::exp(score - log_sum_exp);
    const double factor = head.dropout_factor(query, key);
    double probability_gradient = 0.0;
    for (int64_t d = 0; d < value_size; ++d) {
      const double gradient = head.element(problem.output_gradient, query, d);
      probability_gradient += factor * gradient * head.element(problem.value, key, d);
      values[key * value_size + d] += factor * probability * gradient;
    }
    const double score_gradient =
        problem.scale * head.cap_derivative(score) * probability * (probability_gradient - row_sum);
    for (int64_t d = 0; d < size; ++d) {
      queries[query * size + d] += score_gradient * head.element(problem.key, key, d);
      keys[key * size + d] += score_gradient * head.element(problem.query, query, d);
    }
  }
}

// Computes the heads of one group. The gradients for the group's keys and values are summed over the heads.
void backward_group(const AttentionProblem& problem, int64_t batch, int64_t first_head, double* gradients) {
  const int64_t size = problem.head_size, value_size = problem.value_size;
  double *const queries = gradients, *const keys = queries + problem.num_queries * size,
         *const values = keys + problem.num_keys * size;
  const Head first{problem, batch, first_head};
  for (int64_t index = 0; index < problem.num_keys * (size + value_size); ++index) keys[index] = 0.0;  // and values
  for (int64_t member = 0; member < problem.heads / problem.groups; ++member) {
    const Head head{problem, batch, first_head + member};
    for (int64_t index = 0; index < problem.num_queries * size; ++index) queries[index] = 0.0;
    for (int64_t query = 0; query < head.num_queries(); ++query) backward_query(head, query, queries, keys, values);
    for (int64_t query = 0; query < head.num_queries(); ++query) {
      head.store(problem.query_gradient, query, queries + query * size, size, problem.accumulate);
    }
  }
  for (int64_t key = 0; key < first.num_keys(); ++key) {
    first.store(problem.key_gradient, key, keys + key * size, size, problem.accumulate);
    first.store(problem.value_gradient, key, values + key * value_size, value_size, problem.accumulate);
  }
}

Status backward_of(const AttentionProblem& problem) {
  const int64_t count =
      (problem.num_queries + problem.num_keys) * problem.head_size + problem.num_keys * problem.value_size;
  const Scratch gradients(static_cast<uint64_t>(count) * sizeof(double));
  if (gradients.data == nullptr) return no_memory();
  for (int64_t batch = 0; batch < problem.batch; ++batch) {
    for (int64_t group = 0; group < problem.groups; ++group) {
      backward_group(problem, batch, group * (problem.heads / problem.groups), static_cast<double*>(gradients.data));
    }
  }
  return ok_status();
}

Status forward(const OpCall& call) {
  const AttentionProblem problem = attention_forward_problem(call);
  MTL_RETURN_IF_ERROR(prepare_packed_rows(call, problem));
  return forward_of(problem);
}

Status backward(const OpCall& call) {
  const AttentionProblem problem = attention_backward_problem(call);
  MTL_RETURN_IF_ERROR(prepare_packed_rows(call, problem));
  return backward_of(problem);
}

MTL_REGISTER_REFERENCE("attention_forward", forward);
MTL_REGISTER_REFERENCE("attention_backward", backward);

}  // namespace
}  // namespace mtl::reference

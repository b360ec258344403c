// The formulas of attention, one score at a time, in double. S sequence, B micro-batch, A heads, D head size.
#include "ops/attention.h"

#include <cmath>

#include "backends/cpu/reference/element.h"
#include "core/caching_allocator.h"

namespace mtl::reference {
namespace {

enum { kQuery, kKey, kValue };

// One head of one sample.
struct Head {
  const AttentionProblem& problem;
  const TensorView& qkv;
  int64_t batch, head;
  HeadRows rows;

  int64_t index(int64_t position, int part, int64_t d) const {
    return ((rows.first + position * rows.stride) * 3 + part) * problem.head_size + d;
  }
  int64_t output_index(int64_t position, int64_t d) const {
    return (rows.first + position * rows.stride) * problem.head_size + d;
  }
  int64_t statistics_index(int64_t position) const { return rows.statistics + position; }
  double element(int64_t position, int part, int64_t d) const { return get(qkv, index(position, part, d)); }

  bool visible(int64_t query, int64_t key) const {
    if (problem.causal && key > query) return false;
    if (problem.key_start != nullptr && key < problem.key_start[batch * problem.sequence + query]) return false;
    return problem.key_mask == nullptr || problem.key_mask[batch * problem.sequence + key] != 0;
  }
  double score(int64_t query, int64_t key) const {
    double sum = 0.0;
    for (int64_t d = 0; d < problem.head_size; ++d) sum += element(query, kQuery, d) * element(key, kKey, d);
    return problem.scale * sum;
  }
  // What dropout multiplies a probability by.
  double dropout_factor(int64_t query, int64_t key) const {
    if (problem.dropout_probability == 0.0) return 1.0;
    const uint32_t random =
        philox_element(problem.key, key, query, problem.samples[batch], problem.head_offset + head);
    return random >= dropout_threshold(problem.dropout_probability) ? 1.0 / (1.0 - problem.dropout_probability) : 0.0;
  }
};

Status no_memory() { return error_status("MTL_OUT_OF_MEMORY", "no scratch memory for the reference attention"); }

void forward_query(const Head& head, int64_t query, const TensorView& output, const TensorView& log_sum_exp,
                   double* sums) {
  const AttentionProblem& problem = head.problem;
  double maximum = -INFINITY;
  for (int64_t key = 0; key < head.rows.length; ++key) {
    if (head.visible(query, key)) maximum = std::fmax(maximum, head.score(query, key));
  }
  double denominator = 0.0;
  for (int64_t d = 0; d < problem.head_size; ++d) sums[d] = 0.0;
  for (int64_t key = 0; key < head.rows.length; ++key) {
    if (!head.visible(query, key)) continue;
    const double weight = std::exp(head.score(query, key) - maximum);
    denominator += weight;
    const double kept = weight * head.dropout_factor(query, key);
    for (int64_t d = 0; d < problem.head_size; ++d) sums[d] += kept * head.element(key, kValue, d);
  }
  const bool empty = denominator == 0.0;
  for (int64_t d = 0; d < problem.head_size; ++d) {
    set(output, head.output_index(query, d), empty ? 0.0 : sums[d] / denominator);
  }
  set(log_sum_exp, head.statistics_index(query), empty ? kEmptyLogSumExp : maximum + std::log(denominator));
}

Status forward_of(const OpCall& call, const AttentionProblem& problem) {
  const Scratch sums(static_cast<size_t>(problem.head_size) * sizeof(double));
  if (sums.data == nullptr) return no_memory();
  for (int64_t batch = 0; batch < problem.batch; ++batch) {
    for (int64_t a = 0; a < problem.heads; ++a) {
      const Head head{problem, call.tensor(kAttentionQkv), batch, a, head_rows(problem, batch, a)};
      for (int64_t query = 0; query < head.rows.length; ++query) {
        forward_query(head, query, call.tensor(kAttentionOutput), call.tensor(kAttentionLogSumExp),
                      static_cast<double*>(sums.data));
      }
    }
  }
  return ok_status();
}

// Adds what `query` contributes to gradients [S, 3, D].
void backward_query(const OpCall& call, const Head& head, int64_t query, double* gradients) {
  const AttentionProblem& problem = head.problem;
  const int64_t size = problem.head_size;
  const TensorView& output_gradient = call.tensor(kAttentionOutputGradient);
  const double log_sum_exp = get(call.tensor(kAttentionBackwardLogSumExp), head.statistics_index(query));
  double delta = 0.0;  // sum over keys of probability times its gradient
  for (int64_t d = 0; d < size; ++d) {
    const int64_t index = head.output_index(query, d);
    delta += get(output_gradient, index) * get(call.tensor(kAttentionBackwardOutput), index);
  }
  for (int64_t key = 0; key < head.rows.length; ++key) {
    if (!head.visible(query, key)) continue;
    const double probability = std::exp(head.score(query, key) - log_sum_exp);
    const double factor = head.dropout_factor(query, key);
    double probability_gradient = 0.0;
    for (int64_t d = 0; d < size; ++d) {
      const double gradient = get(output_gradient, head.output_index(query, d));
      probability_gradient += factor * gradient * head.element(key, kValue, d);
      gradients[(key * 3 + kValue) * size + d] += factor * probability * gradient;
    }
    const double score_gradient = problem.scale * probability * (probability_gradient - delta);
    for (int64_t d = 0; d < size; ++d) {
      gradients[(query * 3 + kQuery) * size + d] += score_gradient * head.element(key, kKey, d);
      gradients[(key * 3 + kKey) * size + d] += score_gradient * head.element(query, kQuery, d);
    }
  }
}

Status backward_of(const OpCall& call, const AttentionProblem& problem) {
  const int64_t count = problem.sequence * 3 * problem.head_size;
  const Scratch scratch(static_cast<size_t>(count) * sizeof(double));
  if (scratch.data == nullptr) return no_memory();
  double* gradients = static_cast<double*>(scratch.data);
  for (int64_t batch = 0; batch < problem.batch; ++batch) {
    for (int64_t a = 0; a < problem.heads; ++a) {
      const Head head{problem, call.tensor(kAttentionBackwardQkv), batch, a, head_rows(problem, batch, a)};
      for (int64_t index = 0; index < count; ++index) gradients[index] = 0.0;
      for (int64_t query = 0; query < head.rows.length; ++query) backward_query(call, head, query, gradients);
      for (int64_t position = 0; position < head.rows.length; ++position) {
        for (int part = 0; part < 3; ++part) {
          for (int64_t d = 0; d < problem.head_size; ++d) {
            set(call.tensor(kAttentionQkvGradient), head.index(position, part, d),
                gradients[(position * 3 + part) * problem.head_size + d]);
          }
        }
      }
    }
  }
  return ok_status();
}

Status forward(const OpCall& call) { return forward_of(call, attention_problem(call, kAttentionQkv)); }
Status backward(const OpCall& call) { return backward_of(call, attention_problem(call, kAttentionBackwardQkv)); }

// Zeros in the rows of [T, ...] that belong to no sample.
void clear_rest(const AttentionProblem& problem, const TensorView& tensor) {
  const int64_t row_size = problem.rows == 0 ? 0 : tensor.size() / problem.rows;
  for (int64_t index = problem.starts[problem.batch] * row_size; index < tensor.size(); ++index) set(tensor, index, 0.0);
}

Status packed_forward(const OpCall& call) {
  const AttentionProblem problem = packed_attention_problem(call, kAttentionQkv);
  MTL_RETURN_IF_ERROR(check_packed_starts(call, problem));
  clear_rest(problem, call.tensor(kAttentionOutput));
  for (int64_t head = 0; head < problem.heads; ++head) {
    for (int64_t row = problem.starts[problem.batch]; row < problem.rows; ++row) {
      set(call.tensor(kAttentionLogSumExp), head * problem.rows + row, kEmptyLogSumExp);
    }
  }
  return forward_of(call, problem);
}

Status packed_backward(const OpCall& call) {
  const AttentionProblem problem = packed_attention_problem(call, kAttentionBackwardQkv);
  MTL_RETURN_IF_ERROR(check_packed_starts(call, problem));
  clear_rest(problem, call.tensor(kAttentionQkvGradient));
  return backward_of(call, problem);
}

MTL_REGISTER_REFERENCE("attention_forward", forward);
MTL_REGISTER_REFERENCE("attention_backward", backward);
MTL_REGISTER_REFERENCE("packed_attention_forward", packed_forward);
MTL_REGISTER_REFERENCE("packed_attention_backward", packed_backward);

}  // namespace
}  // namespace mtl::reference

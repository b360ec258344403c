#include "ops/attention_arguments.h"

#include <cmath>

namespace mtl {
namespace {

constexpr int64_t kMaxHeads = 65536;  // the bits of the head in a Philox counter
constexpr double kKeyLimit = 4294967296.0;

// The rows of a projection, from row `part` of each group on.
AttentionOperand part_of(const TensorView& qkv, int64_t part, int64_t member) {
  const int64_t size = qkv.dim(-1), group = qkv.dim(-2) * size, row = qkv.dim(-3) * group;
  const bool has_samples = qkv.rank == 5;
  return {static_cast<char*>(qkv.data) + part * size * static_cast<int64_t>(size_of(qkv.dtype)), qkv.dtype,
          has_samples ? qkv.dim(1) * row : row, has_samples ? row : 0, group, member};
}

}  // namespace

AttentionProjection projection_of(const TensorView& qkv) {
  const int64_t members = qkv.dim(-2) - 2;
  return {part_of(qkv, 0, qkv.dim(-1)), part_of(qkv, members, 0), part_of(qkv, members + 1, 0)};
}

AttentionOperand heads_of(const TensorView& tensor, int64_t groups) {
  const int64_t size = tensor.dim(-1), heads = tensor.dim(-2), row = heads * size;
  const bool has_samples = tensor.rank == 4;
  return {tensor.data, tensor.dtype, has_samples ? tensor.dim(1) * row : row, has_samples ? row : 0,
          groups == 0 ? 0 : heads / groups * size, size};
}

AttentionOperand query_operand(const TensorView& tensor, int64_t groups) {
  const int64_t member = tensor.stride(-2);
  const int64_t group = tensor.rank == 5 ? tensor.stride(-3) : groups == 0 ? 0 : tensor.dim(-2) / groups * member;
  return {tensor.data, tensor.dtype, tensor.stride(0), tensor.stride(1), group, member};
}

AttentionOperand key_operand(const TensorView& tensor) {
  return {tensor.data, tensor.dtype, tensor.stride(0), tensor.stride(1), tensor.stride(-2), 0};
}

int64_t num_heads(const TensorView& qkv) { return qkv.dim(-3) * (qkv.dim(-2) - 2); }

bool is_integer_below(double value, double limit) { return value >= 0 && value < limit && value == std::floor(value); }

Status expect_qkv(const OpCall& call, int qkv, int rank) {
  MTL_RETURN_IF_ERROR(expect_floating(call, qkv));
  MTL_RETURN_IF_ERROR(expect_rank(call, qkv, rank, rank));
  const TensorView& tensor = call.tensor(qkv);
  const int64_t groups = tensor.dim(-3), parts = tensor.dim(-2) < 3 ? 3 : tensor.dim(-2), head_size = tensor.dim(-1);
  MTL_RETURN_IF_ERROR(rank == 4 ? expect_shape(call, qkv, {tensor.dim(0), groups, parts, head_size})
                                : expect_shape(call, qkv, {tensor.dim(0), tensor.dim(1), groups, parts, head_size}));
  return head_size < 1 ? argument_error(call, "the head size is 0") : ok_status();
}

Status expect_statistics_dtype(const OpCall& call, int log_sum_exp, int qkv) {
  const bool is_double = call.tensor(qkv).dtype == DType::kFloat64;
  return expect_dtype(call, log_sum_exp, {is_double ? DType::kFloat64 : DType::kFloat32});
}

Status expect_attention_output(const OpCall& call, int output, int qkv) {
  const TensorView& tensor = call.tensor(qkv);
  const int64_t heads = num_heads(tensor), head_size = tensor.dim(-1);
  MTL_RETURN_IF_ERROR(tensor.rank == 4
                          ? expect_shape(call, output, {tensor.dim(0), heads, head_size})
                          : expect_shape(call, output, {tensor.dim(0), tensor.dim(1), heads, head_size}));
  return expect_dtype(call, output, {tensor.dtype});
}

Status expect_scale(const OpCall& call, int scale) {
  const double value = call.attribute(scale);
  if (value > 0 && std::isfinite(value)) return ok_status();
  return argument_error(call, "scale is %g, expected a finite number above 0", value);
}

Status validate_attention_attributes(const OpCall& call, const AttentionAttributes& at, int64_t heads) {
  MTL_RETURN_IF_ERROR(expect_scale(call, at.scale));
  const double probability = call.attribute(at.dropout_probability);
  if (!(probability >= 0 && probability < 1)) {
    return argument_error(call, "dropoutProbability is %g, expected 0 or more and below 1", probability);
  }
  const double key_low = call.attribute(at.key_low), key_high = call.attribute(at.key_high);
  if (!is_integer_below(key_low, kKeyLimit) || !is_integer_below(key_high, kKeyLimit)) {
    return argument_error(call, "keyLow and keyHigh are %g and %g, expected integers from 0 to 2^32 - 1", key_low,
                          key_high);
  }
  const double head_offset = call.attribute(at.head_offset);
  if (!is_integer_below(head_offset, static_cast<double>(kMaxHeads - heads + 1))) {
    return argument_error(call, "headOffset is %g with %lld heads, expected an integer and at most %lld heads in all",
                          head_offset, static_cast<long long>(heads), static_cast<long long>(kMaxHeads));
  }
  if (probability > 0 && !call.has(at.samples)) {
    return argument_error(call, "dropoutProbability is %g, which needs samples, the global sample numbers",
                          probability);
  }
  return ok_status();
}

AttentionProblem projected_problem(const TensorView& qkv) {
  const AttentionProjection projection = projection_of(qkv);
  AttentionProblem problem = {};
  problem.dtype = qkv.dtype;
  problem.heads = num_heads(qkv);
  problem.groups = qkv.dim(-3);
  problem.head_size = qkv.dim(-1);
  problem.query = projection.query;
  problem.key = projection.key;
  problem.value = projection.value;
  return problem;
}

void set_attention_attributes(AttentionProblem* problem, const OpCall& call, const AttentionAttributes& at) {
  problem->samples = call.data<const int64_t>(at.samples);
  problem->scale = call.attribute(at.scale);
  problem->dropout_probability = call.attribute(at.dropout_probability);
  problem->philox_key = {static_cast<uint32_t>(call.attribute(at.key_low)),
                         static_cast<uint32_t>(call.attribute(at.key_high))};
  problem->head_offset = call.integer(at.head_offset);
}

}  // namespace mtl

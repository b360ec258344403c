// attention_forward: output = dropout(softmax(cap(scale * q @ k^T) + mask)) @ v, as flash attention: no
// S x K matrix is ever stored.
// attention_backward: the gradients of query, key and value. The probabilities are recomputed from logSumExp
// (Dao et al. 2022, 2023).
//
//   S query positions, K key positions, B micro-batch size, D head size of queries and keys, E head size of
//     values
//   A query heads (of this process) in G groups of R = A / G: the heads of a group share its key and value
//   (grouped-query attention, Ainslie et al. 2023; R = 1: multi-head attention, G = 1: multi-query attention)
//   query  [S, B, A, D] or [S, B, G, R, D]     key  [K, B, G, D]     value  [K, B, G, E]
//   output, outputGradient  [S, B, A, E]     gradients have the shapes of query, key and value
//   rowSums  [B, A, S], dtype as logSumExp: the row sums of output times outputGradient (attention_row_sums)
//   dtypes: if the operands have 16 bits, output may be float32, and so may the gradients of query, key and
//   value, all three alike. Results that are merged or added up later are then rounded only once.
//   logSumExp  [B, A, S] float32 (float64 with float64 inputs): the log of the softmax's denominator; forward
//   computes it only if it is given
//   highestScores?  [A], dtype as logSumExp: raised to the highest score of a visible key over all queries of
//   each head and all calls; scores that are NaN do not count
//   samples?   [B] int64: global sample indices; required with dropout
//
// visibility.h describes the options that hide keys from queries. If samples are packed, there is no B: the
// operands are query [T, A, D] or [T, G, R, D], key [T, G, D], value [T, G, E], output [T, A, E], logSumExp
// [A, T], samples [N]. With queryStarts, queries and outputs have U rows instead of T.
//
// scale: the factor of the scores, above 0. softCap c: if c is above 0, cap(s) = c * tanh(s / c), so that
// scores stay between -c and c (Gemma Team 2024, "Gemma 2"); if c is 0, cap(s) = s.
// accumulate (backward): 1 adds to the gradients of query, key and value, which are float32 or float64. Given
// the logSumExp and the rowSums over all keys, calls for some queries and some keys compute gradients that
// add up to the gradients of all queries and keys.
// dropoutProbability p: kept probabilities are multiplied by 1 / (1 - p). The mask is as in core/philox.h:
// column = position of the key, row = position of the query, head = headOffset + a, under the Philox key
// (keyLow, keyHigh). A part of a sequence thus drops the same probabilities as the whole sequence. With
// packed samples, positions count from firstQueries and firstKeys, by default within the sample, so packed
// samples drop the same probabilities as padded samples, and parts of a sequence the same as the whole
// sequence.
//
// query, key, value and their gradients may be strided views whose last dimension is contiguous: the parts of
// a packed projection and the positions of a cache are read and written in place. A query without visible
// keys has output 0, logSumExp kEmptyLogSumExp and gradient 0. Tiles of keys to which no query attends cost
// nothing. FLOPs are model FLOPs in the convention of Narayanan et al. 2021: full attention of the given
// queries and keys (scores that causality hides are not subtracted; a window counts w + 1 keys per query),
// without the recomputation in the backward pass.
#include "ops/attention.h"

#include <cmath>
#include <cstring>

#include "core/validation.h"

namespace mtl {
namespace {

constexpr int64_t kMaxHeads = 65536;  // the bits of the head in a Philox counter
constexpr double kKeyLimit = 4294967296.0;

bool is_integer_below(double value, double limit) { return value >= 0 && value < limit && value == std::floor(value); }

// The sizes of a call. Its query and key must have the right number of dimensions.
struct Sizes {
  bool packed;
  int64_t num_queries, num_keys;  // packed: rows
  int64_t batch;                  // samples
  int64_t heads, groups, head_size, value_size;
};

// Returns how many dimensions an operand has before its heads.
template <typename Op>
int leading(const OpCall& call) {
  return call.has(Op::kStarts) ? 1 : 2;
}

template <typename Op>
Sizes sizes_of(const OpCall& call) {
  const TensorView &query = call.tensor(Op::kQuery), &key = call.tensor(Op::kKey);
  const int first = leading<Op>(call);
  const bool packed = first == 1;
  const int64_t heads = query.rank == first + 3 ? query.dim(first) * query.dim(first + 1) : query.dim(first);
  return {packed, query.dim(0), key.dim(0), packed ? call.tensor(Op::kStarts).size() - 1 : query.dim(1),
          heads,  key.dim(-2),  query.dim(-1), call.tensor(Op::kValue).dim(-1)};
}

// Checks that the tensor is [positions, batch, heads, size], or [positions, heads, size] if samples are
// packed.
Status expect_rows(const OpCall& call, int tensor, const Sizes& sizes, int64_t positions, int64_t heads, int64_t size) {
  return sizes.packed ? expect_shape(call, tensor, {positions, heads, size})
                      : expect_shape(call, tensor, {positions, sizes.batch, heads, size});
}

template <typename Op>
Status validate_operands(const OpCall& call) {
  const int first = leading<Op>(call);
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kQuery));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kQuery, first + 2, first + 3));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kKey, first + 2, first + 2));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kValue, first + 2, first + 2));
  const TensorView& query = call.tensor(Op::kQuery);
  const Sizes sizes = sizes_of<Op>(call);
  const int64_t heads = sizes.heads, groups = sizes.groups;
  if (sizes.head_size < 1) return argument_error(call, "the head size is 0");
  if (sizes.value_size < 1) return argument_error(call, "the head size of value is 0");
  const bool has_groups = query.rank == first + 3;
  if (has_groups ? query.dim(first) != groups : groups == 0 ? heads != 0 : heads % groups != 0) {
    return error_status("MTL_SHAPE", "%s: query has %lld %s and key %lld heads, expected %s", call.op,
                        static_cast<long long>(query.dim(first)), has_groups ? "groups" : "heads", static_cast<long long>(groups),
                        has_groups ? "as many" : "a multiple of the key's");
  }
  if (heads == 0 && groups > 0) {
    return error_status("MTL_SHAPE", "%s: query has 0 heads and key %lld, expected at least one of each", call.op,
                        static_cast<long long>(groups));
  }
  if ((sizes.num_keys == 0) != (sizes.num_queries == 0)) {
    return error_status("MTL_SHAPE", "%s: query has %lld positions and key %lld, expected at least one of each", call.op,
                        static_cast<long long>(sizes.num_queries), static_cast<long long>(sizes.num_keys));
  }
  const bool has_rows_of_queries = sizes.packed && !call.has(Op::kQueryStarts);
  const int64_t num_keys = has_rows_of_queries ? sizes.num_queries : sizes.num_keys;
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kKey, sizes, num_keys, groups, sizes.head_size));
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kValue, sizes, num_keys, groups, sizes.value_size));
  for (const int tensor : {int{Op::kKey}, int{Op::kValue}}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {query.dtype}));
    MTL_RETURN_IF_ERROR(expect_whole_rows(call, tensor));
  }
  return expect_whole_rows(call, Op::kQuery);
}

// Returns a dtype that represents all values of `dtype` exactly: float64 for float64, else float32.
DType exact_dtype(DType dtype) { return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

// Checks that a result has the operands' dtype, or one that represents all values of that dtype.
Status expect_result_dtype(const OpCall& call, int tensor, DType dtype) {
  const DType exact = exact_dtype(dtype);
  return dtype == exact ? expect_dtype(call, tensor, {dtype}) : expect_dtype(call, tensor, {dtype, exact});
}

template <typename Op>
Status expect_statistics(const OpCall& call, int tensor) {
  const Sizes sizes = sizes_of<Op>(call);
  MTL_RETURN_IF_ERROR(sizes.packed ? expect_shape(call, tensor, {sizes.heads, sizes.num_queries})
                                   : expect_shape(call, tensor, {sizes.batch, sizes.heads, sizes.num_queries}));
  return expect_dtype(call, tensor, {exact_dtype(call.tensor(Op::kQuery).dtype)});
}

// Returns the operands that determine to which keys each query attends.
template <typename Op>
VisibilityCall visibility_call(const OpCall& call, const Sizes& sizes) {
  static_assert(int{Op::kCausal} == 0, "the attributes of visibility are the first");
  return {call, Op::kKeyStart, sizes.num_queries, sizes.num_keys, sizes.batch};
}

template <typename Op>
Status validate_dropout(const OpCall& call, int64_t heads) {
  const double probability = call.attribute(Op::kDropoutProbability);
  if (!(probability >= 0 && probability < 1)) {
    return argument_error(call, "dropoutProbability is %g, expected 0 or more and below 1", probability);
  }
  const double key_low = call.attribute(Op::kKeyLow), key_high = call.attribute(Op::kKeyHigh);
  if (!is_integer_below(key_low, kKeyLimit) || !is_integer_below(key_high, kKeyLimit)) {
    return argument_error(call, "keyLow and keyHigh are %g and %g, expected integers from 0 to 2^32 - 1", key_low,
                          key_high);
  }
  const double head_offset = call.attribute(Op::kHeadOffset);
  if (!is_integer_below(head_offset, static_cast<double>(kMaxHeads - heads + 1))) {
    return argument_error(call, "headOffset is %g with %lld heads, expected an integer and at most %lld heads in all",
                          head_offset, static_cast<long long>(heads), static_cast<long long>(kMaxHeads));
  }
  if (probability > 0 && !call.has(Op::kSamples)) {
    return argument_error(call, "dropoutProbability is %g, which needs samples, the global sample numbers",
                          probability);
  }
  return ok_status();
}

// Checks all operands except the outputs and gradients.
template <typename Op>
Status validate_inputs(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_operands<Op>(call));
  const Sizes sizes = sizes_of<Op>(call);
  MTL_RETURN_IF_ERROR(validate_visibility(visibility_call<Op>(call, sizes)));
  if (call.has(Op::kSamples)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSamples, {sizes.batch}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSamples, {DType::kInt64}));
  }
  const double scale = call.attribute(Op::kScale);
  if (!(scale > 0 && std::isfinite(scale))) {
    return argument_error(call, "scale is %g, expected a finite number above 0", scale);
  }
  const double soft_cap = call.attribute(Op::kSoftCap);
  if (!(soft_cap >= 0 && std::isfinite(soft_cap))) {
    return argument_error(call, "softCap is %g, expected a finite number above 0, or 0 for none", soft_cap);
  }
  return validate_dropout<Op>(call, sizes.heads);
}

Status validate_forward(const OpCall& call) {
  using Op = AttentionForward;
  MTL_RETURN_IF_ERROR(validate_inputs<Op>(call));
  if (call.has(Op::kLogSumExp)) MTL_RETURN_IF_ERROR(expect_statistics<Op>(call, Op::kLogSumExp));
  const Sizes sizes = sizes_of<Op>(call);
  if (call.has(Op::kHighestScores)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kHighestScores, {sizes.heads}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kHighestScores, {exact_dtype(call.tensor(Op::kQuery).dtype)}));
  }
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kOutput, sizes, sizes.num_queries, sizes.heads, sizes.value_size));
  return expect_result_dtype(call, Op::kOutput, call.tensor(Op::kQuery).dtype);
}

// Checks that gradients have the shapes of their operands, and that all gradients have one dtype.
Status expect_gradients(const OpCall& call) {
  using Op = AttentionBackward;
  const DType dtype = call.tensor(Op::kQuery).dtype;
  MTL_RETURN_IF_ERROR(expect_result_dtype(call, Op::kQueryGradient, call.flag(Op::kAccumulate) ? exact_dtype(dtype) : dtype));
  const int gradients[][2] = {{Op::kQueryGradient, Op::kQuery}, {Op::kKeyGradient, Op::kKey}, {Op::kValueGradient, Op::kValue}};
  for (const auto& [gradient, operand] : gradients) {
    MTL_RETURN_IF_ERROR(expect_same_shape(call, gradient, operand));
    MTL_RETURN_IF_ERROR(expect_dtype(call, gradient, {call.tensor(Op::kQueryGradient).dtype}));
    MTL_RETURN_IF_ERROR(expect_whole_rows(call, gradient));
  }
  return ok_status();
}

Status validate_backward(const OpCall& call) {
  using Op = AttentionBackward;
  MTL_RETURN_IF_ERROR(validate_inputs<Op>(call));
  MTL_RETURN_IF_ERROR(expect_statistics<Op>(call, Op::kLogSumExp));
  MTL_RETURN_IF_ERROR(expect_statistics<Op>(call, Op::kRowSums));
  const Sizes sizes = sizes_of<Op>(call);
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kOutputGradient, sizes, sizes.num_queries, sizes.heads, sizes.value_size));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kOutputGradient, {call.tensor(Op::kQuery).dtype}));
  return expect_gradients(call);
}

// Returns the FLOPs of two matmuls, for all heads: queries by keys, and probabilities by values.
template <typename Op>
double matmuls_flops(const OpCall& call) {
  const Sizes sizes = sizes_of<Op>(call);
  const double factor = 2.0 * static_cast<double>(sizes.heads * (sizes.head_size + sizes.value_size));
  return factor * counted_scores(visibility_call<Op>(call, sizes));
}

double forward_flops(const OpCall& call) { return matmuls_flops<AttentionForward>(call); }
double backward_flops(const OpCall& call) { return 2 * matmuls_flops<AttentionBackward>(call); }

MTL_REGISTER_OP(OpSchema{"attention_forward",
                         3,
                         {"output", "logSumExp?", "highestScores?", "query", "key", "value", MTL_VISIBILITY_TENSORS(MTL_NAME_OF) "samples?"},
                         {MTL_VISIBILITY_ATTRIBUTES(MTL_NAME_OF) "scale", "softCap", "dropoutProbability", "keyLow", "keyHigh",
                          "headOffset"},
                         validate_forward,
                         forward_flops,
                         strided_tensors(AttentionForward::kQuery, AttentionForward::kKey, AttentionForward::kValue)});
MTL_REGISTER_OP(OpSchema{"attention_backward",
                         3,
                         {"queryGradient", "keyGradient", "valueGradient", "outputGradient", "rowSums", "logSumExp",
                          "query", "key", "value", MTL_VISIBILITY_TENSORS(MTL_NAME_OF) "samples?"},
                         {MTL_VISIBILITY_ATTRIBUTES(MTL_NAME_OF) "scale", "softCap", "dropoutProbability", "keyLow", "keyHigh",
                          "headOffset", "accumulate"},
                         validate_backward,
                         backward_flops,
                         strided_tensors(AttentionBackward::kQueryGradient, AttentionBackward::kKeyGradient,
                                         AttentionBackward::kValueGradient, AttentionBackward::kQuery,
                                         AttentionBackward::kKey, AttentionBackward::kValue)});

// Returns the layout of an operand that has query heads (query, output or their gradients). `first` is the
// number of dimensions before the heads.
AttentionOperand head_operand(const TensorView& tensor, int first, int64_t groups, const int32_t* starts) {
  const int64_t member = tensor.stride(-2);
  const int64_t group = tensor.rank == first + 3 ? tensor.stride(-3) : groups == 0 ? 0 : tensor.dim(-2) / groups * member;
  return {tensor.data, tensor.dtype, tensor.stride(0), first == 1 ? 0 : tensor.stride(1), group, member, starts};
}

// Returns the layout of an operand that has one head per group (key, value or their gradients).
AttentionOperand group_operand(const TensorView& tensor, int first, const int32_t* starts) {
  return {tensor.data, tensor.dtype, tensor.stride(0), first == 1 ? 0 : tensor.stride(1), tensor.stride(-2), 0, starts};
}

// Returns the part of the problem that the forward op and the backward op share.
template <typename Op>
AttentionProblem problem_of(const OpCall& call) {
  const Sizes sizes = sizes_of<Op>(call);
  const int first = leading<Op>(call);
  AttentionProblem problem = {};
  static_cast<Visibility&>(problem) = read_visibility(visibility_call<Op>(call, sizes));
  problem.dtype = call.tensor(Op::kQuery).dtype;
  problem.heads = sizes.heads;
  problem.groups = sizes.groups;
  problem.head_size = sizes.head_size;
  problem.value_size = sizes.value_size;
  problem.query = head_operand(call.tensor(Op::kQuery), first, sizes.groups, problem.query_starts);
  problem.key = group_operand(call.tensor(Op::kKey), first, problem.starts);
  problem.value = group_operand(call.tensor(Op::kValue), first, problem.starts);
  problem.log_sum_exp = call.tensor(Op::kLogSumExp).data;
  problem.samples = call.data<const int64_t>(Op::kSamples);
  problem.scale = call.attribute(Op::kScale);
  problem.soft_cap = call.attribute(Op::kSoftCap);
  problem.dropout_probability = call.attribute(Op::kDropoutProbability);
  problem.philox_key = {static_cast<uint32_t>(call.attribute(Op::kKeyLow)),
                        static_cast<uint32_t>(call.attribute(Op::kKeyHigh))};
  problem.head_offset = call.integer(Op::kHeadOffset);
  return problem;
}

// Writes zeros to the rows of an operand that do not belong to any sample.
void clear_rest(const AttentionProblem& problem, const AttentionOperand& operand, int64_t rows, int64_t size) {
  const int64_t members = operand.member == 0 || problem.groups == 0 ? 1 : problem.heads / problem.groups;
  const size_t element = size_of(operand.dtype), bytes = static_cast<size_t>(size) * element;
  for (int64_t row = operand.starts[problem.batch]; row < rows; ++row) {
    for (int64_t head = 0; head < problem.groups * members; ++head) {
      const int64_t at = row * operand.position + head / members * operand.group + head % members * operand.member;
      std::memset(static_cast<char*>(operand.data) + static_cast<size_t>(at) * element, 0, bytes);
    }
  }
}

}  // namespace

AttentionProblem attention_forward_problem(const OpCall& call) {
  using Op = AttentionForward;
  AttentionProblem problem = problem_of<Op>(call);
  problem.output = head_operand(call.tensor(Op::kOutput), leading<Op>(call), problem.groups, problem.query_starts);
  problem.highest_scores = call.tensor(Op::kHighestScores).data;
  return problem;
}

AttentionProblem attention_backward_problem(const OpCall& call) {
  using Op = AttentionBackward;
  const int first = leading<Op>(call);
  AttentionProblem problem = problem_of<Op>(call);
  problem.query_gradient = head_operand(call.tensor(Op::kQueryGradient), first, problem.groups, problem.query_starts);
  problem.key_gradient = group_operand(call.tensor(Op::kKeyGradient), first, problem.starts);
  problem.value_gradient = group_operand(call.tensor(Op::kValueGradient), first, problem.starts);
  problem.output_gradient = head_operand(call.tensor(Op::kOutputGradient), first, problem.groups, problem.query_starts);
  problem.row_sums = call.tensor(Op::kRowSums).data;
  problem.accumulate = call.flag(Op::kAccumulate);
  return problem;
}

Status prepare_packed_rows(const OpCall& call, const AttentionProblem& problem) {
  if (problem.starts == nullptr) return ok_status();
  MTL_RETURN_IF_ERROR(check_packed_rows(call, problem));
  if (problem.query_gradient.data != nullptr) {
    if (problem.accumulate) return ok_status();
    clear_rest(problem, problem.query_gradient, problem.query_rows, problem.head_size);
    clear_rest(problem, problem.key_gradient, problem.rows, problem.head_size);
    clear_rest(problem, problem.value_gradient, problem.rows, problem.value_size);
    return ok_status();
  }
  clear_rest(problem, problem.output, problem.query_rows, problem.value_size);
  if (problem.log_sum_exp == nullptr) return ok_status();
  for (int64_t head = 0; head < problem.heads; ++head) {
    for (int64_t row = problem.query_starts[problem.batch]; row < problem.query_rows; ++row) {
      const int64_t at = head * problem.query_rows + row;
      if (problem.dtype == DType::kFloat64) {
        static_cast<double*>(problem.log_sum_exp)[at] = kEmptyLogSumExp;
      } else {
        static_cast<float*>(problem.log_sum_exp)[at] = static_cast<float>(kEmptyLogSumExp);
      }
    }
  }
  return ok_status();
}

}  // namespace mtl

// attention_forward: output = dropout(softmax(scale q k^T + mask)) v, flash attention: no S x K matrix is
// ever stored.
// attention_backward: the gradients of query, key and value, with the probabilities recomputed from logSumExp
// (Dao et al. 2022, 2023).
//
//   S query positions, K key positions, B micro-batch, D head size
//   A query heads (of this process) in G groups of R = A / G: the heads of a group share its key and value
//   (grouped-query attention, Ainslie et al. 2023; R = 1: multi-head attention, G = 1: multi-query attention)
//   query  [S, B, A, D] or [S, B, G, R, D]     key, value  [K, B, G, D]     gradients have these shapes, too
//   output, outputGradient  [S, B, A, D]
//   logSumExp  [B, A, S] float32 (float64 with float64 inputs): the log of the softmax's denominator; forward
//   computes it only if it is given
//   samples?   [B] int64: global sample numbers; needed with dropout
//
// Query s is at position p = firstQuery + s of the sequence and key k at position firstKey + k, so that a
// call may compute some queries of a sequence with some of its keys. A query attends to every key that none
// of these hides:
//   causal: keys after p
//   windowSize w of 0 or more (-1: none), causal only: keys before p - w
//   keyStart?  [B, S] int32: keys before position keyStart[b, s] (the first one of its document)
//   keyMask?   [B, K] uint8: keys where it is 0 (padding)
//   starts?    [N + 1] int32: packed samples. Sample n has the rows starts[n] to starts[n + 1] of T, without
//   padding; keys of other samples are hidden, and positions count within the sample. Then there is no B: the
//   operands are query [T, A, D] or [T, G, R, D], key and value [T, G, D], output [T, A, D], logSumExp [A,
//   T], samples [N]; no firstQuery, firstKey, keyStart and keyMask. Rows from starts[N] on belong to no
//   sample: output and gradients are 0 there; inputs must be finite, as where a key mask hides them. longest:
//   no sample has more rows. numScores: scores that count as FLOPs, the sum of the squares of all lengths.
//   Both are 0 without packed samples.
//
// scale: of the scores, above 0.
// dropoutProbability p: kept probabilities are multiplied by 1 / (1 - p). The mask is core/philox.h's:
// column = position of the key, row = position of the query, head = headOffset + a under the key (keyLow,
// keyHigh): a part of a sequence drops what the whole sequence does. With packed samples positions count
// within the sample, which drops what is dropped of the same samples with padding.
//
// query, key, value and their gradients may be strided views whose last dimension is contiguous: the parts of
// a packed projection and the positions of a cache are read and written in place. A query without visible
// keys has output 0, logSumExp kEmptyLogSumExp and gradient 0. Tiles of keys that no query attends to cost
// nothing.
// FLOPs are model FLOPs in the convention of Narayanan et al. 2021: full attention of the given queries and
// keys (what causality hides is not subtracted; of a window, w + 1 keys a query), recomputation in the
// backward pass not counted.
#include "ops/attention.h"

#include <cmath>
#include <cstring>

#include "core/validation.h"

namespace mtl {
namespace {

constexpr int64_t kMaxHeads = 65536;  // the bits of the head in a Philox counter
constexpr double kKeyLimit = 4294967296.0;

bool is_integer_below(double value, double limit) { return value >= 0 && value < limit && value == std::floor(value); }

// Sizes of a call whose query and key have their ranks.
struct Sizes {
  bool packed;
  int64_t num_queries, num_keys;  // packed: rows
  int64_t batch;                  // samples
  int64_t heads, groups, head_size;
};

// Dimensions of an operand before those of its heads.
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
          heads,  key.dim(-2),  query.dim(-1)};
}

// The tensor has this shape, or with packed samples the same without `batch`.
Status expect_rows(const OpCall& call, int tensor, const Sizes& sizes, int64_t positions, int64_t heads) {
  return sizes.packed ? expect_shape(call, tensor, {positions, heads, sizes.head_size})
                      : expect_shape(call, tensor, {positions, sizes.batch, heads, sizes.head_size});
}

template <typename Op>
Status validate_operands(const OpCall& call) {
  const int first = leading<Op>(call);
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kQuery));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kQuery, first + 2, first + 3));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kKey, first + 2, first + 2));
  const TensorView& query = call.tensor(Op::kQuery);
  const Sizes sizes = sizes_of<Op>(call);
  const int64_t heads = sizes.heads, groups = sizes.groups;
  if (sizes.head_size < 1) return argument_error(call, "the head size is 0");
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
  for (const int tensor : {int{Op::kKey}, int{Op::kValue}}) {
    MTL_RETURN_IF_ERROR(expect_rows(call, tensor, sizes, sizes.packed ? sizes.num_queries : sizes.num_keys, groups));
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {query.dtype}));
    MTL_RETURN_IF_ERROR(expect_whole_rows(call, tensor));
  }
  return expect_whole_rows(call, Op::kQuery);
}

template <typename Op>
Status expect_output(const OpCall& call, int tensor) {
  const Sizes sizes = sizes_of<Op>(call);
  MTL_RETURN_IF_ERROR(expect_rows(call, tensor, sizes, sizes.num_queries, sizes.heads));
  return expect_dtype(call, tensor, {call.tensor(Op::kQuery).dtype});
}

template <typename Op>
Status expect_statistics(const OpCall& call) {
  const Sizes sizes = sizes_of<Op>(call);
  MTL_RETURN_IF_ERROR(sizes.packed ? expect_shape(call, Op::kLogSumExp, {sizes.heads, sizes.num_queries})
                                   : expect_shape(call, Op::kLogSumExp, {sizes.batch, sizes.heads, sizes.num_queries}));
  const bool is_double = call.tensor(Op::kQuery).dtype == DType::kFloat64;
  return expect_dtype(call, Op::kLogSumExp, {is_double ? DType::kFloat64 : DType::kFloat32});
}

// Packed samples replace the masks of samples with padding.
template <typename Op>
Status validate_packed(const OpCall& call, const Sizes& sizes) {
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kStarts, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kStarts, {DType::kInt32}));
  if (sizes.batch < 0) return argument_error(call, "starts is empty, expected one more than samples");
  for (const int mask : {int{Op::kKeyStart}, int{Op::kKeyMask}}) {
    if (call.has(mask)) {
      return argument_error(call, "%s is given with packed samples (starts), expected only one of them", tensor_name(call, mask));
    }
  }
  const double first_query = call.attribute(Op::kFirstQuery), first_key = call.attribute(Op::kFirstKey);
  if (first_query != 0 || first_key != 0) {
    return argument_error(call, "firstQuery is %g and firstKey %g with packed samples (starts), expected 0", first_query, first_key);
  }
  const double longest = call.attribute(Op::kLongest), num_scores = call.attribute(Op::kNumScores);
  if (!is_integer_below(longest, static_cast<double>(sizes.num_queries + 1))) {
    return argument_error(call, "longest is %g, expected an integer from 0 to the %lld rows", longest,
                          static_cast<long long>(sizes.num_queries));
  }
  // lengths that are at most the longest one add up to the rows
  const double most = longest * static_cast<double>(sizes.num_queries);
  if (is_integer_below(num_scores, most + 1)) return ok_status();
  return argument_error(call, "numScores is %.17g, expected the sum of the squares of all lengths: an integer from 0 to "
                        "longest times the rows, %.17g", num_scores, most);
}

// They would be ignored without packed samples.
template <typename Op>
Status expect_nothing_packed(const OpCall& call) {
  const double longest = call.attribute(Op::kLongest), num_scores = call.attribute(Op::kNumScores);
  if (longest == 0 && num_scores == 0) return ok_status();
  return argument_error(call, "longest is %g and numScores %g without packed samples (starts), expected 0", longest, num_scores);
}

// Which keys a query attends to.
template <typename Op>
Status validate_visibility(const OpCall& call, const Sizes& sizes) {
  const double window = call.attribute(Op::kWindowSize);
  if (window != -1 && !is_integer_below(window, static_cast<double>(kNoWindow))) {
    return argument_error(call, "windowSize is %g, expected an integer from 0 to 2^30 - 1, or -1 for no window", window);
  }
  if (window >= 0 && !call.flag(Op::kCausal)) {
    return argument_error(call, "windowSize is %g without causal, expected a window of causal attention only", window);
  }
  const double first_query = call.attribute(Op::kFirstQuery), first_key = call.attribute(Op::kFirstKey);
  const auto is_position = [](double value) { return is_integer_below(value, static_cast<double>(kNoWindow)); };
  if (!is_position(first_query) || !is_position(first_key)) {
    return argument_error(call, "firstQuery is %g and firstKey %g, expected integers from 0 to 2^30 - 1", first_query, first_key);
  }
  MTL_RETURN_IF_ERROR(call.has(Op::kStarts) ? validate_packed<Op>(call, sizes) : expect_nothing_packed<Op>(call));
  if (call.has(Op::kKeyStart)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kKeyStart, {sizes.batch, sizes.num_queries}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kKeyStart, {DType::kInt32}));
  }
  if (!call.has(Op::kKeyMask)) return ok_status();
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kKeyMask, {sizes.batch, sizes.num_keys}));
  return expect_dtype(call, Op::kKeyMask, {DType::kUint8});
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

// Everything but the outputs and gradients.
template <typename Op>
Status validate_inputs(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate_operands<Op>(call));
  const Sizes sizes = sizes_of<Op>(call);
  MTL_RETURN_IF_ERROR(validate_visibility<Op>(call, sizes));
  if (call.has(Op::kSamples)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kSamples, {sizes.batch}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kSamples, {DType::kInt64}));
  }
  const double scale = call.attribute(Op::kScale);
  if (!(scale > 0 && std::isfinite(scale))) {
    return argument_error(call, "scale is %g, expected a finite number above 0", scale);
  }
  return validate_dropout<Op>(call, sizes.heads);
}

Status validate_forward(const OpCall& call) {
  using Op = AttentionForward;
  MTL_RETURN_IF_ERROR(validate_inputs<Op>(call));
  if (call.has(Op::kLogSumExp)) MTL_RETURN_IF_ERROR(expect_statistics<Op>(call));
  return expect_output<Op>(call, Op::kOutput);
}

Status validate_backward(const OpCall& call) {
  using Op = AttentionBackward;
  MTL_RETURN_IF_ERROR(validate_inputs<Op>(call));
  MTL_RETURN_IF_ERROR(expect_statistics<Op>(call));
  MTL_RETURN_IF_ERROR(expect_output<Op>(call, Op::kOutputGradient));
  MTL_RETURN_IF_ERROR(expect_output<Op>(call, Op::kOutput));
  const int gradients[][2] = {{Op::kQueryGradient, Op::kQuery}, {Op::kKeyGradient, Op::kKey}, {Op::kValueGradient, Op::kValue}};
  for (const auto& [gradient, operand] : gradients) {
    MTL_RETURN_IF_ERROR(expect_like(call, gradient, operand));
    MTL_RETURN_IF_ERROR(expect_whole_rows(call, gradient));
  }
  return ok_status();
}

// One matmul of queries and keys, or of probabilities and values, for all heads.
template <typename Op>
double matmul_flops(const OpCall& call) {
  const Sizes sizes = sizes_of<Op>(call);
  const double flops_per_score = 2.0 * static_cast<double>(sizes.heads * sizes.head_size);
  if (sizes.packed) return flops_per_score * call.attribute(Op::kNumScores);
  const double window = call.attribute(Op::kWindowSize), keys = static_cast<double>(sizes.num_keys);
  return flops_per_score * static_cast<double>(sizes.num_queries * sizes.batch) * (window < 0 ? keys : std::fmin(keys, window + 1));
}

double forward_flops(const OpCall& call) { return 2 * matmul_flops<AttentionForward>(call); }
double backward_flops(const OpCall& call) { return 4 * matmul_flops<AttentionBackward>(call); }

MTL_REGISTER_OP(OpSchema{"attention_forward",
                         2,
                         {"output", "logSumExp?", "query", "key", "value", "keyStart?", "keyMask?", "starts?", "samples?"},
                         {"causal", "windowSize", "firstQuery", "firstKey", "scale", "dropoutProbability", "keyLow", "keyHigh",
                          "headOffset", "longest", "numScores"},
                         validate_forward,
                         forward_flops,
                         strided_tensors(AttentionForward::kQuery, AttentionForward::kKey, AttentionForward::kValue)});
MTL_REGISTER_OP(OpSchema{"attention_backward",
                         3,
                         {"queryGradient", "keyGradient", "valueGradient", "outputGradient", "output", "logSumExp",
                          "query", "key", "value", "keyStart?", "keyMask?", "starts?", "samples?"},
                         {"causal", "windowSize", "firstQuery", "firstKey", "scale", "dropoutProbability", "keyLow", "keyHigh",
                          "headOffset", "longest", "numScores"},
                         validate_backward,
                         backward_flops,
                         strided_tensors(AttentionBackward::kQueryGradient, AttentionBackward::kKeyGradient,
                                         AttentionBackward::kValueGradient, AttentionBackward::kQuery,
                                         AttentionBackward::kKey, AttentionBackward::kValue)});

// An operand with heads of its own: query, output and their gradients. `first`: dimensions before the heads.
AttentionOperand head_operand(const TensorView& tensor, int first, int64_t groups) {
  const int64_t member = tensor.stride(-2);
  const int64_t group = tensor.rank == first + 3 ? tensor.stride(-3) : groups == 0 ? 0 : tensor.dim(-2) / groups * member;
  return {tensor.data, tensor.dtype, tensor.stride(0), first == 1 ? 0 : tensor.stride(1), group, member};
}

// An operand with the rows of groups: key, value and their gradients.
AttentionOperand group_operand(const TensorView& tensor, int first) {
  return {tensor.data, tensor.dtype, tensor.stride(0), first == 1 ? 0 : tensor.stride(1), tensor.stride(-2), 0};
}

// Shared by forward and backward.
template <typename Op>
AttentionProblem problem_of(const OpCall& call) {
  const Sizes sizes = sizes_of<Op>(call);
  const int first = leading<Op>(call);
  AttentionProblem problem = {};
  problem.dtype = call.tensor(Op::kQuery).dtype;
  problem.num_queries = sizes.packed ? call.integer(Op::kLongest) : sizes.num_queries;
  problem.num_keys = sizes.packed ? problem.num_queries : sizes.num_keys;
  problem.batch = sizes.batch;
  problem.heads = sizes.heads;
  problem.groups = sizes.groups;
  problem.head_size = sizes.head_size;
  problem.query = head_operand(call.tensor(Op::kQuery), first, sizes.groups);
  problem.key = group_operand(call.tensor(Op::kKey), first);
  problem.value = group_operand(call.tensor(Op::kValue), first);
  problem.output = head_operand(call.tensor(Op::kOutput), first, sizes.groups);
  problem.log_sum_exp = call.tensor(Op::kLogSumExp).data;
  problem.first_query = call.integer(Op::kFirstQuery);
  problem.first_key = call.integer(Op::kFirstKey);
  problem.causal = call.flag(Op::kCausal);
  problem.window = call.attribute(Op::kWindowSize) < 0 ? kNoWindow : call.integer(Op::kWindowSize);
  problem.key_start = call.data<const int32_t>(Op::kKeyStart);
  problem.key_mask = call.data<const uint8_t>(Op::kKeyMask);
  problem.starts = call.data<const int32_t>(Op::kStarts);
  problem.rows = sizes.packed ? sizes.num_queries : 0;
  problem.num_scores = call.integer(Op::kNumScores);
  problem.samples = call.data<const int64_t>(Op::kSamples);
  problem.scale = call.attribute(Op::kScale);
  problem.dropout_probability = call.attribute(Op::kDropoutProbability);
  problem.philox_key = {static_cast<uint32_t>(call.attribute(Op::kKeyLow)),
                        static_cast<uint32_t>(call.attribute(Op::kKeyHigh))};
  problem.head_offset = call.integer(Op::kHeadOffset);
  return problem;
}

Status check_starts(const OpCall& call, const AttentionProblem& problem) {
  const int32_t* starts = problem.starts;
  for (int64_t sample = 0; sample < problem.batch; ++sample) {
    const int64_t length = int64_t{starts[sample + 1]} - starts[sample];
    if (length >= 0 && length <= problem.num_keys) continue;
    return argument_error(call, "sample %lld has rows %d to %d, expected 0 to longest = %lld rows",
                          static_cast<long long>(sample), starts[sample], starts[sample + 1],
                          static_cast<long long>(problem.num_keys));
  }
  if (starts[0] != 0 || starts[problem.batch] > problem.rows) {
    return argument_error(call, "starts go from %d to %d, expected from 0 to at most the %lld rows", starts[0],
                          starts[problem.batch], static_cast<long long>(problem.rows));
  }
  int64_t num_scores = 0;
  for (int64_t sample = 0; sample < problem.batch; ++sample) {
    const int64_t length = starts[sample + 1] - starts[sample];
    num_scores += length * length;
  }
  if (problem.num_scores == num_scores) return ok_status();
  return argument_error(call, "numScores is %lld, expected %lld, the sum of the squares of all lengths",
                        static_cast<long long>(problem.num_scores), static_cast<long long>(num_scores));
}

// Writes zeros to the rows of an operand that belong to no sample.
void clear_rest(const AttentionProblem& problem, const AttentionOperand& operand) {
  const int64_t members = operand.member == 0 || problem.groups == 0 ? 1 : problem.heads / problem.groups;
  const size_t element = size_of(operand.dtype), bytes = static_cast<size_t>(problem.head_size) * element;
  for (int64_t row = problem.starts[problem.batch]; row < problem.rows; ++row) {
    for (int64_t head = 0; head < problem.groups * members; ++head) {
      const int64_t at = row * operand.position + head / members * operand.group + head % members * operand.member;
      std::memset(static_cast<char*>(operand.data) + static_cast<size_t>(at) * element, 0, bytes);
    }
  }
}

}  // namespace

AttentionProblem attention_forward_problem(const OpCall& call) { return problem_of<AttentionForward>(call); }

AttentionProblem attention_backward_problem(const OpCall& call) {
  using Op = AttentionBackward;
  const int first = leading<Op>(call);
  AttentionProblem problem = problem_of<Op>(call);
  problem.query_gradient = head_operand(call.tensor(Op::kQueryGradient), first, problem.groups);
  problem.key_gradient = group_operand(call.tensor(Op::kKeyGradient), first);
  problem.value_gradient = group_operand(call.tensor(Op::kValueGradient), first);
  problem.output_gradient = head_operand(call.tensor(Op::kOutputGradient), first, problem.groups);
  return problem;
}

Status prepare_packed_rows(const OpCall& call, const AttentionProblem& problem) {
  if (problem.starts == nullptr) return ok_status();
  MTL_RETURN_IF_ERROR(check_starts(call, problem));
  if (problem.query_gradient.data != nullptr) {
    for (const AttentionOperand& gradient : {problem.query_gradient, problem.key_gradient, problem.value_gradient}) {
      clear_rest(problem, gradient);
    }
    return ok_status();
  }
  clear_rest(problem, problem.output);
  if (problem.log_sum_exp == nullptr) return ok_status();
  for (int64_t head = 0; head < problem.heads; ++head) {
    for (int64_t row = problem.starts[problem.batch]; row < problem.rows; ++row) {
      const int64_t at = head * problem.rows + row;
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

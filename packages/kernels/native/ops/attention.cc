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
//   rowSums  [B, A, S], as logSumExp: of output times outputGradient (attention_row_sums)
//   dtypes: output may be float32 over operands of 16 bits, and so may the gradients of query, key and value,
//   all three alike: results that are merged or added up later are then rounded only once
//   logSumExp  [B, A, S] float32 (float64 with float64 inputs): the log of the softmax's denominator; forward
//   computes it only if it is given
//   samples?   [B] int64: global sample numbers; needed with dropout
//
// Query s is at position p = firstQuery + s of the sequence and key k at position firstKey + k, so that a
// call may compute some queries of a sequence with some of its keys. A query attends to every key that none
// of these options hides:
//   causal: keys after p
//   windowSize w of 0 or more (-1: none), causal only: keys before p - w
//   keyStart?  [B, S] int32: keys before position keyStart[b, s] (the first one of its document)
//   keyMask?   [B, K] uint8: keys where it is 0 (padding)
//   starts?    [N + 1] int32: packed samples. Sample n has the rows starts[n] to starts[n + 1] of T, without
//   padding; keys of other samples are hidden, and positions count from firstQueries and firstKeys. There is
//   no B: the operands are query [T, A, D] or [T, G, R, D], key and value [T, G, D], output [T, A, D],
//   logSumExp [A, T], samples [N]; no firstQuery, firstKey, keyStart and keyMask. Rows from starts[N] on
//   belong to no sample: output and gradients are 0 there; inputs must be finite there, as under a key mask.
//   longest: no sample has more rows. numScores: scores that count as FLOPs, the sum of the squares of all
//   lengths. Both are 0 without packed samples.
//   queryStarts?  [N + 1] int32, with starts: sample n has the queries queryStarts[n] to queryStarts[n + 1] of U
//   rows, any part of the sample: query is [U, A, D] or [U, G, R, D], output [U, A, D], logSumExp [A, U].
//   longestQueries: no sample has more queries (0 without queryStarts). numScores: the sum over samples of
//   queries times keys.
//   firstQueries?, firstKeys?  [N] int32, with starts: the positions of each sample's first query and first key
//   in its sequence. Default: 0.
//
// scale: the factor of the scores, above 0.
// accumulate (backward): 1 adds to the gradients of query, key and value, which are float32 or float64. With
// the logSumExp and the rowSums of all keys, calls for some queries with some keys compute gradients that add
// up to the gradients of all queries and keys. dropoutProbability p: kept probabilities are multiplied by 1 /
// (1 - p). The mask is core/philox.h's: column = position of the key, row = position of the query, head =
// headOffset + a under the key (keyLow, keyHigh): a part of a sequence drops the same probabilities as the
// whole sequence. With packed samples positions count from firstQueries and firstKeys, by default within the
// sample: packed samples drop the same probabilities as padded samples, and parts of a sequence the same as
// the sequence.
//
// query, key, value and their gradients may be strided views whose last dimension is contiguous: the parts of
// a packed projection and the positions of a cache are read and written in place. A query without visible
// keys has output 0, logSumExp kEmptyLogSumExp and gradient 0. Tiles of keys that no query attends to cost
// nothing.
// FLOPs are model FLOPs in the convention of Narayanan et al. 2021: full attention of the given queries and
// keys (scores that causality hides are not subtracted; a window counts w + 1 keys a query), without the
// recomputation in the backward pass.
#include "ops/attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/validation.h"

namespace mtl {
namespace {

constexpr int64_t kMaxHeads = 65536;  // the bits of the head in a Philox counter
constexpr double kKeyLimit = 4294967296.0;

bool is_integer_below(double value, double limit) { return value >= 0 && value < limit && value == std::floor(value); }

// The sizes of a call whose query and key have the right number of dimensions.
struct Sizes {
  bool packed;
  int64_t num_queries, num_keys;  // packed: rows
  int64_t batch;                  // samples
  int64_t heads, groups, head_size;
};

// Returns the number of dimensions that an operand has before its heads.
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

// Checks that the tensor has this shape, without the dimension `batch` if samples are packed.
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
    const bool has_rows_of_queries = sizes.packed && !call.has(Op::kQueryStarts);
    MTL_RETURN_IF_ERROR(expect_rows(call, tensor, sizes, has_rows_of_queries ? sizes.num_queries : sizes.num_keys, groups));
    MTL_RETURN_IF_ERROR(expect_dtype(call, tensor, {query.dtype}));
    MTL_RETURN_IF_ERROR(expect_whole_rows(call, tensor));
  }
  return expect_whole_rows(call, Op::kQuery);
}

// Returns a dtype that holds all values of a dtype exactly: float64 for float64, else float32.
DType exact_dtype(DType dtype) { return dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32; }

// Checks that a result has the dtype of the operands, or a dtype that loses none of their values.
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

// Checks parts of packed samples: queries with their own rows, queries and keys with their own positions.
template <typename Op>
Status validate_packed_parts(const OpCall& call, const Sizes& sizes) {
  if (call.has(Op::kQueryStarts)) {
    MTL_RETURN_IF_ERROR(expect_shape(call, Op::kQueryStarts, {sizes.batch + 1}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kQueryStarts, {DType::kInt32}));
  }
  for (const int first : {int{Op::kFirstQueries}, int{Op::kFirstKeys}}) {
    if (!call.has(first)) continue;
    MTL_RETURN_IF_ERROR(expect_shape(call, first, {sizes.batch}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, first, {DType::kInt32}));
  }
  const double longest = call.attribute(Op::kLongestQueries);
  const double most = call.has(Op::kQueryStarts) ? static_cast<double>(sizes.num_queries) : 0;
  if (is_integer_below(longest, most + 1)) return ok_status();
  return argument_error(call, "longestQueries is %g, expected an integer from 0 to %g, the rows of queries with queryStarts",
                        longest, most);
}

// Checks the operands of packed samples, which replace the masks of samples with padding.
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
  MTL_RETURN_IF_ERROR(validate_packed_parts<Op>(call, sizes));
  const double longest = call.attribute(Op::kLongest), num_scores = call.attribute(Op::kNumScores);
  if (!is_integer_below(longest, static_cast<double>(sizes.num_keys + 1))) {
    return argument_error(call, "longest is %g, expected an integer from 0 to the %lld rows", longest,
                          static_cast<long long>(sizes.num_keys));
  }
  // the queries of all samples add up to the rows, and each query sees at most the keys of the longest sample
  const double most = longest * static_cast<double>(sizes.num_queries);
  if (is_integer_below(num_scores, most + 1)) return ok_status();
  return argument_error(call, "numScores is %.17g, expected the sum of the squares of all lengths (of queries times keys): "
                        "an integer from 0 to longest times the rows, %.17g", num_scores, most);
}

// Rejects the options of packed samples in calls without packed samples, which would ignore them.
template <typename Op>
Status expect_nothing_packed(const OpCall& call) {
  for (const int tensor : {int{Op::kQueryStarts}, int{Op::kFirstQueries}, int{Op::kFirstKeys}}) {
    if (!call.has(tensor)) continue;
    return argument_error(call, "%s is given without packed samples (starts), expected both", tensor_name(call, tensor));
  }
  const double longest = call.attribute(Op::kLongest), num_scores = call.attribute(Op::kNumScores);
  if (longest == 0 && num_scores == 0 && call.attribute(Op::kLongestQueries) == 0) return ok_status();
  return argument_error(call, "longest is %g, longestQueries %g and numScores %g without packed samples (starts), expected 0",
                        longest, call.attribute(Op::kLongestQueries), num_scores);
}

// Checks the options that decide which keys a query attends to.
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

// Checks all operands except the outputs and gradients.
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
  if (call.has(Op::kLogSumExp)) MTL_RETURN_IF_ERROR(expect_statistics<Op>(call, Op::kLogSumExp));
  const Sizes sizes = sizes_of<Op>(call);
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kOutput, sizes, sizes.num_queries, sizes.heads));
  return expect_result_dtype(call, Op::kOutput, call.tensor(Op::kQuery).dtype);
}

// Checks that gradients have the shapes of their operands, and one dtype.
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
  MTL_RETURN_IF_ERROR(expect_rows(call, Op::kOutputGradient, sizes, sizes.num_queries, sizes.heads));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kOutputGradient, {call.tensor(Op::kQuery).dtype}));
  return expect_gradients(call);
}

// The FLOPs of one matmul of queries and keys, or of probabilities and values, for all heads.
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
                         {"output", "logSumExp?", "query", "key", "value", "keyStart?", "keyMask?", "starts?", "queryStarts?", "firstQueries?", "firstKeys?",
                          "samples?"},
                         {"causal", "windowSize", "firstQuery", "firstKey", "scale", "dropoutProbability", "keyLow", "keyHigh",
                          "headOffset", "longest", "longestQueries", "numScores"},
                         validate_forward,
                         forward_flops,
                         strided_tensors(AttentionForward::kQuery, AttentionForward::kKey, AttentionForward::kValue)});
MTL_REGISTER_OP(OpSchema{"attention_backward",
                         3,
                         {"queryGradient", "keyGradient", "valueGradient", "outputGradient", "rowSums", "logSumExp",
                          "query", "key", "value", "keyStart?", "keyMask?", "starts?", "queryStarts?", "firstQueries?", "firstKeys?",
                          "samples?"},
                         {"causal", "windowSize", "firstQuery", "firstKey", "scale", "dropoutProbability", "keyLow", "keyHigh",
                          "headOffset", "longest", "longestQueries", "numScores", "accumulate"},
                         validate_backward,
                         backward_flops,
                         strided_tensors(AttentionBackward::kQueryGradient, AttentionBackward::kKeyGradient,
                                         AttentionBackward::kValueGradient, AttentionBackward::kQuery,
                                         AttentionBackward::kKey, AttentionBackward::kValue)});

// An operand with query heads: query, output and their gradients. `first`: dimensions before the heads.
AttentionOperand head_operand(const TensorView& tensor, int first, int64_t groups, const int32_t* starts) {
  const int64_t member = tensor.stride(-2);
  const int64_t group = tensor.rank == first + 3 ? tensor.stride(-3) : groups == 0 ? 0 : tensor.dim(-2) / groups * member;
  return {tensor.data, tensor.dtype, tensor.stride(0), first == 1 ? 0 : tensor.stride(1), group, member, starts};
}

// An operand with one head per group: key, value and their gradients.
AttentionOperand group_operand(const TensorView& tensor, int first, const int32_t* starts) {
  return {tensor.data, tensor.dtype, tensor.stride(0), first == 1 ? 0 : tensor.stride(1), tensor.stride(-2), 0, starts};
}

// Returns the part of the problem that forward and backward share.
template <typename Op>
AttentionProblem problem_of(const OpCall& call) {
  const Sizes sizes = sizes_of<Op>(call);
  const int first = leading<Op>(call);
  AttentionProblem problem = {};
  problem.dtype = call.tensor(Op::kQuery).dtype;
  const bool has_own_rows = call.has(Op::kQueryStarts);
  problem.starts = call.data<const int32_t>(Op::kStarts);
  problem.query_starts = has_own_rows ? call.data<const int32_t>(Op::kQueryStarts) : problem.starts;
  problem.first_queries = call.data<const int32_t>(Op::kFirstQueries);
  problem.first_keys = call.data<const int32_t>(Op::kFirstKeys);
  problem.num_keys = sizes.packed ? call.integer(Op::kLongest) : sizes.num_keys;
  problem.num_queries = sizes.packed ? problem.num_keys : sizes.num_queries;
  if (has_own_rows) {  // at least 1: keys without queries have gradients, and queries without keys have outputs
    problem.num_keys = std::max<int64_t>(problem.num_keys, 1);
    problem.num_queries = std::max<int64_t>(call.integer(Op::kLongestQueries), 1);
  }
  problem.batch = sizes.batch;
  problem.heads = sizes.heads;
  problem.groups = sizes.groups;
  problem.head_size = sizes.head_size;
  problem.query = head_operand(call.tensor(Op::kQuery), first, sizes.groups, problem.query_starts);
  problem.key = group_operand(call.tensor(Op::kKey), first, problem.starts);
  problem.value = group_operand(call.tensor(Op::kValue), first, problem.starts);
  problem.log_sum_exp = call.tensor(Op::kLogSumExp).data;
  problem.first_query = call.integer(Op::kFirstQuery);
  problem.first_key = call.integer(Op::kFirstKey);
  problem.causal = call.flag(Op::kCausal);
  problem.window = call.attribute(Op::kWindowSize) < 0 ? kNoWindow : call.integer(Op::kWindowSize);
  problem.key_start = call.data<const int32_t>(Op::kKeyStart);
  problem.key_mask = call.data<const uint8_t>(Op::kKeyMask);
  problem.rows = sizes.packed ? sizes.num_keys : 0;
  problem.query_rows = sizes.packed ? sizes.num_queries : 0;
  problem.num_scores = call.integer(Op::kNumScores);
  problem.samples = call.data<const int64_t>(Op::kSamples);
  problem.scale = call.attribute(Op::kScale);
  problem.dropout_probability = call.attribute(Op::kDropoutProbability);
  problem.philox_key = {static_cast<uint32_t>(call.attribute(Op::kKeyLow)),
                        static_cast<uint32_t>(call.attribute(Op::kKeyHigh))};
  problem.head_offset = call.integer(Op::kHeadOffset);
  return problem;
}

// Checks the starts of samples in `rows` rows, at most `longest` rows a sample. `name`: the tensor's name in
// errors.
Status check_starts(const OpCall& call, const char* name, const int32_t* starts, int64_t batch, int64_t longest, int64_t rows) {
  for (int64_t sample = 0; sample < batch; ++sample) {
    const int64_t length = int64_t{starts[sample + 1]} - starts[sample];
    if (length >= 0 && length <= longest) continue;
    return argument_error(call, "%s: sample %lld has rows %d to %d, expected 0 to longest = %lld rows", name,
                          static_cast<long long>(sample), starts[sample], starts[sample + 1], static_cast<long long>(longest));
  }
  if (starts[0] == 0 && starts[batch] <= rows) return ok_status();
  return argument_error(call, "%s go from %d to %d, expected from 0 to at most the %lld rows", name, starts[0], starts[batch],
                        static_cast<long long>(rows));
}

Status check_first(const OpCall& call, const char* name, int64_t sample, int64_t first) {
  if (first >= 0 && first < kNoWindow) return ok_status();
  return argument_error(call, "%s[%lld] is %lld, expected a position from 0 to 2^30 - 1", name, static_cast<long long>(sample),
                        static_cast<long long>(first));
}

Status check_packed(const OpCall& call, const AttentionProblem& problem) {
  const int64_t batch = problem.batch;
  MTL_RETURN_IF_ERROR(check_starts(call, "starts", problem.starts, batch, problem.num_keys, problem.rows));
  MTL_RETURN_IF_ERROR(check_starts(call, "queryStarts", problem.query_starts, batch, problem.num_queries, problem.query_rows));
  int64_t num_scores = 0;
  for (int64_t sample = 0; sample < batch; ++sample) {
    num_scores += length_of(problem.query_starts, sample, 0) * length_of(problem.starts, sample, 0);
    MTL_RETURN_IF_ERROR(check_first(call, "firstQueries", sample, first_query_of(problem, sample)));
    MTL_RETURN_IF_ERROR(check_first(call, "firstKeys", sample, first_key_of(problem, sample)));
  }
  if (problem.num_scores == num_scores) return ok_status();
  return argument_error(call, "numScores is %lld, expected %lld, the sum of the squares of all lengths (of queries times keys)",
                        static_cast<long long>(problem.num_scores), static_cast<long long>(num_scores));
}

// Writes zeros to the rows of an operand that belong to no sample.
void clear_rest(const AttentionProblem& problem, const AttentionOperand& operand, int64_t rows) {
  const int64_t members = operand.member == 0 || problem.groups == 0 ? 1 : problem.heads / problem.groups;
  const size_t element = size_of(operand.dtype), bytes = static_cast<size_t>(problem.head_size) * element;
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
  MTL_RETURN_IF_ERROR(check_packed(call, problem));
  if (problem.query_gradient.data != nullptr) {
    if (problem.accumulate) return ok_status();
    clear_rest(problem, problem.query_gradient, problem.query_rows);
    clear_rest(problem, problem.key_gradient, problem.rows);
    clear_rest(problem, problem.value_gradient, problem.rows);
    return ok_status();
  }
  clear_rest(problem, problem.output, problem.query_rows);
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

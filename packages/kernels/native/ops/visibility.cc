#include "ops/visibility.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "core/validation.h"

namespace mtl {
namespace {

enum Tensors { MTL_VISIBILITY_TENSORS(MTL_CONSTANT_OF) };  // counted from VisibilityCall::first_tensor
enum Attributes { MTL_VISIBILITY_ATTRIBUTES(MTL_CONSTANT_OF) };

int at(const VisibilityCall& operands, Tensors tensor) { return operands.first_tensor + tensor; }
bool has(const VisibilityCall& operands, Tensors tensor) { return operands.call.has(at(operands, tensor)); }

bool is_position(double value) {
  return value >= 0 && value < static_cast<double>(kNoWindow) && value == std::floor(value);
}

bool is_integer_to(double value, double most) { return value >= 0 && value <= most && value == std::floor(value); }

Status expect_tensor(const VisibilityCall& operands, Tensors tensor, DType dtype, std::initializer_list<int64_t> shape) {
  if (!has(operands, tensor)) return ok_status();
  MTL_RETURN_IF_ERROR(expect_shape(operands.call, at(operands, tensor), shape));
  return expect_dtype(operands.call, at(operands, tensor), {dtype});
}

// Checks the sizes of packed samples whose queries have separate rows or separate positions.
Status validate_packed_parts(const VisibilityCall& operands) {
  const OpCall& call = operands.call;
  MTL_RETURN_IF_ERROR(expect_tensor(operands, kQueryStarts, DType::kInt32, {operands.batch + 1}));
  MTL_RETURN_IF_ERROR(expect_tensor(operands, kFirstQueries, DType::kInt32, {operands.batch}));
  MTL_RETURN_IF_ERROR(expect_tensor(operands, kFirstKeys, DType::kInt32, {operands.batch}));
  const double longest = call.attribute(kLongestQueries);
  const double most = has(operands, kQueryStarts) ? static_cast<double>(operands.num_queries) : 0;
  if (is_integer_to(longest, most)) return ok_status();
  return argument_error(call, "longestQueries is %g, expected an integer from 0 to %g, the rows of queries with queryStarts",
                        longest, most);
}

// Checks the operands of packed samples, which replace the masks of samples with padding.
Status validate_packed(const VisibilityCall& operands) {
  const OpCall& call = operands.call;
  MTL_RETURN_IF_ERROR(expect_rank(call, at(operands, kStarts), 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, at(operands, kStarts), {DType::kInt32}));
  if (operands.batch < 0) return argument_error(call, "starts is empty, expected one more than samples");
  for (const Tensors mask : {kKeyStart, kKeyMask}) {
    if (!has(operands, mask)) continue;
    return argument_error(call, "%s is given with packed samples (starts), expected only one of them",
                          tensor_name(call, at(operands, mask)));
  }
  const double first_query = call.attribute(kFirstQuery), first_key = call.attribute(kFirstKey);
  if (first_query != 0 || first_key != 0) {
    return argument_error(call, "firstQuery is %g and firstKey %g with packed samples (starts), expected 0", first_query, first_key);
  }
  MTL_RETURN_IF_ERROR(validate_packed_parts(operands));
  const double longest = call.attribute(kLongest), num_scores = call.attribute(kNumScores);
  if (!is_integer_to(longest, static_cast<double>(operands.num_keys))) {
    return argument_error(call, "longest is %g, expected an integer from 0 to the %lld rows", longest,
                          static_cast<long long>(operands.num_keys));
  }
  // each row belongs to at most one sample, and its query attends to at most all keys of the longest sample
  const double most = longest * static_cast<double>(operands.num_queries);
  if (is_integer_to(num_scores, most)) return ok_status();
  return argument_error(call, "numScores is %.17g, expected the sum of the squares of all lengths (of queries times keys): "
                        "an integer from 0 to longest times the rows, %.17g", num_scores, most);
}

// Rejects options of packed samples in a call without packed samples, which would ignore them.
Status expect_nothing_packed(const VisibilityCall& operands) {
  const OpCall& call = operands.call;
  for (const Tensors tensor : {kQueryStarts, kFirstQueries, kFirstKeys}) {
    if (!has(operands, tensor)) continue;
    return argument_error(call, "%s is given without packed samples (starts), expected both",
                          tensor_name(call, at(operands, tensor)));
  }
  const double longest = call.attribute(kLongest), num_scores = call.attribute(kNumScores);
  if (longest == 0 && num_scores == 0 && call.attribute(kLongestQueries) == 0) return ok_status();
  return argument_error(call, "longest is %g, longestQueries %g and numScores %g without packed samples (starts), expected 0",
                        longest, call.attribute(kLongestQueries), num_scores);
}

// Checks where samples start in `rows` rows. A sample has at most `longest` rows. `name` is the tensor's name
// in errors.
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

}  // namespace

Status validate_visibility(const VisibilityCall& operands) {
  const OpCall& call = operands.call;
  const double window = call.attribute(kWindowSize);
  if (window != -1 && !is_position(window)) {
    return argument_error(call, "windowSize is %g, expected an integer from 0 to 2^30 - 1, or -1 for no window", window);
  }
  if (window >= 0 && !call.flag(kCausal)) {
    return argument_error(call, "windowSize is %g without causal, expected a window of causal attention only", window);
  }
  const double first_query = call.attribute(kFirstQuery), first_key = call.attribute(kFirstKey);
  if (!is_position(first_query) || !is_position(first_key)) {
    return argument_error(call, "firstQuery is %g and firstKey %g, expected integers from 0 to 2^30 - 1", first_query, first_key);
  }
  MTL_RETURN_IF_ERROR(has(operands, kStarts) ? validate_packed(operands) : expect_nothing_packed(operands));
  MTL_RETURN_IF_ERROR(expect_tensor(operands, kKeyStart, DType::kInt32, {operands.batch, operands.num_queries}));
  return expect_tensor(operands, kKeyMask, DType::kUint8, {operands.batch, operands.num_keys});
}

Visibility read_visibility(const VisibilityCall& operands) {
  const OpCall& call = operands.call;
  const bool is_packed = has(operands, kStarts), has_own_rows = has(operands, kQueryStarts);
  const auto integers = [&](Tensors tensor) { return call.data<const int32_t>(at(operands, tensor)); };
  Visibility read = {};
  read.batch = operands.batch;
  read.first_query = call.integer(kFirstQuery);
  read.first_key = call.integer(kFirstKey);
  read.causal = call.flag(kCausal);
  read.window = call.attribute(kWindowSize) < 0 ? kNoWindow : call.integer(kWindowSize);
  read.key_start = integers(kKeyStart);
  read.key_mask = call.data<const uint8_t>(at(operands, kKeyMask));
  read.starts = integers(kStarts);
  read.query_starts = has_own_rows ? integers(kQueryStarts) : read.starts;
  read.first_queries = integers(kFirstQueries);
  read.first_keys = integers(kFirstKeys);
  read.rows = is_packed ? operands.num_keys : 0;
  read.query_rows = is_packed ? operands.num_queries : 0;
  read.num_scores = call.integer(kNumScores);
  read.num_keys = is_packed ? call.integer(kLongest) : operands.num_keys;
  read.num_queries = is_packed ? read.num_keys : operands.num_queries;
  if (has_own_rows) {  // at least 1: keys without queries have gradients, and queries without keys have outputs
    read.num_keys = std::max<int64_t>(read.num_keys, 1);
    read.num_queries = std::max<int64_t>(call.integer(kLongestQueries), 1);
  }
  return read;
}

double counted_scores(const VisibilityCall& operands) {
  if (has(operands, kStarts)) return operands.call.attribute(kNumScores);
  const double window = operands.call.attribute(kWindowSize), keys = static_cast<double>(operands.num_keys);
  return static_cast<double>(operands.num_queries * operands.batch) * (window < 0 ? keys : std::fmin(keys, window + 1));
}

Status check_packed_rows(const OpCall& call, const Visibility& visibility) {
  const int64_t batch = visibility.batch;
  MTL_RETURN_IF_ERROR(check_starts(call, "starts", visibility.starts, batch, visibility.num_keys, visibility.rows));
  MTL_RETURN_IF_ERROR(check_starts(call, "queryStarts", visibility.query_starts, batch, visibility.num_queries, visibility.query_rows));
  int64_t num_scores = 0;
  for (int64_t sample = 0; sample < batch; ++sample) {
    num_scores += length_of(visibility.query_starts, sample, 0) * length_of(visibility.starts, sample, 0);
    MTL_RETURN_IF_ERROR(check_first(call, "firstQueries", sample, first_query_of(visibility, sample)));
    MTL_RETURN_IF_ERROR(check_first(call, "firstKeys", sample, first_key_of(visibility, sample)));
  }
  if (visibility.num_scores == num_scores) return ok_status();
  return argument_error(call, "numScores is %lld, expected %lld, the sum of the squares of all lengths (of queries times keys)",
                        static_cast<long long>(visibility.num_scores), static_cast<long long>(num_scores));
}

}  // namespace mtl

// Cross entropy in two steps, so that the vocabulary may be sharded over ranks: first the local statistics,
// then (after they have been reduced over the ranks) loss and gradient from the global statistics.
//
// cross_entropy_statistics: rowMaximum, rowSum = sum exp(logit - rowMaximum), labelLogit (0 if the label
//                           is on another rank)
// cross_entropy_backward:   loss = log(rowSum) + (rowMaximum - labelLogit) for each token, 0 where the
//                           weight is 0
//                           logitGradient? = weight * (softmax - onehot), 0 in padded columns; may be
//                           logits itself
// cross_entropy_forward_backward: both of these for a rank with the whole vocabulary; the statistics
//                           are outputs
// cross_entropy_rescale:    output = rowSum * exp(rowMaximum - groupMaximum): a rank's sum relative to the
//                           maximum over all ranks, so that sums can be added; output may be rowSum itself
//
//   logits [N, V], logitGradient [N, V] of any floating dtype;  labels int32 [N]: global column indices
//   rowMaximum, groupMaximum, rowSum, labelLogit, loss  [N] float32 (float64 for float64 logits);  weights
//   [N] float32 (or float64)
//   firstColumn: global index of column 0
//   numColumns: number of real columns. The rest is padding, which never enters the softmax. numColumns is 0
//   on a rank that has only padding; the rank's maximum is then -infinity and its sum is 0
//   vocabularySize: number of columns over all ranks. A label below 0, or not below vocabularySize, is
//   MTL_INDEX, unless its weight is 0 or it is ignoreIndex (NaN: none): its loss and gradient are then 0
//   firstRow: the index of row 0 in the message of this error
//   softCap c: if c is above 0, the logits of the softmax are c * tanh(logit / c) (Gemma Team 2024, "Gemma
//   2"), and rowMaximum and labelLogit are soft-capped too; logitGradient is the gradient of the given
//   logits. 0: no soft cap
#include "ops/cross_entropy.h"

#include <cmath>

#include "core/index_check.h"
#include "core/validation.h"

namespace mtl {
namespace {

Status expect_per_row(const OpCall& call, int tensor, int logits) {
  MTL_RETURN_IF_ERROR(expect_shape(call, tensor, {call.tensor(logits).dim(0)}));
  const bool wide = call.tensor(logits).dtype == DType::kFloat64;
  return expect_dtype(call, tensor, {wide ? DType::kFloat64 : DType::kFloat32});
}

Status validate_common(const OpCall& call, int logits, int labels, double soft_cap) {
  using Op = CrossEntropyStatistics;
  MTL_RETURN_IF_ERROR(expect_floating(call, logits));
  MTL_RETURN_IF_ERROR(expect_rank(call, logits, 2, 2));
  MTL_RETURN_IF_ERROR(expect_shape(call, labels, {call.tensor(logits).dim(0)}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, labels, {DType::kInt32}));
  const int64_t num_columns = call.integer(Op::kNumColumns);
  if (num_columns < 0 || num_columns > call.tensor(logits).dim(1)) {
    return argument_error(call, "numColumns is %lld, expected 0 to %lld", static_cast<long long>(num_columns),
                          static_cast<long long>(call.tensor(logits).dim(1)));
  }
  if (soft_cap >= 0 && std::isfinite(soft_cap)) return ok_status();
  return argument_error(call, "softCap is %g, expected a finite number above 0, or 0 for none", soft_cap);
}

// Checks the parameters that determine which labels the loss accepts.
Status validate_label_range(const OpCall& call) {
  using Op = CrossEntropyBackward;
  const double ignored = call.attribute(Op::kIgnoreIndex);
  if (!std::isnan(ignored) && !(std::floor(ignored) == ignored && std::fabs(ignored) <= INT32_MAX)) {
    return argument_error(call, "ignoreIndex is %g, expected a whole number of 32 bits", ignored);
  }
  const int64_t end = call.integer(Op::kFirstColumn) + call.integer(Op::kNumColumns);
  // if a rank has only padding, its first column is beyond the vocabulary
  if (call.integer(Op::kNumColumns) == 0 || call.integer(Op::kVocabularySize) >= end) return ok_status();
  return argument_error(call, "vocabularySize is %lld, expected at least %lld: firstColumn + numColumns",
                        static_cast<long long>(call.integer(Op::kVocabularySize)), static_cast<long long>(end));
}

Status validate_statistics(const OpCall& call) {
  using Op = CrossEntropyStatistics;
  MTL_RETURN_IF_ERROR(validate_common(call, Op::kLogits, Op::kLabels, call.attribute(Op::kSoftCap)));
  for (const int tensor : {Op::kRowMaximum, Op::kRowSum, Op::kLabelLogit}) {
    MTL_RETURN_IF_ERROR(expect_per_row(call, tensor, Op::kLogits));
  }
  return ok_status();
}

Status validate_backward(const OpCall& call) {
  using Op = CrossEntropyBackward;
  MTL_RETURN_IF_ERROR(validate_common(call, Op::kLogits, Op::kLabels, call.attribute(Op::kSoftCap)));
  MTL_RETURN_IF_ERROR(validate_label_range(call));
  for (const int tensor : {Op::kLoss, Op::kRowMaximum, Op::kRowSum, Op::kLabelLogit}) {
    MTL_RETURN_IF_ERROR(expect_per_row(call, tensor, Op::kLogits));
  }
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kWeights, {call.tensor(Op::kLogits).dim(0)}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kWeights, {DType::kFloat32, call.tensor(Op::kLoss).dtype}));
  return call.has(Op::kLogitGradient) ? expect_like(call, Op::kLogitGradient, Op::kLogits) : ok_status();
}

Status validate_forward_backward(const OpCall& call) {
  using Op = CrossEntropyForwardBackward;
  MTL_RETURN_IF_ERROR(validate_common(call, Op::kLogits, Op::kLabels, call.attribute(Op::kSoftCap)));
  MTL_RETURN_IF_ERROR(validate_label_range(call));
  for (const int tensor : {Op::kLoss, Op::kRowMaximum, Op::kRowSum, Op::kLabelLogit}) {
    MTL_RETURN_IF_ERROR(expect_per_row(call, tensor, Op::kLogits));
  }
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kWeights, {call.tensor(Op::kLogits).dim(0)}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kWeights, {DType::kFloat32, call.tensor(Op::kLoss).dtype}));
  return call.has(Op::kLogitGradient) ? expect_like(call, Op::kLogitGradient, Op::kLogits) : ok_status();
}

Status validate_rescale(const OpCall& call) {
  using Op = CrossEntropyRescale;
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kRowSum, 1, 1));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kRowSum, {DType::kFloat32, DType::kFloat64}));
  for (const int tensor : {Op::kOutput, Op::kRowMaximum, Op::kGroupMaximum}) {
    MTL_RETURN_IF_ERROR(expect_like(call, tensor, Op::kRowSum));
  }
  return ok_status();
}

MTL_REGISTER_OP(OpSchema{
    "cross_entropy_rescale", 1, {"output", "rowSum", "rowMaximum", "groupMaximum"}, {}, validate_rescale, nullptr});
MTL_REGISTER_OP(OpSchema{"cross_entropy_statistics",
                         3,
                         {"rowMaximum", "rowSum", "labelLogit", "logits", "labels"},
                         {"firstColumn", "numColumns", "softCap"},
                         validate_statistics,
                         nullptr});
MTL_REGISTER_OP(OpSchema{
    "cross_entropy_forward_backward",
    5,
    {"logitGradient?", "loss", "rowMaximum", "rowSum", "labelLogit", "logits", "labels", "weights"},
    {"firstColumn", "numColumns", "vocabularySize", "ignoreIndex", "firstRow", "softCap"},
    validate_forward_backward,
    nullptr});
MTL_REGISTER_OP(
    OpSchema{"cross_entropy_backward",
             2,
             {"logitGradient?", "loss", "logits", "labels", "rowMaximum", "rowSum", "labelLogit", "weights"},
             {"firstColumn", "numColumns", "vocabularySize", "ignoreIndex", "firstRow", "softCap"},
             validate_backward,
             nullptr});

}  // namespace

Status cross_entropy_in_parts(const OpCall& call, FindKernel find) {
  using Op = CrossEntropyForwardBackward;
  MTL_RETURN_IF_ERROR(run_part(call, find,
                               {"cross_entropy_statistics",
                                {Op::kRowMaximum, Op::kRowSum, Op::kLabelLogit, Op::kLogits, Op::kLabels},
                                {call.attribute(Op::kFirstColumn), call.attribute(Op::kNumColumns),
                                 call.attribute(Op::kSoftCap)}}));
  return run_part(call, find,
                  {"cross_entropy_backward",
                   {Op::kLogitGradient, Op::kLoss, Op::kLogits, Op::kLabels, Op::kRowMaximum, Op::kRowSum,
                    Op::kLabelLogit, Op::kWeights},
                   {call.attribute(Op::kFirstColumn), call.attribute(Op::kNumColumns),
                    call.attribute(Op::kVocabularySize), call.attribute(Op::kIgnoreIndex),
                    call.attribute(Op::kFirstRow), call.attribute(Op::kSoftCap)}});
}

LabelRange label_range(const OpCall& call) {
  using Op = CrossEntropyBackward;
  const double ignored = call.attribute(Op::kIgnoreIndex);
  return {call.integer(Op::kVocabularySize), std::isnan(ignored) ? INT64_MIN : static_cast<int64_t>(ignored),
          call.integer(Op::kFirstRow)};
}

Status expect_labels(const OpCall& call, int labels, int weights) {
  const LabelRange range = label_range(call);
  const TensorView& factors = call.tensor(weights);
  for (int64_t row = 0; row < call.tensor(labels).size(); ++row) {
    const int64_t label = call.data<int32_t>(labels)[row];
    if ((label >= 0 && label < range.end) || label == range.ignored) continue;
    const double weight = factors.dtype == DType::kFloat64 ? call.data<double>(weights)[row] : call.data<float>(weights)[row];
    if (weight != 0.0) return index_error({call.op, tensor_name(call, labels), range.first_row + row, label, range.end});
  }
  return ok_status();
}

}  // namespace mtl

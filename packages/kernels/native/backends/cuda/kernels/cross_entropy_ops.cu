// The cross entropy ops, which run the kernels of cuda/loss.
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/loss/cross_entropy.h"
#include "ops/cross_entropy.h"

namespace mtl::cuda {
namespace {

Status expect_no_cap(const OpCall& call, double soft_cap) {
  if (soft_cap == 0.0) return ok_status();
  return error_status("MTL_UNSUPPORTED", "%s: a soft cap of logits on device cuda, expected none: use device cpu", call.op);
}

CrossEntropyRows rows_of(const OpCall& call, int logits, int labels) {
  using Op = CrossEntropyStatistics;
  const TensorView& tensor = call.tensor(logits);
  return {tensor.dtype,      tensor.dim(0),   tensor.dim(1),   tensor.data, call.data<int32_t>(labels),
          call.integer(Op::kFirstColumn), call.integer(Op::kNumColumns), compute_stream()};
}

// Returns the rows with the parameters for labels: their range, the ignored label, and the first row's
// number.
CrossEntropyRows counted_rows_of(const OpCall& call, int logits, int labels) {
  CrossEntropyRows rows = rows_of(call, logits, labels);
  const LabelRange range = label_range(call);
  rows.check = {index_report(), call.op, "labels", range.end};
  rows.ignored = range.ignored;
  rows.first_row = range.first_row;
  return rows;
}

Status status_of(const OpCall& call, cudaError_t error) {
  if (error != cudaErrorNotSupported) return cuda_status(error, call.op);
  return error_status("MTL_UNSUPPORTED", "%s: expected float32, bfloat16 or float16 logits of at most 2^30 columns", call.op);
}

Status statistics(const OpCall& call) {
  using Op = CrossEntropyStatistics;
  MTL_RETURN_IF_ERROR(expect_no_cap(call, call.attribute(Op::kSoftCap)));
  MTL_RETURN_IF_ERROR(use_device());
  return status_of(call, cross_entropy_statistics(rows_of(call, Op::kLogits, Op::kLabels),
                                                  {call.data<float>(Op::kRowMaximum), call.data<float>(Op::kRowSum),
                                                   call.data<float>(Op::kLabelLogit)}));
}

Status backward(const OpCall& call) {
  using Op = CrossEntropyBackward;
  MTL_RETURN_IF_ERROR(expect_no_cap(call, call.attribute(Op::kSoftCap)));
  MTL_RETURN_IF_ERROR(use_device());
  return status_of(call, cross_entropy_backward(
                             counted_rows_of(call, Op::kLogits, Op::kLabels),
                                 {call.data<float>(Op::kRowMaximum), call.data<float>(Op::kRowSum),
                                  call.data<float>(Op::kLabelLogit)},
                             {call.tensor(Op::kLogitGradient).data, call.data<float>(Op::kLoss),
                              call.data<float>(Op::kWeights)}));
}

Status forward_backward(const OpCall& call) {
  using Op = CrossEntropyForwardBackward;
  MTL_RETURN_IF_ERROR(expect_no_cap(call, call.attribute(Op::kSoftCap)));
  MTL_RETURN_IF_ERROR(use_device());
  return status_of(call, cross_entropy_forward_backward(
                             counted_rows_of(call, Op::kLogits, Op::kLabels),
                                 {call.data<float>(Op::kRowMaximum), call.data<float>(Op::kRowSum),
                                  call.data<float>(Op::kLabelLogit)},
                             {call.tensor(Op::kLogitGradient).data, call.data<float>(Op::kLoss),
                              call.data<float>(Op::kWeights)}));
}

Status rescale(const OpCall& call) {
  using Op = CrossEntropyRescale;
  const TensorView& output = call.tensor(Op::kOutput);
  if (output.dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "cross_entropy_rescale: float64 is computed on the reference device only");
  }
  MTL_RETURN_IF_ERROR(use_device());
  return status_of(call, cross_entropy_rescale(call.data<float>(Op::kOutput), call.data<float>(Op::kRowSum),
                                               call.data<float>(Op::kRowMaximum),
                                               call.data<float>(Op::kGroupMaximum), output.size(), compute_stream()));
}

MTL_REGISTER_CUDA("cross_entropy_statistics", statistics);
MTL_REGISTER_CUDA("cross_entropy_backward", backward);
MTL_REGISTER_CUDA("cross_entropy_forward_backward", forward_backward);
MTL_REGISTER_CUDA("cross_entropy_rescale", rescale);

}  // namespace
}  // namespace mtl::cuda

// attention_forward and attention_backward: the ops over the kernels of cuda/attention.
#include "backends/cuda/kernels/attention_calls.h"
#include "backends/cuda/runtime/op_table.h"

namespace mtl::cuda {
namespace {

Status forward(const OpCall& call) {
  if (call.tensor(AttentionForward::kOutput).size() == 0) return ok_status();
  return run_attention_forward(call, attention_forward_problem(call));
}

Status backward(const OpCall& call) {
  if (call.tensor(AttentionBackward::kOutput).size() == 0) return ok_status();
  return run_attention_backward(call, attention_backward_problem(call));
}

MTL_REGISTER_CUDA("attention_forward", forward);
MTL_REGISTER_CUDA("attention_backward", backward);

}  // namespace
}  // namespace mtl::cuda

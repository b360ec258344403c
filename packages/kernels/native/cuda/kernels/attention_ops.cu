// attention_forward and attention_backward: the ops over the kernels of cuda/attention.
#include "cuda/kernels/attention_calls.h"
#include "cuda/runtime/op_table.h"

namespace mtl::cuda {
namespace {

Status forward(const OpCall& call) {
  if (call.tensor(kAttentionQkv).size() == 0) return ok_status();
  return run_attention_forward(call, attention_problem(call, kAttentionQkv));
}

Status backward(const OpCall& call) {
  if (call.tensor(kAttentionBackwardQkv).size() == 0) return ok_status();
  return run_attention_backward(call, attention_problem(call, kAttentionBackwardQkv));
}

MTL_REGISTER_CUDA("attention_forward", forward);
MTL_REGISTER_CUDA("attention_backward", backward);

}  // namespace
}  // namespace mtl::cuda

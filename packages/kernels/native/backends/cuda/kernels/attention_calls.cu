#include "backends/cuda/kernels/attention_calls.h"

#include <cstdlib>

#include "backends/cuda/attention/attention.h"
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/scratch/attention.h"

namespace mtl::cuda {
namespace {

Status status_of(const OpCall& call, cudaError_t error) {
  if (!is_attention_variable_known()) {
    return error_status("MTL_CUDA", "%s: %s=%s, expected mma.sync (the kernels for any GPU) or no value at all",
                        call.op, kAttentionVariable, std::getenv(kAttentionVariable));
  }
  return cuda_status(error, call.op);
}

}  // namespace

Status run_attention_forward(const OpCall& call, const AttentionProblem& problem) {
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  MTL_RETURN_IF_ERROR(use_device());
  int32_t* const first_keys = takes_first_keys(problem) ? scratch.as<int32_t>(0) : nullptr;
  return status_of(call, attention_forward({problem, compute_stream(), first_keys}));
}

Status run_attention_backward(const OpCall& call, const AttentionProblem& problem) {
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  MTL_RETURN_IF_ERROR(use_device());
  int32_t* const first_keys = takes_first_keys(problem) ? scratch.as<int32_t>(0) : nullptr;
  return status_of(call, attention_backward({problem, compute_stream(), first_keys}));
}

}  // namespace mtl::cuda

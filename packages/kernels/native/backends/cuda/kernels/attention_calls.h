// Runs the kernels of cuda/attention on the tensors of an op call.
#pragma once

#include "core/op_call.h"
#include "ops/attention.h"

namespace mtl::cuda {

// These functions require that `problem` belongs to a validated call with at least one row.
Status run_attention_forward(const OpCall& call, const AttentionProblem& problem);
Status run_attention_backward(const OpCall& call, const AttentionProblem& problem);

}  // namespace mtl::cuda

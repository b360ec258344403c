#include "ops/linear.h"

#include "backends/cpu/reference/element.h"
#include "ops/cross_entropy.h"

namespace mtl::reference {
namespace {

KernelFunction find(const char* op) { return find_op(op)->reference; }

MTL_REGISTER_REFERENCE("linear_gelu_forward", [](const OpCall& call) { return linear_gelu_forward_in_parts(call, find); });
MTL_REGISTER_REFERENCE("linear_gelu_backward", [](const OpCall& call) { return linear_gelu_backward_in_parts(call, find); });
MTL_REGISTER_REFERENCE("linear_residual_forward",
                       [](const OpCall& call) { return linear_residual_forward_in_parts(call, find); });
MTL_REGISTER_REFERENCE("linear_weight_gradient",
                       [](const OpCall& call) { return linear_weight_gradient_in_parts(call, find); });
MTL_REGISTER_REFERENCE("cross_entropy_forward_backward",
                       [](const OpCall& call) { return cross_entropy_in_parts(call, find); });

}  // namespace
}  // namespace mtl::reference

// Operations for which fusion is not faster on a CPU. Each operation runs as a sequence of its component
// operations, with the kernels of the active instruction set.
#include "backends/cpu/cpu_backend.h"
#include "ops/cross_entropy.h"
#include "ops/linear.h"

namespace mtl {
namespace {

KernelFunction find(const char* op) { return cpu_backend()->find_kernel(op); }

constexpr const InstructionSet* kAny = nullptr;
const CpuKernelRegistration forward("linear_gelu_forward", kAny,
                                    [](const OpCall& call) { return linear_gelu_forward_in_parts(call, find); });
const CpuKernelRegistration backward("linear_gelu_backward", kAny,
                                     [](const OpCall& call) { return linear_gelu_backward_in_parts(call, find); });
const CpuKernelRegistration residual("linear_residual_forward", kAny,
                                     [](const OpCall& call) { return linear_residual_forward_in_parts(call, find); });
const CpuKernelRegistration gradients("linear_weight_gradient", kAny,
                                      [](const OpCall& call) { return linear_weight_gradient_in_parts(call, find); });
const CpuKernelRegistration loss("cross_entropy_forward_backward", kAny,
                                 [](const OpCall& call) { return cross_entropy_in_parts(call, find); });

}  // namespace
}  // namespace mtl

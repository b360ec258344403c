// attention_cached on the host. It runs the kernels of its two component operations, one after another.
#include "ops/attention_cached.h"

#include "backends/cpu/cpu_backend.h"

namespace mtl {
namespace {

int64_t position_of(const OpCall& call) { return *call.data<const int32_t>(AttentionCached::kPosition); }

Status run(const OpCall& call) { return AttentionCachedCalls(call, position_of(call)).run(cpu_backend()->find_kernel); }

Status run_reference(const OpCall& call) {
  return AttentionCachedCalls(call, position_of(call)).run(reference_backend()->find_kernel);
}

// Declares the scratch memory for the last position of the cache, which needs the most memory.
Status scratch(const OpCall& call, ScratchBlocks* blocks) {
  return AttentionCachedCalls(call, last_position(call)).scratch(cpu_scratch_of, blocks);
}

const CpuKernelRegistration cpu_registration("attention_cached", nullptr, run, scratch);
MTL_REGISTER_REFERENCE("attention_cached", run_reference);

}  // namespace
}  // namespace mtl

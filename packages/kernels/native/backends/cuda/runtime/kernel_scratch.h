// The scratch memory of an op call: the blocks that the op has declared (see MTL_REGISTER_CUDA_SCRATCH in
// backends/cuda/scratch). The next user of this memory runs after this call's kernels, because both are in
// the compute stream.
#pragma once

#include "backends/cuda/runtime/device.h"
#include "core/op_registry.h"

namespace mtl::cuda {

class KernelScratch : public ScratchMemory {
 public:
  KernelScratch() : ScratchMemory(allocate_device_memory, release_device_memory) {}

  Status take(const OpCall& call) {
    const OpEntry* const entry = find_op(call.op);
    if (entry == nullptr || entry->cuda_scratch == nullptr) {
      return error_status("MTL_ARGUMENT", "%s: takes scratch memory that it has not declared", call.op);
    }
    ScratchBlocks blocks;
    MTL_RETURN_IF_ERROR(entry->cuda_scratch(call, gpu_properties(), &blocks));
    return ScratchMemory::take(call.op, blocks);
  }
};

}  // namespace mtl::cuda

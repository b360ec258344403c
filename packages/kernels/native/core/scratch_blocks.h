// The amount of scratch memory of a kernel, declared next to the kernel: the kernel allocates what its
// declaration states, and device meta counts it.
#pragma once

#include "core/op_call.h"

namespace mtl {

// The blocks that one call of a kernel uses at the same time, in the order of allocation. A block of zero
// bytes counts too: the allocator gives it the smallest size.
struct ScratchBlocks {
  static constexpr int kMost = 8;
  size_t bytes[kMost] = {};
  int count = 0;

  void add(int64_t size) {
    if (count < kMost) bytes[count] = static_cast<size_t>(size);
    ++count;
  }
  // MTL_ARGUMENT if more blocks were added than there is room for.
  Status check(const char* op) const {
    if (count <= kMost) return ok_status();
    return error_status("MTL_ARGUMENT", "%s: declares %d blocks of scratch memory, expected %d at most", op, count, kMost);
  }
};

// Reads only shapes, dtypes and attributes, never the memory of a tensor.
using ScratchFunction = Status (*)(const OpCall&, ScratchBlocks*);

}  // namespace mtl

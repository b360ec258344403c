// How much scratch memory a kernel takes, declared next to the kernel: the kernel allocates what its
// declaration says, and device meta counts it.
#pragma once

#include "core/op_call.h"

namespace mtl {

// The blocks that one call of a kernel holds at the same time, in the order in which it takes them. A block
// of zero bytes is one, too: the allocator gives it its smallest size.
struct ScratchBlocks {
  static constexpr int kMost = 8;
  size_t bytes[kMost] = {};
  int count = 0;

  void add(int64_t size) {
    if (count < kMost) bytes[count++] = static_cast<size_t>(size);
  }
};

// Reads shapes, dtypes and attributes only, never the memory of a tensor.
using ScratchFunction = Status (*)(const OpCall&, ScratchBlocks*);

}  // namespace mtl

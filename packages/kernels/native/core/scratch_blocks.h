// The scratch memory that a kernel needs, declared next to the kernel. The declarations for CUDA kernels are
// in backends/cuda/scratch, which the addon also contains. A kernel allocates the declared blocks; devices
// meta and meta-cuda only count them.
#pragma once

#include "core/op_call.h"
#include "core/round_up.h"

namespace mtl {

// The blocks that a kernel call uses at the same time, in the order in which they are allocated. A block of
// zero bytes also counts, because the allocator gives it the smallest size.
struct ScratchBlocks {
  static constexpr int kMost = 8;
  size_t bytes[kMost] = {};
  int count = 0;

  void add(int64_t size) {
    if (count < kMost) bytes[count] = to_size(size);
    ++count;
  }
  // Returns MTL_ARGUMENT if more than kMost blocks have been added.
  Status check(const char* op) const {
    if (count <= kMost) return ok_status();
    return error_status("MTL_ARGUMENT", "%s: declares %d blocks of scratch memory, expected %d at most", op, count, kMost);
  }
};

// Computes the scratch blocks for a call. Reads only shapes, dtypes, attributes and the alignment of
// addresses, never a tensor's memory.
using ScratchFunction = Status (*)(const OpCall&, ScratchBlocks*);

// The properties of a GPU that determine, together with the call, how much scratch memory CUDA kernels need.
struct GpuProperties {
  int num_multiprocessors = 0;
  int compute_capability = 0;  // 90 for 9.0
};
using CudaScratchFunction = Status (*)(const OpCall&, const GpuProperties&, ScratchBlocks*);

// Scratch memory that is taken from an allocator and released at the end of the object's scope.
class ScratchMemory {
 public:
  using Allocate = Status (*)(size_t bytes, void** data);
  using Release = void (*)(void* data);

  ScratchMemory(Allocate allocate, Release release) : allocate_(allocate), release_(release) {}
  ~ScratchMemory() {
    while (count_ > 0) release_(data_[--count_]);
  }
  ScratchMemory(const ScratchMemory&) = delete;
  ScratchMemory& operator=(const ScratchMemory&) = delete;

  // Allocates the blocks in order. They are released in reverse order.
  Status take(const char* op, const ScratchBlocks& blocks) {
    MTL_RETURN_IF_ERROR(blocks.check(op));
    while (count_ < blocks.count) {
      MTL_RETURN_IF_ERROR(allocate_(blocks.bytes[count_], &data_[count_]));
      ++count_;
    }
    return ok_status();
  }
  template <typename T>
  T* as(int block) const {
    return static_cast<T*>(data_[block]);
  }

 private:
  const Allocate allocate_;
  const Release release_;
  void* data_[ScratchBlocks::kMost] = {};
  int count_ = 0;
};

}  // namespace mtl

// Runs attention_cached as its two component operations.
#pragma once

#include "core/scratch_blocks.h"
#include "ops/append_to_cache.h"
#include "ops/attention.h"

namespace mtl {

struct AttentionCached {
  enum Tensors { kOutput, kKeyCache, kValueCache, kQuery, kKey, kValue, kPosition };
  enum Attributes { kWindowSize, kScale, kSoftCap };
};

// Returns the largest `position` at which a call's new positions still fit into the cache.
int64_t last_position(const OpCall& call);

// The calls of append_to_cache and attention_forward for one position. Each call points into this object.
class AttentionCachedCalls {
 public:
  AttentionCachedCalls(const OpCall& call, int64_t position);
  AttentionCachedCalls(const AttentionCachedCalls&) = delete;
  AttentionCachedCalls& operator=(const AttentionCachedCalls&) = delete;

  // Validates both calls, and runs them with a device's kernels.
  Status run(KernelFunction (*find_kernel)(const char* op)) const;
  Status validate() const;
  double flops() const;
  // Declares the scratch memory of the attention kernel.
  Status scratch(ScratchFunction (*find_scratch)(const char* op), ScratchBlocks* blocks) const;

 private:
  TensorView append_tensors_[AppendToCache::kValue + 1];
  double append_attributes_[1];
  TensorView attend_tensors_[AttentionForward::kSamples + 1] = {};
  double attend_attributes_[AttentionForward::kHeadOffset + 1] = {};
  OpCall append_, attend_;
};

}  // namespace mtl

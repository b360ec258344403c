// attention_cached: append_to_cache followed by attention_forward. The position is read when the call runs,
// so that launching a recorded graph again computes the next token.
//
//   Q new positions, B batch size, A query heads in G groups, D and E head sizes, M the capacity of the
//   caches
//   output [Q, B, A, E], keyCache [B, G, M, D], valueCache [B, G, M, E], query [Q, B, A, D] or
//   [Q, B, G, R, D], key [Q, B, G, D], value [Q, B, G, E]
//   position [1] int32, on the host: the number of positions already cached, at most M - Q
//   windowSize, scale, softCap: see attention_forward. The attention is causal.
// FLOPs are counted for attention over all positions of the cache, because the position is not known before
// the call runs.
#include "ops/attention_cached.h"

#include "core/op_registry.h"
#include "core/validation.h"

namespace mtl {
namespace {

using Op = AttentionCached;

// Returns the first `num_positions` positions of a cache [B, G, M, D] as a strided view [positions, B, G, D].
TensorView positions_of(const TensorView& cache, int64_t num_positions) {
  TensorView view = cache;
  view.is_strided = true;
  const int64_t shape[] = {num_positions, cache.dim(0), cache.dim(1), cache.dim(3)};
  const int64_t strides[] = {cache.stride(2), cache.stride(0), cache.stride(1), 1};
  for (int dim = 0; dim < 4; ++dim) {
    view.shape[dim] = shape[dim];
    view.strides[dim] = strides[dim];
  }
  return view;
}

Status validate(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kPosition, {1}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kPosition, {DType::kInt32}));
  for (const int cache : {int{Op::kKeyCache}, int{Op::kValueCache}}) {
    MTL_RETURN_IF_ERROR(expect_rank(call, cache, 4, 4));
  }
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kKey, 4, 4));
  return AttentionCachedCalls(call, 0).validate();
}

double flops(const OpCall& call) {
  return AttentionCachedCalls(call, last_position(call)).flops();
}

MTL_REGISTER_OP(OpSchema{"attention_cached",
                         3,
                         {"output", "keyCache", "valueCache", "query", "key", "value", "position"},
                         {"windowSize", "scale", "softCap"},
                         validate,
                         flops,
                         strided_tensors(Op::kQuery, Op::kKey, Op::kValue)});

}  // namespace

int64_t last_position(const OpCall& call) { return call.tensor(Op::kKeyCache).dim(2) - call.tensor(Op::kKey).dim(0); }

AttentionCachedCalls::AttentionCachedCalls(const OpCall& call, int64_t position) {
  const TensorView &key = call.tensor(Op::kKey), &value = call.tensor(Op::kValue);
  append_tensors_[AppendToCache::kKeyCache] = call.tensor(Op::kKeyCache);
  append_tensors_[AppendToCache::kValueCache] = call.tensor(Op::kValueCache);
  append_tensors_[AppendToCache::kKey] = key;
  append_tensors_[AppendToCache::kValue] = value;
  append_attributes_[AppendToCache::kPosition] = static_cast<double>(position);
  append_.op = "append_to_cache";
  append_.tensors = append_tensors_;
  append_.num_tensors = AppendToCache::kValue + 1;
  append_.attributes = append_attributes_;
  append_.num_attributes = 1;
  append_.stream = call.stream;

  using Attend = AttentionForward;
  const int64_t num_positions = position + key.dim(0);
  attend_tensors_[Attend::kOutput] = call.tensor(Op::kOutput);
  attend_tensors_[Attend::kQuery] = call.tensor(Op::kQuery);
  attend_tensors_[Attend::kKey] = positions_of(call.tensor(Op::kKeyCache), num_positions);
  attend_tensors_[Attend::kValue] = positions_of(call.tensor(Op::kValueCache), num_positions);
  attend_attributes_[Attend::kCausal] = 1;
  attend_attributes_[Attend::kWindowSize] = call.attribute(Op::kWindowSize);
  attend_attributes_[Attend::kFirstQuery] = static_cast<double>(position);
  attend_attributes_[Attend::kScale] = call.attribute(Op::kScale);
  attend_attributes_[Attend::kSoftCap] = call.attribute(Op::kSoftCap);
  attend_.op = "attention_forward";
  attend_.tensors = attend_tensors_;
  attend_.num_tensors = Attend::kSamples + 1;
  attend_.attributes = attend_attributes_;
  attend_.num_attributes = Attend::kHeadOffset + 1;
  attend_.stream = call.stream;
}

Status AttentionCachedCalls::validate() const {
  MTL_RETURN_IF_ERROR(find_op(append_.op)->schema.validate(append_));
  return find_op(attend_.op)->schema.validate(attend_);
}

Status AttentionCachedCalls::scratch(ScratchFunction (*find_scratch)(const char* op), ScratchBlocks* blocks) const {
  return find_scratch(attend_.op)(attend_, blocks);
}

double AttentionCachedCalls::flops() const { return find_op(attend_.op)->schema.flops(attend_); }

Status AttentionCachedCalls::run(KernelFunction (*find_kernel)(const char* op)) const {
  MTL_RETURN_IF_ERROR(validate());
  MTL_RETURN_IF_ERROR(find_kernel(append_.op)(append_));
  return find_kernel(attend_.op)(attend_);
}

}  // namespace mtl

// attention_cached_forward: attention of new positions over the keys and values of all positions so far, for
// generation.
//
//   Q new positions, B batch, A heads (of this process), D head size
//   M the most positions that the caches hold
//   qkv [Q, B, A, 3, D]   output [Q, B, A, D]   keyCache, valueCache [B, A, M, D], read and written
//   position: how many positions are cached already. New keys and values are stored at
//   position .. position + Q - 1; query i then sees keys 0 .. position + i. No dropout.
//
// FLOPs: 4 B A Q (position + Q) D.
#include "ops/attention_arguments.h"

namespace mtl {
namespace {

Status validate(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_qkv(call, kCachedQkv, 5));
  const TensorView& qkv = call.tensor(kCachedQkv);
  const int64_t queries = qkv.dim(0), batch = qkv.dim(1), heads = qkv.dim(2), head_size = qkv.dim(4);
  MTL_RETURN_IF_ERROR(expect_shape(call, kCachedOutput, {queries, batch, heads, head_size}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, kCachedOutput, {qkv.dtype}));
  MTL_RETURN_IF_ERROR(expect_rank(call, kCachedKeyCache, 4, 4));
  const int64_t capacity = call.tensor(kCachedKeyCache).dim(2);
  for (const int cache : {kCachedKeyCache, kCachedValueCache}) {
    MTL_RETURN_IF_ERROR(expect_shape(call, cache, {batch, heads, capacity, head_size}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, cache, {qkv.dtype}));
  }
  const double position = call.attribute(kCachedPosition);
  if (!is_integer_below(position, static_cast<double>(capacity - queries + 1))) {
    return argument_error(call, "position %g and %lld new positions do not fit a cache of %lld", position,
                          static_cast<long long>(queries), static_cast<long long>(capacity));
  }
  return expect_scale(call, kCachedScale);
}

double flops(const OpCall& call) {
  const TensorView& qkv = call.tensor(kCachedQkv);
  return 4.0 / 3.0 * static_cast<double>(qkv.size()) *
         (call.attribute(kCachedPosition) + static_cast<double>(qkv.dim(0)));
}

MTL_REGISTER_OP(OpSchema{"attention_cached_forward",
                         3,
                         {"keyCache", "valueCache", "output", "qkv"},
                         {"position", "scale"},
                         validate,
                         flops});

}  // namespace
}  // namespace mtl

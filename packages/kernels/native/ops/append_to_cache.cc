// append_to_cache: appends the keys and values of new positions to a cache, for generation.
//
//   Q new positions, B batch size, G groups of heads, D head size of keys, E head size of values, M the
//   capacity of the caches in positions
//   keyCache [B, G, M, D], valueCache [B, G, M, E]; all positions except the new ones stay unchanged
//   key [Q, B, G, D], value [Q, B, G, E]; may be strided views with contiguous heads
//   position: the number of positions already cached. The Q new positions are stored from there on.
#include "ops/append_to_cache.h"

#include <cmath>

#include "core/validation.h"

namespace mtl {
namespace {

using Op = AppendToCache;

Status validate(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_floating(call, Op::kKey));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kKey, 4, 4));
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kValue, 4, 4));
  const TensorView &key = call.tensor(Op::kKey), &value = call.tensor(Op::kValue);
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kValue, {key.dim(0), key.dim(1), key.dim(2), value.dim(3)}));
  MTL_RETURN_IF_ERROR(expect_dtype(call, Op::kValue, {key.dtype}));
  MTL_RETURN_IF_ERROR(expect_whole_rows(call, Op::kKey));
  MTL_RETURN_IF_ERROR(expect_whole_rows(call, Op::kValue));
  const int64_t positions = key.dim(0), batch = key.dim(1), groups = key.dim(2);
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kKeyCache, 4, 4));
  const int64_t capacity = call.tensor(Op::kKeyCache).dim(2);
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kKeyCache, {batch, groups, capacity, key.dim(3)}));
  MTL_RETURN_IF_ERROR(expect_shape(call, Op::kValueCache, {batch, groups, capacity, value.dim(3)}));
  for (const int cache : {int{Op::kKeyCache}, int{Op::kValueCache}}) {
    MTL_RETURN_IF_ERROR(expect_dtype(call, cache, {key.dtype}));
  }
  const double position = call.attribute(Op::kPosition);
  if (position >= 0 && position <= static_cast<double>(capacity - positions) && position == std::floor(position)) {
    return ok_status();
  }
  return argument_error(call, "position is %g, expected the %lld new positions to end at most at %lld, the size of the cache", position,
                        static_cast<long long>(positions), static_cast<long long>(capacity));
}

MTL_REGISTER_OP(OpSchema{"append_to_cache",
                         2,
                         {"keyCache", "valueCache", "key", "value"},
                         {"position"},
                         validate,
                         nullptr,
                         strided_tensors(Op::kKey, Op::kValue)});

}  // namespace
}  // namespace mtl

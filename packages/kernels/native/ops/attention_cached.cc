// attention_cached_forward: attention of new positions to the keys and values of all positions so far, for
// generation.
//
//   Q new positions, B batch, D head size, M the capacity of the caches in positions
//   A query heads (of this process) in G groups of R = A / G, as in attention.cc
//   qkv [Q, B, G, R + 2, D]   output [Q, B, A, D]   keyCache, valueCache [B, G, M, D], read and written
//   position: the number of positions already cached. New keys and values are stored at
//   position .. position + Q - 1; query i then attends to keys 0 .. position + i. No dropout.
//
// FLOPs: 4 B A Q (position + Q) D.
#include "ops/attention_arguments.h"

namespace mtl {
namespace {

using Op = AttentionCachedForward;

Status validate(const OpCall& call) {
  MTL_RETURN_IF_ERROR(expect_qkv(call, Op::kQkv, 5));
  MTL_RETURN_IF_ERROR(expect_attention_output(call, Op::kOutput, Op::kQkv));
  const TensorView& qkv = call.tensor(Op::kQkv);
  const int64_t queries = qkv.dim(0), batch = qkv.dim(1), groups = qkv.dim(2), head_size = qkv.dim(4);
  MTL_RETURN_IF_ERROR(expect_rank(call, Op::kKeyCache, 4, 4));
  const int64_t capacity = call.tensor(Op::kKeyCache).dim(2);
  for (const int cache : {int{Op::kKeyCache}, int{Op::kValueCache}}) {
    MTL_RETURN_IF_ERROR(expect_shape(call, cache, {batch, groups, capacity, head_size}));
    MTL_RETURN_IF_ERROR(expect_dtype(call, cache, {qkv.dtype}));
  }
  const double position = call.attribute(Op::kPosition);
  if (!is_integer_below(position, static_cast<double>(capacity - queries + 1))) {
    return argument_error(call, "position %g and %lld new positions do not fit a cache of %lld", position,
                          static_cast<long long>(queries), static_cast<long long>(capacity));
  }
  return expect_scale(call, Op::kScale);
}

double flops(const OpCall& call) {
  const TensorView& qkv = call.tensor(Op::kQkv);
  const int64_t queries = qkv.dim(0) * qkv.dim(1) * num_heads(qkv) * qkv.dim(4);
  return 4.0 * static_cast<double>(queries) * (call.attribute(Op::kPosition) + static_cast<double>(qkv.dim(0)));
}

AttentionOperand cached(const TensorView& cache) {
  const int64_t size = cache.dim(3), group = cache.dim(2) * size;
  return {cache.data, cache.dtype, size, cache.dim(1) * group, group, 0};
}

MTL_REGISTER_OP(OpSchema{"attention_cached_forward",
                         3,
                         {"keyCache", "valueCache", "output", "qkv"},
                         {"position", "scale"},
                         validate,
                         flops});

}  // namespace

AttentionProblem attention_cached_problem(const OpCall& call) {
  const TensorView& qkv = call.tensor(Op::kQkv);
  AttentionProblem problem = projected_problem(qkv);
  problem.key = cached(call.tensor(Op::kKeyCache));
  problem.value = cached(call.tensor(Op::kValueCache));
  problem.output = heads_of(call.tensor(Op::kOutput), problem.groups);
  problem.batch = qkv.dim(1);
  problem.num_queries = qkv.dim(0);
  problem.first_query = call.integer(Op::kPosition);
  problem.num_keys = problem.first_query + problem.num_queries;
  problem.causal = true;
  problem.scale = call.attribute(Op::kScale);
  return problem;
}

}  // namespace mtl

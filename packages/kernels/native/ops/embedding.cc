// embedding_forward: output[token] = table[id - firstRow] (+ output when accumulate); rows outside the table
// give zeros embedding_backward: tableGradient[id - firstRow] += outputGradient[token], in token order:
// deterministic
//
//   output, outputGradient [..., H]    ids int32 [...]    table [V, H]    tableGradient [V, H] float32 (float64)
//   firstRow: the global number of the table's first row, for a table that is split over ranks by vocabulary
//   numRows: how many rows ids may choose, over all ranks: an id below 0 or from there on is MTL_INDEX
#include "core/validation.h"

namespace mtl {
namespace {

Status validate(const OpCall& call, int activations, int ids, int table) {
  MTL_RETURN_IF_ERROR(expect_floating(call, activations));
  MTL_RETURN_IF_ERROR(expect_rank(call, activations, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_rank(call, table, 2, 2));
  MTL_RETURN_IF_ERROR(expect_dtype(call, ids, {DType::kInt32}));
  if (call.tensor(ids).size() != call.tensor(activations).rows()) {
    return argument_error(call, "%lld ids for %lld rows", static_cast<long long>(call.tensor(ids).size()),
                          static_cast<long long>(call.tensor(activations).rows()));
  }
  return expect_shape(call, table, {call.tensor(table).dim(0), call.tensor(activations).dim(-1)});
}

Status validate_forward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate(call, 0, 1, 2));
  return expect_dtype(call, 2, {call.tensor(0).dtype});
}

Status validate_backward(const OpCall& call) {
  MTL_RETURN_IF_ERROR(validate(call, 1, 2, 0));
  const bool wide = call.tensor(1).dtype == DType::kFloat64;
  return expect_dtype(call, 0, {wide ? DType::kFloat64 : DType::kFloat32});
}

MTL_REGISTER_OP(OpSchema{
    "embedding_forward", 1, {"output", "ids", "table"}, {"firstRow", "accumulate", "numRows"}, validate_forward, nullptr});
MTL_REGISTER_OP(OpSchema{
    "embedding_backward", 1, {"tableGradient", "outputGradient", "ids"}, {"firstRow", "numRows"}, validate_backward, nullptr});

}  // namespace
}  // namespace mtl

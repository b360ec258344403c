// embedding_forward: output[token] = table[id - firstRow] (+ output when accumulate); an id whose row is
// outside of the table gives zeros
// embedding_backward: tableGradient[id - firstRow] += outputGradient[token], in token order, which is
// deterministic
//   output, outputGradient [..., H]    ids int32 [...]    table [V, H]    tableGradient [V, H] float32 (float64)
//   firstRow: the global index of the table's first row, for a table whose vocabulary is sharded over ranks
//   numRows: the number of valid ids, over all ranks: an id below 0, or not below numRows, is MTL_INDEX
#include "core/validation.h"
#include "ops/embedding.h"

namespace mtl {
namespace {

Status validate(const OpCall& call, int activations, int ids, int table) {
  MTL_RETURN_IF_ERROR(expect_floating(call, activations));
  MTL_RETURN_IF_ERROR(expect_rank(call, activations, 2, kMaxRank));
  MTL_RETURN_IF_ERROR(expect_rank(call, table, 2, 2));
  MTL_RETURN_IF_ERROR(expect_dtype(call, ids, {DType::kInt32}));
  if (call.tensor(ids).size() != call.tensor(activations).rows()) {
    return argument_error(call, "ids has %lld elements, expected one for each of the %lld rows of %s",
                          static_cast<long long>(call.tensor(ids).size()),
                          static_cast<long long>(call.tensor(activations).rows()), tensor_name(call, activations));
  }
  return expect_shape(call, table, {call.tensor(table).dim(0), call.tensor(activations).dim(-1)});
}

Status validate_forward(const OpCall& call) {
  using Op = EmbeddingForward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kOutput, Op::kIds, Op::kTable));
  return expect_dtype(call, Op::kTable, {call.tensor(Op::kOutput).dtype});
}

Status validate_backward(const OpCall& call) {
  using Op = EmbeddingBackward;
  MTL_RETURN_IF_ERROR(validate(call, Op::kOutputGradient, Op::kIds, Op::kTableGradient));
  const bool wide = call.tensor(Op::kOutputGradient).dtype == DType::kFloat64;
  return expect_dtype(call, Op::kTableGradient, {wide ? DType::kFloat64 : DType::kFloat32});
}

MTL_REGISTER_OP(OpSchema{
    "embedding_forward", 1, {"output", "ids", "table"}, {"firstRow", "accumulate", "numRows"}, validate_forward, nullptr});
MTL_REGISTER_OP(OpSchema{
    "embedding_backward", 1, {"tableGradient", "outputGradient", "ids"}, {"firstRow", "numRows"}, validate_backward, nullptr});

}  // namespace
}  // namespace mtl

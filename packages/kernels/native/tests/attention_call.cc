#include "tests/attention_call.h"

#include <algorithm>

namespace mtl::tests {

ProjectionViews parts_of(const TensorView& qkv) {
  const int64_t parts = qkv.dim(-2), size = qkv.dim(-1);
  const auto part = [&](int64_t first, bool is_query) {
    TensorView view = qkv;
    view.data = static_cast<char*>(qkv.data) + static_cast<size_t>(first * size) * size_of(qkv.dtype);
    view.is_strided = true;
    for (int dim = 0; dim < qkv.rank; ++dim) view.strides[dim] = qkv.stride(dim);
    if (is_query) {
      view.shape[qkv.rank - 2] = parts - 2;
      return view;
    }
    view.rank = qkv.rank - 1;
    view.shape[view.rank - 1] = size;
    view.strides[view.rank - 1] = 1;
    return view;
  };
  return {part(0, true), part(parts - 2, false), part(parts - 1, false)};
}

ProjectionViews unequal_parts_of(const TensorView& rows, int64_t members, int64_t head_size) {
  const int last = rows.rank - 1;
  const auto part = [&](int64_t offset, int64_t size) {
    TensorView view = rows;
    view.data = static_cast<char*>(rows.data) + static_cast<size_t>(offset) * size_of(rows.dtype);
    view.is_strided = true;
    for (int dim = 0; dim < rows.rank; ++dim) view.strides[dim] = rows.stride(dim);
    view.shape[last] = size;
    return view;
  };
  TensorView query = part(0, members);
  query.rank = rows.rank + 1;
  query.strides[last] = query.shape[last + 1] = head_size;
  query.strides[last + 1] = 1;
  return {query, part(members * head_size, head_size),
          part((members + 1) * head_size, rows.dim(-1) - (members + 1) * head_size)};
}

void AttentionCall::set_operands(const ProjectionViews& parts, const ProjectionViews& gradients) {
  using Op = AttentionBackward;
  tensors[Op::kQuery] = parts.query, tensors[Op::kKey] = parts.key, tensors[Op::kValue] = parts.value;
  tensors[Op::kQueryGradient] = gradients.query, tensors[Op::kKeyGradient] = gradients.key;
  tensors[Op::kValueGradient] = gradients.value;
}

AttentionProblem AttentionCall::problem() const {
  OpCall call;
  call.tensors = tensors;
  call.attributes = attributes;
  AttentionProblem problem = attention_backward_problem(call);
  const std::vector<TensorView> of_forward = tensors_of_forward();
  call.tensors = of_forward.data();
  problem.output = attention_forward_problem(call).output;
  return problem;
}

void AttentionCall::sum_rows() const {
  run_reference("attention_row_sums", {tensors[AttentionBackward::kRowSums], output, tensors[AttentionBackward::kOutputGradient]}, attributes);
}

std::vector<TensorView> AttentionCall::tensors_of_forward() const {
  std::vector<TensorView> result = {output, tensors[AttentionBackward::kLogSumExp], {}};  // without highestScores
  result.insert(result.end(), tensors + AttentionBackward::kQuery, std::end(tensors));
  return result;
}

void AttentionCall::run_on_reference() const {
  run_reference("attention_forward", tensors_of_forward(), attributes);
  sum_rows();
  run_reference("attention_backward", {std::begin(tensors), std::end(tensors)}, attributes);
}

AttentionCall plain_attention_call(double scale) {
  AttentionCall call;
  call[AttentionBackward::kWindowSize] = -1;
  call[AttentionBackward::kScale] = scale;
  return call;
}

}  // namespace mtl::tests

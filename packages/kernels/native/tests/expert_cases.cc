#include "tests/expert_cases.h"

namespace mtl::tests {

// Cases of 15 rows, the first 12 in three groups, and of 5 rows of 3 slots.
std::vector<Case> expert_cases(int64_t width) {
  const Spec x = real(kCompute, {15, width}), out = output(kCompute, {15, width}), offsets = steps(kI32, {4}, 0, 4),
             of_rows = real(kF32, {15}, -1.0), slots = integers(kI32, {5, 3}, -1, 16), experts = integers(kI32, {5, 3}, -1, 4),
             weights = real(kCompute, {3, 7, width});
  std::vector<Case> cases = {
      {"group_by_expert",
       {loose(output(kI32, {4})), output(kI32, {5, 3}), output(kI32, {15}), experts}, {}, {kF32}},
      {"drop_over_capacity", {output(kI32, {5, 3}), experts, real(kF32, {5, 3})}, {3, 2, 0}, {kF32}},
      {"permute_rows", {out, real(kCompute, {5, width}), integers(kI32, {15}, -1, 16)}, {3}},
      {"combine_rows", {output(kCompute, {5, width}), x, loose(slots)}, {}},
      {"grouped_matmul", {output(kCompute, {15, 7}), x, weights, offsets}, {1}},
      {"grouped_matmul", {out, real(kCompute, {15, 7}), weights, offsets}, {0}},
      {"grouped_weight_gradient", {real(kF32, {3, 7, width}), real(kCompute, {15, 7}), x, offsets}, {1}},
      {"grouped_sum_rows", {real(kF32, {3, width}), x, of_rows, offsets}, {1}},
      {"grouped_bias_forward", {out, x, real(kCompute, {3, width}), of_rows, offsets}, {}},
      {"grouped_bias_backward", {output(kF32, {15}), x, real(kCompute, {3, width}), offsets}, {}},
      {"row_gate_forward", {out, x, real(kF32, {15})}, {}},
      {"row_gate_backward", {out, output(kF32, {15}), x, x, real(kF32, {15})}, {}},
      {"row_products", {output(kF32, {15}), x, x, real(kCompute, {width})}, {}},
      {"update_expert_bias", {real(kF32, {width}), integers(kI64, {width}, 0, 9)}, {0.1}, {kF32}},
      {"add_counts", {integers(kI64, {width}, 0, 9), steps(kI32, {width + 1}, 0, 3)}, {}, {kF32}},
  };
  for (const double activation : {0.0, 1.0, 2.0, 3.0, 4.0}) {
    const bool gated = activation == 0.0 || activation == 4.0;
    const int64_t inputs = gated ? 2 * width : width;
    const std::vector<double> attributes = {activation, gated ? 1.5 : 0.0, gated ? 1.0 : 0.0};
    const Spec input = real(kCompute, {15, inputs}), bias = real(kCompute, {3, inputs});
    cases.push_back({"expert_activation_forward", {out, input, bias, of_rows, offsets}, attributes});
    cases.push_back({"expert_activation_backward",
                     {output(kCompute, {15, inputs}), output(kF32, {15}), x, input, bias, of_rows, offsets},
                     attributes});
  }
  return cases;
}

std::vector<Case> router_cases(int64_t experts) {
  const int64_t k = experts < 3 ? 1 : 3;
  const Spec logits = real(kF32, {2, 5, experts}, 2.0), of_slots = real(kF32, {10, k}), of_sequences = real(kF32, {5, experts}),
             chosen = integers(kI32, {10, k}, 0, experts), weights = integers(kF32, {10}, 0, 2);
  std::vector<Case> cases;
  for (const double function : {0.0, 1.0, 2.0}) {
    for (const double before : {0.0, 1.0}) {
      if (before > 0 && function > 0) continue;
      cases.push_back({"router_forward",
                       {output(kF32, {10, k}), output(kI32, {10, k}), logits, real(kF32, {experts}), chosen},
                       {function, before, 2.5, 0, 0},
                       {kF32}});
      cases.push_back(
          {"router_backward", {output(kF32, {2, 5, experts}), of_slots, logits, chosen}, {function, before, 2.5}, {kF32}});
    }
    cases.push_back({"router_statistics_forward",
                     {output(kF32, {5, experts}), output(kF32, {5, experts}), output(kF32, {5}), output(kF32, {5}), logits, weights},
                     {static_cast<double>(k), function, 5},
                     {kF32}});
    cases.push_back({"router_statistics_backward",
                     {output(kF32, {2, 5, experts}), of_sequences, real(kF32, {5}), logits, weights},
                     {function, 5},
                     {kF32}});
  }
  return cases;
}

}  // namespace mtl::tests

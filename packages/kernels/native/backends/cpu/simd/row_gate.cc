#include "ops/row_gate.h"

#include <math.h>

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

MTL_INLINE float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

Status forward(const OpCall& call) {
  using Op = RowGateForward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const int64_t rows = call.tensor(Op::kInput).rows(), hidden = call.tensor(Op::kInput).dim(-1);
    T* const output = call.data<T>(Op::kOutput);
    const T* const input = call.data<T>(Op::kInput);
    const float* const logits = call.data<float>(Op::kLogits);
    for_each(rows, rows * hidden, [&](int64_t row) {
      const float gate = sigmoid(logits[row]);
      for (int64_t h = 0; h < hidden; h += kLanes) {
        const int64_t left = hidden - h;
        store_up_to(output + row * hidden + h, load_up_to(input + row * hidden + h, left) * gate, left);
      }
    });
    return ok_status();
  });
}

Status backward(const OpCall& call) {
  using Op = RowGateBackward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) {
    using T = __typeof__(*type);
    const int64_t rows = call.tensor(Op::kInput).rows(), hidden = call.tensor(Op::kInput).dim(-1);
    T* const input_gradient = call.data<T>(Op::kInputGradient);
    const T *const output_gradient = call.data<T>(Op::kOutputGradient), *const input = call.data<T>(Op::kInput);
    float* const logits_gradient = call.data<float>(Op::kLogitsGradient);
    const float* const logits = call.data<float>(Op::kLogits);
    for_each(rows, rows * hidden, [&](int64_t row) {
      const float gate = sigmoid(logits[row]);
      VFloat products = {};
      for (int64_t h = 0; h < hidden; h += kLanes) {
        const int64_t left = hidden - h;
        const VFloat gradient = load_up_to(output_gradient + row * hidden + h, left);
        products += gradient * load_up_to(input + row * hidden + h, left);
        store_up_to(input_gradient + row * hidden + h, gradient * gate, left);
      }
      logits_gradient[row] = gate * (1.0f - gate) * sum(products);
    });
    return ok_status();
  });
}

MTL_REGISTER_CPU("row_gate_forward", forward);
MTL_REGISTER_CPU("row_gate_backward", backward);

}  // namespace
}  // namespace mtl

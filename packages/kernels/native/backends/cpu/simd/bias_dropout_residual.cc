#include "backends/cpu/simd/simd_philox.h"
#include "ops/bias_dropout_residual.h"

namespace mtl {
namespace {

struct Dropout {
  float scale;  // 1 / (1 - probability)
  uint32_t threshold;
  PhiloxKey key;
  int64_t batch;
  const int64_t* samples;
  const int32_t* positions;  // one per row, if each row has its own sample; or null
  int64_t first_column;      // of the mask
};

// Returns the dropout of activations [S, B, H], which are the call's tensor 1. `samples` is the argument
// index of the samples tensor; the positions are the next argument.
Dropout dropout_of(const OpCall& call, int samples) {
  using Op = BiasDropoutResidualForward;
  const double probability = call.attribute(Op::kProbability);
  return {static_cast<float>(1.0 / (1.0 - probability)), dropout_threshold(probability),
          PhiloxKey{static_cast<uint32_t>(call.integer(Op::kKeyLow)),
                    static_cast<uint32_t>(call.integer(Op::kKeyHigh))},
          call.tensor(Op::kInput).dim(1), call.data<int64_t>(samples), call.data<int32_t>(samples + 1),
          call.integer(Op::kFirstColumn)};
}

// Computes the masks of 64 columns one element at a time. Used if the columns do not begin at the start of
// one of the generator's groups.
MTL_INLINE void keep_masks_from(VInt* masks, const Dropout& dropout, int64_t column, int64_t position, int64_t sample) {
  for (int i = 0; i < 64; ++i) {
    const uint32_t random = philox_element(dropout.key, column + i, position, sample, /*head=*/0);
    masks[i / kLanes][i % kLanes] = random >= dropout.threshold ? -1 : 0;
  }
}

// Calls apply(column, mask) for all vectors of a row. Without dropout, all bits of the mask are set.
template <typename Apply>
MTL_INLINE void for_masked_row(const Dropout& dropout, int64_t row, int64_t hidden, const Apply& apply) {
  constexpr int kVectors = 64 / kLanes;
  VInt masks[kVectors];
  for (int vector = 0; vector < kVectors; ++vector) masks[vector] = ~VInt{};
  const bool own = dropout.positions != nullptr;
  const int64_t sample = dropout.threshold == 0 ? 0 : dropout.samples[own ? row : row % dropout.batch];
  const int64_t position = own ? dropout.positions[row] : row / dropout.batch;
  for (int64_t group = 0; group * 64 < hidden; ++group) {
    if (dropout.threshold != 0 && dropout.first_column % 64 != 0) {
      keep_masks_from(masks, dropout, dropout.first_column + group * 64, position, sample);
    } else if (dropout.threshold != 0) {
      keep_masks_of_group(masks, dropout.key, group + dropout.first_column / 64, static_cast<uint32_t>(position),
                          philox_sample_low(sample), philox_sample_high(sample, 0), dropout.threshold);
    }
    for (int vector = 0; vector < kVectors; ++vector) {
      const int64_t column = group * 64 + vector * kLanes;
      if (column < hidden) apply(column, masks[vector]);
    }
  }
}

template <typename T>
Status forward_of(const OpCall& call) {
  using Op = BiasDropoutResidualForward;
  const int64_t hidden = call.tensor(Op::kInput).dim(2), rows = call.tensor(Op::kInput).rows();
  T* const output = call.data<T>(Op::kOutput);
  const T *const input = call.data<T>(Op::kInput), *const bias = call.data<T>(Op::kBias),
      *const residual = call.data<T>(Op::kResidual);
  const Dropout dropout = dropout_of(call, Op::kSamples);
  for_each(rows, rows * hidden, [&](int64_t row) {
    for_masked_row(dropout, row, hidden, [&](int64_t column, VInt mask) {
      const int64_t at = row * hidden + column, left = hidden - column;
      VFloat value = load_up_to(input + at, left);
      if (bias != nullptr) value += load_up_to(bias + column, left);
      value = select(mask, value * dropout.scale, VFloat{});
      if (residual != nullptr) value += load_up_to(residual + at, left);
      store_up_to(output + at, value, left);
    });
  });
  return ok_status();
}

template <typename T>
Status backward_of(const OpCall& call) {
  using Op = BiasDropoutResidualBackward;
  const int64_t hidden = call.tensor(Op::kOutputGradient).dim(2), rows = call.tensor(Op::kOutputGradient).rows();
  T* const input_gradient = call.data<T>(Op::kInputGradient);
  const T* const output_gradient = call.data<T>(Op::kOutputGradient);
  const Dropout dropout = dropout_of(call, Op::kSamples);
  for_each(rows, rows * hidden, [&](int64_t row) {
    for_masked_row(dropout, row, hidden, [&](int64_t column, VInt mask) {
      const int64_t at = row * hidden + column, left = hidden - column;
      const VFloat gradient = load_up_to(output_gradient + at, left);
      store_up_to(input_gradient + at, select(mask, gradient * dropout.scale, VFloat{}), left);
    });
  });
  return ok_status();
}

Status forward(const OpCall& call) {
  using Op = BiasDropoutResidualForward;
  return for_floating(call.tensor(Op::kInput).dtype, [&](auto* type) { return forward_of<__typeof__(*type)>(call); });
}

Status backward(const OpCall& call) {
  using Op = BiasDropoutResidualBackward;
  return for_floating(call.tensor(Op::kOutputGradient).dtype,
                      [&](auto* type) { return backward_of<__typeof__(*type)>(call); });
}

MTL_REGISTER_CPU("bias_dropout_residual_forward", forward);
MTL_REGISTER_CPU("bias_dropout_residual_backward", backward);

}  // namespace
}  // namespace mtl

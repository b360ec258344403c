#include <math.h>
#include <string.h>

#include "backends/cpu/simd/simd.h"
#include "ops/adamw.h"

namespace mtl {
namespace {

struct Coefficients {
  float beta1, beta2, epsilon, gradient_factor, step, inverse_correction2;
  bool clear_gradient;
};

template <typename T>
struct Buffers {
  float *parameter, *first, *second, *gradient;
  T* model;
};

// Updates the elements [start, end) of a segment. `keep` is 1 - learning rate * weight decay.
template <typename T>
MTL_INLINE void update(const Buffers<T>& b, const Coefficients& c, float keep, int64_t start, int64_t end) {
  for (int64_t i = start; i < end; i += kLanes) {
    const int64_t left = end - i;
    const VFloat gradient = load_up_to(b.gradient + i, left) * c.gradient_factor;
    const VFloat m = c.beta1 * load_up_to(b.first + i, left) + (1.0f - c.beta1) * gradient;
    const VFloat v = c.beta2 * load_up_to(b.second + i, left) + (1.0f - c.beta2) * gradient * gradient;
    const VFloat denominator = square_root(v * c.inverse_correction2) + c.epsilon;
    const VFloat p = load_up_to(b.parameter + i, left) * keep - c.step * m / denominator;
    store_up_to(b.first + i, m, left);
    store_up_to(b.second + i, v, left);
    store_up_to(b.parameter + i, p, left);
    if (b.model != nullptr) store_up_to(b.model + i, p, left);
    if (c.clear_gradient) store_up_to(b.gradient + i, VFloat{}, left);
  }
}

// Returns the index of the first segment that ends after `index`.
int64_t segment_at(const int64_t* segments, int64_t num_segments, int64_t index) {
  int64_t low = 0, high = num_segments;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (segments[2 * middle] <= index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <typename T>
Status adamw_of(const OpCall& call) {
  using Op = Adamw;
  const Buffers<T> b = {call.data<float>(Op::kParameter), call.data<float>(Op::kFirstMoment),
                        call.data<float>(Op::kSecondMoment), call.data<float>(Op::kGradient),
                        call.data<T>(Op::kModelParameter)};
  const float* const scalars = call.data<float>(Op::kScalars);
  const int64_t* const segments = call.data<int64_t>(Op::kSegments);
  const int64_t size = call.tensor(Op::kParameter).size(), num_segments = call.tensor(Op::kSegments).dim(0);
  if (scalars[4] == 0.0f) {
    if (call.flag(Op::kClearGradient)) memset(b.gradient, 0, static_cast<size_t>(size) * sizeof(float));
    return ok_status();
  }
  const Coefficients c = {static_cast<float>(call.attribute(Op::kBeta1)),
                          static_cast<float>(call.attribute(Op::kBeta2)),
                          static_cast<float>(call.attribute(Op::kEpsilon)), scalars[3], scalars[0] / scalars[1],
                          1.0f / scalars[2], call.flag(Op::kClearGradient)};
  const float decayed = 1.0f - scalars[0] * static_cast<float>(call.attribute(Op::kWeightDecay));
  constexpr int64_t kChunk = 16384;
  for_each(divide_up(size, kChunk), size, [&](int64_t number) {
    const int64_t chunk = number * kChunk, chunk_end = smaller(chunk + kChunk, size);
    int64_t segment = segment_at(segments, num_segments, chunk);
    for (int64_t start = chunk; start < chunk_end; ++segment) {
      const bool known = segment < num_segments;
      int64_t end = known && segments[2 * segment] < chunk_end ? segments[2 * segment] : chunk_end;
      if (end < start) end = start;  // a table that is not sorted must not cause out-of-bounds accesses
      update(b, c, known && segments[2 * segment + 1] != 0 ? decayed : 1.0f, start, end);
      start = end;
    }
  });
  return ok_status();
}

Status adamw(const OpCall& call) {
  using Op = Adamw;
  if (!call.has(Op::kModelParameter)) return adamw_of<float>(call);
  return for_floating(call.tensor(Op::kModelParameter).dtype,
                      [&](auto* type) { return adamw_of<__typeof__(*type)>(call); });
}

// Computes the scalars in a single thread and in a fixed order, so that every device gets the same bits.
Status adamw_scalars(const OpCall& call) {
  using Op = AdamwScalars;
  float* const scalars = call.data<float>(Op::kScalars);
  const double loss_scale = call.attribute(Op::kLossScale), clip_grad = call.attribute(Op::kClipGrad);
  const double norm = sqrt(call.data<double>(Op::kSquares)[0]) / loss_scale;
  const double clipping = clip_grad > 0.0 && clip_grad / (norm + 1e-6) < 1.0 ? clip_grad / (norm + 1e-6) : 1.0;
  const bool is_finite = norm * 0.0 == 0.0;
  for (int i = 0; i < 3; ++i) scalars[i] = static_cast<float>(call.attribute(i));
  scalars[3] = is_finite ? static_cast<float>(clipping / loss_scale) : 0.0f;
  scalars[4] = is_finite ? 1.0f : 0.0f;
  call.data<double>(Op::kGradientNorm)[0] = norm;
  return ok_status();
}

MTL_REGISTER_CPU("adamw", adamw);
MTL_REGISTER_CPU("adamw_scalars", adamw_scalars);

}  // namespace
}  // namespace mtl

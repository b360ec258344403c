#include "ops/muon.h"

#include <math.h>
#include <string.h>

#include "backends/cpu/simd/simd.h"

namespace mtl {
namespace {

Status momentum(const OpCall& call) {
  using Op = MuonMomentum;
  float *const average = call.data<float>(Op::kMomentum), *const gradient = call.data<float>(Op::kGradient);
  const float* const scalars = call.data<float>(Op::kScalars);
  if (scalars[4] == 0.0f) return ok_status();
  const int64_t size = call.tensor(Op::kMomentum).size();
  const float factor = scalars[3], decay = static_cast<float>(call.attribute(Op::kDecay));
  const float gain = static_cast<float>(1.0 - call.attribute(Op::kDecay));
  const bool nesterov = call.flag(Op::kNesterov);
  for_each_vector(size, [&](int64_t i, int64_t left) {
    const VFloat g = load_up_to(gradient + i, left) * factor, old = load_up_to(average + i, left);
    const VFloat m = old + gain * (g - old);
    store_up_to(average + i, m, left);
    store_up_to(gradient + i, nesterov ? g + decay * (m - g) : m, left);
  });
  return ok_status();
}

template <typename T>
Status normalize_into(const OpCall& call) {
  using Op = MuonNormalize;
  T* const output = call.data<T>(Op::kOutput);
  const float* const input = call.data<float>(Op::kInput);
  const double norm = sqrt(call.data<double>(Op::kSquares)[0]), epsilon = call.attribute(Op::kEpsilon);
  const float factor = static_cast<float>(1.0 / (norm < epsilon ? epsilon : norm));
  const int64_t size = call.tensor(Op::kInput).size();
  for_each_vector(size, [&](int64_t i, int64_t left) { store_up_to(output + i, load_up_to(input + i, left) * factor, left); });
  return ok_status();
}

Status normalize(const OpCall& call) {
  return for_floating(call.tensor(MuonNormalize::kOutput).dtype,
                      [&](auto* type) { return normalize_into<__typeof__(*type)>(call); });
}

template <typename T>
Status polynomial_of(const OpCall& call) {
  using Op = MuonPolynomial;
  T *const output = call.data<T>(Op::kOutput), *const gram = call.data<T>(Op::kGram);
  const float* const square = call.data<float>(Op::kSquare);
  const float constant = static_cast<float>(call.attribute(Op::kConstant)),
              linear = static_cast<float>(call.attribute(Op::kLinear)),
              quadratic = static_cast<float>(call.attribute(Op::kQuadratic));
  const int64_t size = call.tensor(Op::kGram).dim(0);
  for_each(size, size * size, [&](int64_t row) {
    const int64_t start = row * size;
    const float diagonal =
        constant + linear * load_one(gram + start + row) + quadratic * load_one(square + start + row);
    for (int64_t column = 0; column < size; column += kLanes) {
      const int64_t at = start + column, left = size - column;
      store_up_to(output + at, linear * load_up_to(gram + at, left) + quadratic * load_up_to(square + at, left), left);
    }
    store_one(output + start + row, diagonal);
  });
  return ok_status();
}

Status polynomial(const OpCall& call) {
  return for_floating(call.tensor(MuonPolynomial::kGram).dtype,
                      [&](auto* type) { return polynomial_of<__typeof__(*type)>(call); });
}

template <typename T>
Status update_of(const OpCall& call) {
  using Op = MuonUpdate;
  float *const parameter = call.data<float>(Op::kParameter), *const direction = call.data<float>(Op::kDirection);
  T* const model = call.data<T>(Op::kModelParameter);
  const float* const scalars = call.data<float>(Op::kScalars);
  const int64_t size = call.tensor(Op::kParameter).size();
  const bool clears = call.flag(Op::kClearDirection);
  if (scalars[4] == 0.0f) {
    if (clears) memset(direction, 0, static_cast<size_t>(size) * sizeof(float));
    return ok_status();
  }
  const float rate = scalars[0], keep = 1.0f - rate * static_cast<float>(call.attribute(Op::kWeightDecay));
  for_each_vector(size, [&](int64_t i, int64_t left) {
    const VFloat p = load_up_to(parameter + i, left) * keep - rate * load_up_to(direction + i, left);
    store_up_to(parameter + i, p, left);
    if (model != nullptr) store_up_to(model + i, p, left);
    if (clears) store_up_to(direction + i, VFloat{}, left);
  });
  return ok_status();
}

Status update(const OpCall& call) {
  using Op = MuonUpdate;
  if (!call.has(Op::kModelParameter)) return update_of<float>(call);
  return for_floating(call.tensor(Op::kModelParameter).dtype,
                      [&](auto* type) { return update_of<__typeof__(*type)>(call); });
}

MTL_REGISTER_CPU("muon_momentum", momentum);
MTL_REGISTER_CPU("muon_normalize", normalize);
MTL_REGISTER_CPU("muon_polynomial", polynomial);
MTL_REGISTER_CPU("muon_update", update);

}  // namespace
}  // namespace mtl

// The elementwise ops of Muon: one thread per element. This simple form suffices, because the matmuls between
// these ops cost far more.
#include "backends/cuda/kernels/dispatch.h"
#include "ops/muon.h"

namespace mtl::cuda {
namespace {

__global__ void muon_momentum_kernel(float* average, float* gradient, const float* scalars, int64_t size, float decay,
                                     bool nesterov) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= size || scalars[4] == 0.0f) return;
  const float g = gradient[at] * scalars[3];
  const float m = average[at] + (1.0f - decay) * (g - average[at]);
  average[at] = m;
  gradient[at] = nesterov ? g + decay * (m - g) : m;
}

template <typename T>
__global__ void muon_normalize_kernel(T* output, const float* input, const double* squares, int64_t size,
                                      double epsilon) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= size) return;
  const double norm = sqrt(squares[0]);
  set(output + at, input[at] * static_cast<float>(1.0 / (norm < epsilon ? epsilon : norm)));
}

template <typename T>
__global__ void muon_polynomial_kernel(T* output, const T* gram, const float* square, int64_t size, float constant,
                                       float linear, float quadratic) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= size * size) return;
  const float value = linear * to_float(gram[at]) + quadratic * square[at];
  set(output + at, at / size == at % size ? constant + value : value);
}

template <typename T>
__global__ void muon_update_kernel(float* parameter, T* model, float* direction, const float* scalars, int64_t size,
                                   float weight_decay, bool clears) {
  const int64_t at = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at >= size) return;
  if (scalars[4] != 0.0f) {
    const float p = parameter[at] * (1.0f - scalars[0] * weight_decay) - scalars[0] * direction[at];
    parameter[at] = p;
    if (model != nullptr) set(model + at, p);
  }
  if (clears) direction[at] = 0.0f;
}

Launch by_element(int64_t size) { return grid_of(ceiling(size, int64_t{kThreads}), kThreads); }

Status momentum(const OpCall& call) {
  using Op = MuonMomentum;
  const int64_t size = call.tensor(Op::kMomentum).size();
  MTL_RUN_KERNEL(call, muon_momentum_kernel, by_element(size), call.data<float>(Op::kMomentum),
                 call.data<float>(Op::kGradient), call.data<float>(Op::kScalars), size,
                 static_cast<float>(call.attribute(Op::kDecay)), call.flag(Op::kNesterov));
  return ok_status();
}

Status normalize(const OpCall& call) {
  using Op = MuonNormalize;
  return for_floating(call, call.tensor(Op::kOutput).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t size = call.tensor(Op::kInput).size();
    MTL_RUN_KERNEL(call, (muon_normalize_kernel<T>), by_element(size), call.data<T>(Op::kOutput),
                   call.data<float>(Op::kInput), call.data<double>(Op::kSquares), size, call.attribute(Op::kEpsilon));
    return ok_status();
  });
}

Status polynomial(const OpCall& call) {
  using Op = MuonPolynomial;
  return for_floating(call, call.tensor(Op::kGram).dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const int64_t size = call.tensor(Op::kGram).dim(0);
    MTL_RUN_KERNEL(call, (muon_polynomial_kernel<T>), by_element(size * size), call.data<T>(Op::kOutput),
                   call.data<T>(Op::kGram), call.data<float>(Op::kSquare), size,
                   static_cast<float>(call.attribute(Op::kConstant)), static_cast<float>(call.attribute(Op::kLinear)),
                   static_cast<float>(call.attribute(Op::kQuadratic)));
    return ok_status();
  });
}

template <typename T>
Status update_of(const OpCall& call) {
  using Op = MuonUpdate;
  const int64_t size = call.tensor(Op::kParameter).size();
  MTL_RUN_KERNEL(call, (muon_update_kernel<T>), by_element(size), call.data<float>(Op::kParameter),
                 call.data<T>(Op::kModelParameter), call.data<float>(Op::kDirection), call.data<float>(Op::kScalars),
                 size, static_cast<float>(call.attribute(Op::kWeightDecay)), call.flag(Op::kClearDirection));
  return ok_status();
}

Status update(const OpCall& call) {
  using Op = MuonUpdate;
  if (!call.has(Op::kModelParameter)) return update_of<float>(call);
  return for_floating(call, call.tensor(Op::kModelParameter).dtype,
                      [&](auto* type) { return update_of<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("muon_momentum", momentum);
MTL_REGISTER_CUDA("muon_normalize", normalize);
MTL_REGISTER_CUDA("muon_polynomial", polynomial);
MTL_REGISTER_CUDA("muon_update", update);

}  // namespace
}  // namespace mtl::cuda

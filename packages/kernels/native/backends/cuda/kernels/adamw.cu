// adamw: one launch for all parameters. A block takes a chunk of the flat buffers and finds the segment at
// the chunk's start; few chunks contain parts of more than two segments.
#include "backends/cuda/kernels/dispatch.h"
#include "ops/adamw.h"

namespace mtl::cuda {
namespace {

constexpr int kAccesses = 4;  // accesses of 4 floats by each thread
constexpr int64_t kChunk = int64_t{kThreads} * 4 * kAccesses;

template <typename M>
struct Update {
  float *parameter, *first, *second;
  M* model;  // the rounded copy, or null
  float* gradient;
  const float* scalars;     // on the device: learning rate, 1 - beta1^t, 1 - beta2^t, factor on the gradient, whether to update
  const int64_t* segments;  // [num_segments, 2]: end, whether weight decay applies
  int64_t size, num_segments;
  float beta1, beta2, epsilon, weight_decay;
  bool clear_gradient, packed;
};

// Returns the first segment that ends after `index`.
template <typename M>
__device__ int64_t segment_at(const Update<M>& u, int64_t index) {
  int64_t low = 0, high = u.num_segments;
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (u.segments[2 * middle] <= index) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Stores 4 elements: float32, or half (8 bytes) of a 16-byte access of 16-bit elements.
__device__ __forceinline__ void store4(float* to, const float (&from)[4]) { store(to, from); }
template <typename T>
__device__ __forceinline__ void store4(T* to, const float (&from)[4]) {
  uint2 words;
  words.x = pack(from, static_cast<const T*>(nullptr));
  words.y = pack(from + 2, static_cast<const T*>(nullptr));
  in_one_access<uint2>(to) = words;
}

// Updates elements [at, at + count), count at most 4; the segment of an element decides whether weight decay
// applies.
template <typename M>
__device__ __forceinline__ void update(const Update<M>& u, const float (&scalars)[4], int64_t at, int64_t* segment) {
  const bool whole = u.packed && at + 4 <= u.size;
  const int count = static_cast<int>(min(int64_t{4}, u.size - at));
  float p[4] = {}, m[4] = {}, v[4] = {}, g[4] = {};
  if (whole) {
    load(p, u.parameter + at);
    load(m, u.first + at);
    load(v, u.second + at);
    load(g, u.gradient + at);
  } else {
    for (int i = 0; i < 4; ++i) {
      if (i >= count) break;
      p[i] = u.parameter[at + i];
      m[i] = u.first[at + i];
      v[i] = u.second[at + i];
      g[i] = u.gradient[at + i];
    }
  }
  const float step = scalars[0] / scalars[1], inverse_correction2 = 1.0f / scalars[2];
  const float decayed = 1.0f - scalars[0] * u.weight_decay;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    while (*segment < u.num_segments && u.segments[2 * *segment] <= at + i) ++*segment;
    const bool decays = *segment < u.num_segments && u.segments[2 * *segment + 1] != 0;
    const float gradient = g[i] * scalars[3];
    m[i] = u.beta1 * m[i] + (1.0f - u.beta1) * gradient;
    v[i] = u.beta2 * v[i] + (1.0f - u.beta2) * gradient * gradient;
    p[i] = p[i] * (decays ? decayed : 1.0f) - step * m[i] / (sqrtf(v[i] * inverse_correction2) + u.epsilon);
    g[i] = 0.0f;
  }
  if (whole) {
    store(u.parameter + at, p);
    store(u.first + at, m);
    store(u.second + at, v);
    if (u.model != nullptr) store4(u.model + at, p);
    if (u.clear_gradient) store(u.gradient + at, g);
    return;
  }
  for (int i = 0; i < 4; ++i) {
    if (i >= count) break;
    u.parameter[at + i] = p[i];
    u.first[at + i] = m[i];
    u.second[at + i] = v[i];
    if (u.model != nullptr) set(u.model + at + i, p[i]);
    if (u.clear_gradient) u.gradient[at + i] = 0.0f;
  }
}

template <typename M>
__global__ void adamw_kernel(Update<M> u) {
  const int64_t chunk = int64_t{blockIdx.x} * kChunk;
  const float scalars[4] = {u.scalars[0], u.scalars[1], u.scalars[2], u.scalars[3]};
  const bool updates = u.scalars[4] != 0.0f;
  int64_t segment = updates ? segment_at(u, chunk) : 0;
  for (int access = 0; access < kAccesses; ++access) {
    const int64_t at = chunk + (int64_t{access} * kThreads + threadIdx.x) * 4;
    if (at >= u.size) break;
    if (updates) {
      update(u, scalars, at, &segment);
    } else if (u.clear_gradient) {
      for (int64_t i = at; i < min(at + 4, u.size); ++i) u.gradient[i] = 0.0f;
    }
  }
}

struct Step {
  double learning_rate, correction1, correction2, loss_scale, clip_grad;
};

// Computes the scalars on the device, because the host does not know the norm. One thread runs it.
__global__ void adamw_scalars_kernel(float* scalars, double* gradient_norm, const double* squares, Step step) {
  if (threadIdx.x != 0) return;
  const double norm = sqrt(squares[0]) / step.loss_scale;
  const double clipped = step.clip_grad / (norm + 1e-6);
  const double clipping = step.clip_grad > 0.0 && clipped < 1.0 ? clipped : 1.0;
  const bool is_finite = norm * 0.0 == 0.0;
  scalars[0] = static_cast<float>(step.learning_rate);
  scalars[1] = static_cast<float>(step.correction1);
  scalars[2] = static_cast<float>(step.correction2);
  scalars[3] = is_finite ? static_cast<float>(clipping / step.loss_scale) : 0.0f;
  scalars[4] = is_finite ? 1.0f : 0.0f;
  gradient_norm[0] = norm;
}

Status adamw_scalars(const OpCall& call) {
  using Op = AdamwScalars;
  const Step step = {call.attribute(Op::kLearningRate), call.attribute(Op::kCorrection1),
                     call.attribute(Op::kCorrection2), call.attribute(Op::kLossScale),
      call.attribute(Op::kClipGrad)};
  MTL_RUN_KERNEL(call, adamw_scalars_kernel, grid_of(1, 32), call.data<float>(Op::kScalars),
                 call.data<double>(Op::kGradientNorm),
                 call.data<double>(Op::kSquares), step);
  return ok_status();
}

template <typename M>
Status adamw_of(const OpCall& call) {
  using Op = Adamw;
  Update<M> u = {call.data<float>(Op::kParameter),
                 call.data<float>(Op::kFirstMoment),
                 call.data<float>(Op::kSecondMoment),
                 call.data<M>(Op::kModelParameter),
                 call.data<float>(Op::kGradient),
                 call.data<float>(Op::kScalars),
                 call.data<int64_t>(Op::kSegments),
                 call.tensor(Op::kParameter).size(),
                 call.tensor(Op::kSegments).dim(0),
                 static_cast<float>(call.attribute(Op::kBeta1)),
                 static_cast<float>(call.attribute(Op::kBeta2)),
                 static_cast<float>(call.attribute(Op::kEpsilon)),
                 static_cast<float>(call.attribute(Op::kWeightDecay)),
                 call.flag(Op::kClearGradient),
                 false};
  const std::initializer_list<const void*> buffers = {u.parameter, u.first, u.second, u.model, u.gradient};
  u.packed = std::all_of(buffers.begin(), buffers.end(), is_aligned);
  MTL_RUN_KERNEL(call, (adamw_kernel<M>), grid_of(ceiling(u.size, kChunk), kThreads), u);
  return ok_status();
}

Status adamw(const OpCall& call) {
  using Op = Adamw;
  if (!call.has(Op::kModelParameter)) return adamw_of<float>(call);
  return for_floating(call, call.tensor(Op::kModelParameter).dtype,
                      [&](auto* type) { return adamw_of<std::remove_pointer_t<decltype(type)>>(call); });
}

MTL_REGISTER_CUDA("adamw", adamw);
MTL_REGISTER_CUDA("adamw_scalars", adamw_scalars);

}  // namespace
}  // namespace mtl::cuda

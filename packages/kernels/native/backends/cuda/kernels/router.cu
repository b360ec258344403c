// router_forward and router_backward: one warp per row. Logits and scores are in shared memory.
#include "backends/cuda/index_check.cuh"
#include "backends/cuda/kernels/router_rows.cuh"

namespace mtl::cuda {
namespace {

// The parameters with which scores become weights.
struct Weighing {
  ScoreFunction function;
  bool is_over_all;  // whether the softmax is over all experts
  float factor;
};

// The rows of values in a block's shared memory.
struct Rows {
  float *logits, *scores, *selection, *of_slots;

  __device__ __forceinline__ Rows(unsigned char* bytes, int experts)
      : logits(reinterpret_cast<float*>(bytes)),
        scores(logits + experts),
        selection(scores + experts),
        of_slots(selection + experts) {}
};

// Loads the logits of a row and computes its scores. If the softmax covers only the selected experts, scores
// are logits.
__device__ __forceinline__ void compute_scores(const Rows& row, const float* logits, int experts, const Weighing& how) {
  const int lane = static_cast<int>(threadIdx.x);
  for (int e = lane; e < experts; e += kRowThreads) row.logits[e] = logits[e];
  __syncthreads();
  const bool is_softmax = how.function == ScoreFunction::kSoftmax;
  const Softmax softmax = how.is_over_all ? softmax_of(row.logits, experts) : Softmax{0.0f, 1.0f};
  for (int e = lane; e < experts; e += kRowThreads) {
    const float x = row.logits[e];
    row.scores[e] = !is_softmax ? score(how.function, x) : how.is_over_all ? softmax.of(x) : x;
  }
  __syncthreads();
}

// The function from a slot's score to its weight.
struct Scale {
  bool is_exponential;
  float maximum, divisor;

  __device__ __forceinline__ float of(float score) const {
    return is_exponential ? expf(score - maximum) / divisor : score / divisor;
  }
};

__device__ __forceinline__ Scale scale_of(const float* of_slots, int slots, const Weighing& how) {
  if (how.function == ScoreFunction::kSoftmax) {
    if (how.is_over_all) return {false, 0.0f, 1.0f};
    const Softmax softmax = softmax_of(of_slots, slots);
    return {true, softmax.maximum, softmax.sum};
  }
  return {false, 0.0f, slots == 1 ? 1.0f : sum_of(of_slots, slots) + kSmallestSum};
}

struct Forward {
  float* probabilities;
  int32_t* experts;
  const float *logits, *bias;
  const int32_t* chosen;
  int num_experts, slots, groups, kept_groups;
  Weighing how;
  IndexCheck check;
};

// Replaces the scores of experts in dropped groups by -infinity. `sums` has room for a value of each group.
__device__ __forceinline__ void keep_groups(const Forward& f, float* selection, float* sums) {
  const int lane = static_cast<int>(threadIdx.x), length = f.num_experts / f.groups,
            most = f.slots / f.kept_groups < length ? f.slots / f.kept_groups : length;
  for (int group = lane; group < f.groups; group += kRowThreads) {
    Ranked member = Ranked::start();
    float sum = 0.0f;
    for (int i = 0; i < most; ++i) {
      member = next_of(selection + group * length, 0, length, 1, member);
      sum += member.value;
    }
    sums[group] = ordered(sum);
  }
  __syncthreads();
  Ranked last_kept = Ranked::start();
  for (int i = 0; i < f.kept_groups; ++i) last_kept = next_in_row(sums, f.groups, last_kept);
  for (int e = lane; e < f.num_experts; e += kRowThreads) {
    const Ranked group = {sums[e / length], e / length};
    if (last_kept.is_before(group)) selection[e] = -infinity();
  }
  __syncthreads();
}

__global__ void __launch_bounds__(kRowThreads) forward_kernel(Forward f) {
  MTL_DYNAMIC_SHARED(bytes);
  const Rows row(bytes, f.num_experts);
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t first_slot = int64_t{blockIdx.x} * f.slots;
  compute_scores(row, f.logits + int64_t{blockIdx.x} * f.num_experts, f.num_experts, f.how);
  if (f.chosen == nullptr) {
    for (int e = lane; e < f.num_experts; e += kRowThreads) {
      row.selection[e] = ordered(row.scores[e] + (f.bias == nullptr ? 0.0f : f.bias[e]));
    }
    __syncthreads();
    if (f.groups > 0) keep_groups(f, row.selection, row.logits);
    Ranked expert = Ranked::start();
    for (int slot = 0; slot < f.slots; ++slot) {
      expert = next_in_row(row.selection, f.num_experts, expert);
      if (lane == 0) {
        f.experts[first_slot + slot] = expert.at;
        row.of_slots[slot] = row.scores[expert.at];
      }
    }
  } else {
    for (int slot = lane; slot < f.slots; slot += kRowThreads) {
      const int32_t expert = f.chosen[first_slot + slot];
      const bool is_valid = f.check.is_valid(expert);
      if (!is_valid) f.check.refuse(first_slot + slot, expert);
      f.experts[first_slot + slot] = expert;
      row.of_slots[slot] = is_valid ? row.scores[expert] : NAN;
    }
  }
  __syncthreads();
  const Scale scale = scale_of(row.of_slots, f.slots, f.how);
  for (int slot = lane; slot < f.slots; slot += kRowThreads) {
    f.probabilities[first_slot + slot] = scale.of(row.of_slots[slot]) * f.how.factor;
  }
}

struct Backward {
  float* logits_gradient;
  const float *probabilities_gradient, *logits;
  const int32_t* experts;
  int num_experts, slots;
  Weighing how;
  IndexCheck check;
};

__global__ void __launch_bounds__(kRowThreads) backward_kernel(Backward b) {
  MTL_DYNAMIC_SHARED(bytes);
  const Rows row(bytes, b.num_experts);
  float* const result = row.selection;
  const int lane = static_cast<int>(threadIdx.x);
  const int64_t first_slot = int64_t{blockIdx.x} * b.slots;
  const int32_t* const experts = b.experts + first_slot;
  const float* const gradients = b.probabilities_gradient + first_slot;
  compute_scores(row, b.logits + int64_t{blockIdx.x} * b.num_experts, b.num_experts, b.how);
  for (int slot = lane; slot < b.slots; slot += kRowThreads) {
    const bool is_valid = b.check.is_valid(experts[slot]);
    if (!is_valid) b.check.refuse(first_slot + slot, experts[slot]);
    row.of_slots[slot] = is_valid ? row.scores[experts[slot]] : NAN;
  }
  __syncthreads();
  const Scale scale = scale_of(row.of_slots, b.slots, b.how);
  float mean = 0.0f;
  for (int slot = lane; slot < b.slots; slot += kRowThreads) {
    mean += scale.of(row.of_slots[slot]) * (gradients[slot] * b.how.factor);
  }
  mean = warp_reduce<Sum>(mean);
  // an invalid index has made the mean NaN, and the complete row becomes NaN
  for (int e = lane; e < b.num_experts; e += kRowThreads) {
    result[e] = mean != mean ? mean : b.how.is_over_all ? -row.scores[e] * mean : 0.0f;
  }
  __syncthreads();
  // runs on one lane, because two slots may have the same expert
  for (int slot = 0; lane == 0 && slot < b.slots; ++slot) {
    const int expert = experts[slot];
    if (!b.check.is_valid(expert)) continue;
    const float gradient = gradients[slot] * b.how.factor;
    if (b.how.function == ScoreFunction::kSoftmax) {
      result[expert] += scale.of(row.of_slots[slot]) * (gradient - (b.how.is_over_all ? 0.0f : mean));
    } else {
      const float score_gradient = b.slots > 1 ? (gradient - mean) / scale.divisor : gradient;
      result[expert] += score_gradient * slope(b.how.function, row.logits[expert]);
    }
  }
  __syncthreads();
  float* const to = b.logits_gradient + int64_t{blockIdx.x} * b.num_experts;
  for (int e = lane; e < b.num_experts; e += kRowThreads) to[e] = result[e];
}

Status expect_float32(const OpCall& call, int logits) {
  if (call.tensor(logits).dtype == DType::kFloat32) return ok_status();
  return error_status("MTL_DTYPE", "%s: float64 is computed on the reference device only", call.op);
}

template <typename Op>
Weighing weighing_of(const OpCall& call) {
  return {static_cast<ScoreFunction>(call.integer(Op::kScoreFunction)), call.flag(Op::kPreSoftmax),
          static_cast<float>(call.attribute(Op::kScalingFactor))};
}

Launch launch_of(const RouterSizes& sizes) {
  Launch launch = grid_of(sizes.rows, kRowThreads);
  launch.shared_bytes = static_cast<size_t>(3 * sizes.experts + sizes.slots) * sizeof(float);
  return launch;
}

Status forward(const OpCall& call) {
  using Op = RouterForward;
  MTL_RETURN_IF_ERROR(expect_float32(call, Op::kLogits));
  const RouterSizes sizes = router_sizes(call, Op::kLogits, Op::kProbabilities);
  const Forward f = {call.data<float>(Op::kProbabilities),
                     call.data<int32_t>(Op::kExperts),
                     call.data<float>(Op::kLogits),
                     call.data<float>(Op::kExpertBias),
                     call.data<int32_t>(Op::kChosen),
                     static_cast<int>(sizes.experts),
                     static_cast<int>(sizes.slots),
                     static_cast<int>(call.integer(Op::kNumGroups)),
                     static_cast<int>(call.integer(Op::kGroupTopK)),
                     weighing_of<Op>(call),
                     {index_report(), call.op, "chosen", sizes.experts}};
  MTL_RUN_KERNEL(call, forward_kernel, launch_of(sizes), f);
  return ok_status();
}

Status backward(const OpCall& call) {
  using Op = RouterBackward;
  MTL_RETURN_IF_ERROR(expect_float32(call, Op::kLogits));
  const RouterSizes sizes = router_sizes(call, Op::kLogits, Op::kProbabilitiesGradient);
  const Backward b = {call.data<float>(Op::kLogitsGradient),
                      call.data<float>(Op::kProbabilitiesGradient),
                      call.data<float>(Op::kLogits),
                      call.data<int32_t>(Op::kExperts),
                      static_cast<int>(sizes.experts),
                      static_cast<int>(sizes.slots),
                      weighing_of<Op>(call),
                      {index_report(), call.op, "experts", sizes.experts}};
  MTL_RUN_KERNEL(call, backward_kernel, launch_of(sizes), b);
  return ok_status();
}

MTL_REGISTER_CUDA("router_forward", forward);
MTL_REGISTER_CUDA("router_backward", backward);

}  // namespace
}  // namespace mtl::cuda

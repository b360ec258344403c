// group_by_expert and drop_over_capacity. A counting sort: each block counts the slots of each expert in its
// tile, the counts of earlier tiles are added up, and each slot counts the slots before it in its tile. The
// order of threads does not affect the result.
#include "backends/cuda/index_check.cuh"
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/scratch/expert_groups.h"
#include "ops/expert_groups.h"

namespace mtl::cuda {
namespace {

struct Sort {
  const int32_t* experts;
  int64_t slots;
  int num_experts;
  int32_t* counts;  // [tiles, experts]; after add_counts_kernel, an expert's slots in earlier tiles
  int32_t *offsets, *positions, *sources;
  IndexCheck check;

  // Returns the expert of a slot; -1 beyond the last slot, for dropped slots and for invalid experts
  __device__ __forceinline__ int expert(int64_t slot) const {
    return slot < slots && check.is_valid(experts[slot]) ? experts[slot] : -1;
  }
};

__global__ void __launch_bounds__(kSlotsOfTile) count_kernel(Sort s) {
  MTL_DYNAMIC_SHARED(bytes);
  int32_t* const counts = reinterpret_cast<int32_t*>(bytes);
  const int64_t slot = int64_t{blockIdx.x} * kSlotsOfTile + threadIdx.x;
  for (int e = static_cast<int>(threadIdx.x); e < s.num_experts; e += kSlotsOfTile) counts[e] = 0;
  __syncthreads();
  if (slot < s.slots && !s.check.is_valid(s.experts[slot])) s.check.refuse(slot, s.experts[slot]);
  const int expert = s.expert(slot);
  if (expert >= 0) atomicAdd(&counts[expert], 1);  // integers may be added in any order
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < s.num_experts; e += kSlotsOfTile) {
    s.counts[int64_t{blockIdx.x} * s.num_experts + e] = counts[e];
  }
}

// One block runs it. Each thread adds up the counts of an expert over all tiles, then one thread adds up the
// experts.
__global__ void __launch_bounds__(kThreads) add_counts_kernel(Sort s, int64_t tiles) {
  MTL_DYNAMIC_SHARED(bytes);
  int32_t* const totals = reinterpret_cast<int32_t*>(bytes);
  for (int e = static_cast<int>(threadIdx.x); e < s.num_experts; e += kThreads) {
    int32_t total = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
      int32_t& count = s.counts[tile * s.num_experts + e];
      const int32_t of_tile = count;
      count = total;
      total += of_tile;
    }
    totals[e] = total;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  int32_t offset = 0;
  for (int e = 0; e < s.num_experts; ++e) {
    s.offsets[e] = offset;
    offset += totals[e];
  }
  s.offsets[s.num_experts] = offset;
}

__global__ void __launch_bounds__(kSlotsOfTile) place_kernel(Sort s) {
  MTL_SHARED(int, experts, [kSlotsOfTile]);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t slot = int64_t{blockIdx.x} * kSlotsOfTile + thread;
  const int expert = s.expert(slot);
  experts[thread] = expert;
  __syncthreads();
  if (slot >= s.slots) return;
  if (slot >= s.offsets[s.num_experts]) s.sources[slot] = -1;
  int32_t position = -1;
  if (expert >= 0) {
    position = s.offsets[expert] + s.counts[int64_t{blockIdx.x} * s.num_experts + expert];
    for (int before = 0; before < thread; ++before) position += experts[before] == expert ? 1 : 0;
    s.sources[position] = static_cast<int32_t>(slot);
  }
  s.positions[slot] = position;
}

Status sort_slots(const OpCall& call, const Sort& s) {
  const SortedSlots sorted = {s.slots, s.num_experts};
  const size_t bytes = static_cast<size_t>(s.num_experts) * sizeof(int32_t);
  Launch tiles = grid_of(sorted.tiles(), kSlotsOfTile), one = grid_of(1, kThreads);
  tiles.shared_bytes = one.shared_bytes = bytes;
  MTL_RUN_KERNEL(call, count_kernel, tiles, s);
  MTL_RUN_KERNEL(call, add_counts_kernel, one, s, sorted.tiles());
  MTL_RUN_KERNEL(call, place_kernel, grid_of(sorted.tiles(), kSlotsOfTile), s);
  return ok_status();
}

struct Drop {
  int32_t* output;
  const float* probabilities;
  int64_t capacity;
  bool by_position;
};

// Determines the slots to drop. A thread for each slot counts the slots of the same expert that have
// priority.
__global__ void drop_kernel(Drop d, Sort s) {
  const int64_t slot = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (slot >= s.slots) return;
  const int expert = s.expert(slot);
  int64_t before = 0;
  if (expert >= 0) {
    const int32_t first = s.offsets[expert], last = s.offsets[expert + 1];
    if (d.by_position) {
      before = s.positions[slot] - first;
    } else if (last - first > d.capacity) {
      const float mine = d.probabilities[slot];
      for (int32_t row = first; row < last; ++row) {
        const int32_t other = s.sources[row];
        const float theirs = d.probabilities[other];
        before += theirs > mine || (!(mine > theirs) && other < slot) ? 1 : 0;
      }
    }
  }
  d.output[slot] = expert >= 0 && before < d.capacity ? expert : -1;
}

Status group_by_expert(const OpCall& call) {
  using Op = GroupByExpert;
  const int64_t num_experts = call.tensor(Op::kOffsets).size() - 1;
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  return sort_slots(call, {call.data<int32_t>(Op::kExperts),
                           call.tensor(Op::kExperts).size(),
                           static_cast<int>(num_experts),
                           scratch.as<int32_t>(0),
                           call.data<int32_t>(Op::kOffsets),
                           call.data<int32_t>(Op::kPositions),
                           call.data<int32_t>(Op::kSources),
                           {index_report(), call.op, "experts", num_experts, -1}});
}

Status drop_over_capacity(const OpCall& call) {
  using Op = DropOverCapacity;
  if (call.tensor(Op::kProbabilities).dtype != DType::kFloat32) {
    return error_status("MTL_DTYPE", "%s: float64 is computed on the reference device only", call.op);
  }
  KernelScratch scratch;
  MTL_RETURN_IF_ERROR(scratch.take(call));
  const Sort s = {call.data<int32_t>(Op::kExperts),
                  call.tensor(Op::kExperts).size(),
                  static_cast<int>(call.integer(Op::kNumExperts)),
                  scratch.as<int32_t>(0),
                  scratch.as<int32_t>(1),
                  scratch.as<int32_t>(2),
                  scratch.as<int32_t>(3),
                  {index_report(), call.op, "experts", call.integer(Op::kNumExperts), -1}};
  MTL_RETURN_IF_ERROR(sort_slots(call, s));
  const Drop d = {call.data<int32_t>(Op::kOutput), call.data<float>(Op::kProbabilities), call.integer(Op::kCapacity),
                  call.flag(Op::kByPosition)};
  MTL_RUN_KERNEL(call, drop_kernel, grid_of(ceiling(s.slots, kThreads), kThreads), d, s);
  return ok_status();
}

MTL_REGISTER_CUDA("group_by_expert", group_by_expert);
MTL_REGISTER_CUDA("drop_over_capacity", drop_over_capacity);

}  // namespace
}  // namespace mtl::cuda

// The offsets of groups of rows, which only the device knows. Invalid offsets are reported and clamped to the
// existing rows, so that kernels stay within the memory of their tensors.
#pragma once

#include "backends/cuda/index_check.cuh"
#include "backends/cuda/kernels/dispatch.h"

namespace mtl::cuda {

struct GroupOffsets {
  const int32_t* offsets;  // [groups + 1]
  int64_t groups, rows;
  IndexReport* report;
  const char* op;

  __device__ __forceinline__ int64_t at(int64_t index) const {
    const int64_t value = offsets[index];
    return value < 0 ? 0 : value > rows ? rows : value;
  }
  __device__ __forceinline__ int64_t begin(int64_t group) const { return at(group); }
  __device__ __forceinline__ int64_t end(int64_t group) const {
    const int64_t first = at(group), last = at(group + 1);
    return last < first ? first : last;
  }
  // Returns the end of the last group: later rows are in no group.
  __device__ __forceinline__ int64_t used() const { return at(groups); }

  // Returns the group of a row, or the number of groups for a row after the last group.
  __device__ __forceinline__ int64_t group_of(int64_t row) const {
    int64_t low = 0, high = groups;  // the first group that ends after the row
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (offsets[middle + 1] > row) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // Reports the first invalid offset. Run by the first thread of a grid.
  __device__ __forceinline__ void check() const {
    if (blockIdx.x != 0 || blockIdx.y != 0 || threadIdx.x != 0) return;
    for (int64_t index = 0; index <= groups; ++index) {
      const int64_t first = index == 0 ? 0 : offsets[index - 1], end = index == 0 ? 1 : rows + 1;
      const IndexCheck one = {report, op, "offsets", end, first};
      if (one.is_valid(offsets[index])) continue;
      one.refuse(index, offsets[index]);
      return;
    }
  }
};

inline GroupOffsets group_offsets(const OpCall& call, int offsets, int64_t rows) {
  return {call.data<int32_t>(offsets), call.tensor(offsets).size() - 1, rows, index_report(), call.op};
}

}  // namespace mtl::cuda

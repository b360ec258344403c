// A radix sort on few bits, from the last digit to the first. Each pass has three launches: count each digit
// in every tile, compute prefix sums of the counts, and move every id to its position. Tables have up to
// about 2^18 rows, for which two passes suffice.
#include "backends/cuda/kernels/sort_rows.h"

#include "backends/cuda/kernels/block_reduce.h"
#include "backends/cuda/kernels/dispatch.h"
#include "backends/cuda/scratch/embedding.h"

namespace mtl::cuda {
namespace {

// The input of a pass: in the first pass the ids themselves, in later passes the output of the previous pass.
struct Keys {
  RowIds ids;
  const int32_t *rows, *numbers;  // null in the first pass

  __device__ __forceinline__ int32_t row(int64_t at) const {
    if (rows != nullptr) return rows[at];
    const int64_t row = ids.ids[at] - ids.first_row;
    return static_cast<int32_t>(row >= 0 && row < ids.num_rows ? row : ids.num_rows);
  }
  __device__ __forceinline__ void check(int64_t at) const {
    if (rows == nullptr && !ids.check.is_valid(ids.ids[at])) ids.check.refuse(at, ids.ids[at]);
  }
  __device__ __forceinline__ int32_t number(int64_t at) const {
    return numbers != nullptr ? numbers[at] : static_cast<int32_t>(at);
  }
};

struct Digit {
  int shift, bits;
  __device__ __forceinline__ int of(int32_t row) const { return row >> shift & ((1 << bits) - 1); }
  __host__ __device__ int count() const { return 1 << bits; }
};

// Counts the ids with each digit in each tile: counts[digit][tile].
__global__ void count_digits_kernel(int32_t* counts, Keys keys, Digit digit) {
  MTL_SHARED(int, found, [kMaxDigits]);
  for (int d = static_cast<int>(threadIdx.x); d < digit.count(); d += kThreads) found[d] = 0;
  __syncthreads();
  const int64_t first = int64_t{blockIdx.x} * kTile, end = min(first + kTile, keys.ids.count);
  for (int64_t at = first + threadIdx.x; at < end; at += kThreads) {
    keys.check(at);
    atomicAdd(&found[digit.of(keys.row(at))], 1);
  }
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < digit.count(); d += kThreads) {
    counts[int64_t{d} * gridDim.x + blockIdx.x] = found[d];
  }
}

// Returns the sum of the values of all lower lanes.
__device__ __forceinline__ int sum_of_lanes_before(int own, int lane) {
  int sum = own;
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const int other = __shfl_up_sync(kWholeWarp, sum, static_cast<unsigned>(distance));
    if (lane >= distance) sum += other;
  }
  return sum - own;
}

// Runs with one warp per digit. Replaces each count by the sum of the counts of all earlier tiles, and writes
// the sum over all tiles to `totals`.
__global__ void add_up_tiles_kernel(int32_t* counts, int32_t* totals, int num_digits, int64_t num_tiles) {
  const int digit = static_cast<int>(blockIdx.x) * kWarps + static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (digit >= num_digits) return;
  int32_t* const of_digit = counts + digit * num_tiles;
  int before = 0;
  for (int64_t start = 0; start < num_tiles; start += 32) {
    const int64_t tile = start + lane;
    const int own = tile < num_tiles ? of_digit[tile] : 0;
    const int sum = sum_of_lanes_before(own, lane);
    if (tile < num_tiles) of_digit[tile] = before + sum;
    before += __shfl_sync(kWholeWarp, sum + own, 31);
  }
  if (lane == 0) totals[digit] = before;
}

// Returns a mask of the lanes with a digit that equals this lane's digit.
__device__ __forceinline__ unsigned lanes_with(int value, bool has_one, int bits) {
  unsigned same = __ballot_sync(kWholeWarp, has_one);
  for (int bit = 0; bit < bits; ++bit) {
    const bool is_set = (value >> bit & 1) != 0;
    const unsigned vote = __ballot_sync(kWholeWarp, is_set);
    same &= is_set ? vote : ~vote;
  }
  return same;
}

// Computes the start of each digit among all ids from the digits' counts. Called by the first warp.
__device__ __forceinline__ void find_starts(int* starts, const int32_t* totals, int num_digits) {
  const int lane = static_cast<int>(threadIdx.x);
  int before = 0;
  for (int first = 0; first < num_digits; first += 32) {
    const int own = first + lane < num_digits ? totals[first + lane] : 0;
    const int sum = sum_of_lanes_before(own, lane);
    if (first + lane < num_digits) starts[first + lane] = before + sum;
    before += __shfl_sync(kWholeWarp, sum + own, 31);
  }
}

// Moves ids to their positions. A warp has a range of consecutive ids. It first counts them, then places them
// after the ids of earlier tiles and warps.
__global__ void place_kernel(int32_t* rows, int32_t* numbers, Keys keys, const int32_t* counts, const int32_t* totals,
                             Digit digit) {
  MTL_SHARED(int, next, [kWarps][kMaxDigits]);
  MTL_SHARED(int, starts, [kMaxDigits]);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  for (int d = lane; d < digit.count(); d += 32) next[warp][d] = 0;
  if (warp == 0) find_starts(starts, totals, digit.count());
  __syncwarp();
  const int64_t first = int64_t{blockIdx.x} * kTile + warp * kStretch + lane;
  const unsigned lanes_before = (1u << lane) - 1u;
  int32_t row[kSteps];
  unsigned same[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const bool has_one = first + step * 32 < keys.ids.count;
    row[step] = has_one ? keys.row(first + step * 32) : 0;
    const int own = digit.of(row[step]);
    same[step] = lanes_with(own, has_one, digit.bits);
    // a single lane adds for all lanes with the same digit
    if (has_one && (same[step] & lanes_before) == 0) next[warp][own] += __popc(same[step]);
    __syncwarp();
  }
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < digit.count(); d += kThreads) {
    int position = starts[d] + counts[int64_t{d} * gridDim.x + blockIdx.x];
    for (int other = 0; other < kWarps; ++other) {
      const int found = next[other][d];
      next[other][d] = position;
      position += found;
    }
  }
  __syncthreads();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const bool has_one = first + step * 32 < keys.ids.count;
    const int own = digit.of(row[step]);
    const int position = next[warp][own] + __popc(same[step] & lanes_before);
    __syncwarp();
    if (has_one && (same[step] & lanes_before) == 0) next[warp][own] += __popc(same[step]);
    __syncwarp();
    if (has_one) {
      rows[position] = row[step];
      numbers[position] = keys.number(first + step * 32);
    }
  }
}

}  // namespace

Status sort_rows(const OpCall& call, const RowIds& ids, void* scratch, SortedRows* sorted) {
  if (ids.count > INT32_MAX || ids.num_rows >= INT32_MAX) {
    return error_status("MTL_SHAPE", "%s: %lld ids for %lld rows, expected fewer than 2^31", call.op,
                        static_cast<long long>(ids.count), static_cast<long long>(ids.num_rows));
  }
  const SortPlaces places(ids.count);
  int32_t* const memory = static_cast<int32_t*>(scratch);
  int32_t *const counts = memory + places.counts, *const totals = memory + places.totals;
  int bits = 1;
  while (ids.num_rows >> bits != 0) ++bits;  // num_rows itself is the row of ids that select none
  const int num_passes = (bits + kMaxDigitBits - 1) / kMaxDigitBits;
  Keys keys = {ids, nullptr, nullptr};
  for (int pass = 0; pass < num_passes; ++pass) {
    // the same number of bits in each pass
    const int shift = bits * pass / num_passes;
    const Digit digit = {shift, bits * (pass + 1) / num_passes - shift};
    int32_t *const rows = memory + 2 * (pass % 2) * places.list, *const numbers = rows + places.list;
    MTL_RUN_KERNEL(call, count_digits_kernel, grid_of(num_tiles(ids.count), kThreads), counts, keys, digit);
    MTL_RUN_KERNEL(call, add_up_tiles_kernel, grid_of(ceiling(digit.count(), kWarps), kThreads), counts, totals,
                   digit.count(), num_tiles(ids.count));
    MTL_RUN_KERNEL(call, place_kernel, grid_of(num_tiles(ids.count), kThreads), rows, numbers, keys, counts, totals, digit);
    keys.rows = rows;
    keys.numbers = numbers;
  }
  *sorted = {keys.rows, keys.numbers};
  return ok_status();
}

}  // namespace mtl::cuda

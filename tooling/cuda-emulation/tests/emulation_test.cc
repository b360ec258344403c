// Tests of the emulation that replaces a GPU in tests of CUDA kernels: it computes as the PTX ISA and the
// programming guide specify, and detects each kind of error that it claims to detect.
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "backends/cuda/instructions/ptx.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using cuda::Launch;
using emulation::Order;

constexpr unsigned kAll = 0xffffffffu;
constexpr Order kOrders[] = {Order::kAscending, Order::kDescending, Order::kShuffled};

// Tells whether the launch failed with an error whose message contains `text`.
bool rejected(cudaError_t status, const char* text) {
  const bool as_expected = status == cudaErrorLaunchFailure && std::strstr(emulation::error(), text) != nullptr;
  if (!as_expected) std::printf("  got status %d: %s\n", status, emulation::error());
  emulation::clear_error();
  return as_expected;
}

bool ran(cudaError_t status) {
  if (status != cudaSuccess) std::printf("  got status %d: %s\n", status, emulation::error());
  emulation::clear_error();
  return status == cudaSuccess;
}

float noise(uint32_t index) {
  index = index * 2654435761u ^ 0x9e3779b9u;
  index = (index ^ index >> 15) * 2246822519u;
  return static_cast<float>((index ^ index >> 13) >> 8) / 8388608.0f - 1.0f;
}

__global__ void count_threads(int* counts) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  ++counts[block * blockDim.x * blockDim.y * blockDim.z + thread];
}

__global__ void reverse(float* values, bool with_barrier) {
  MTL_SHARED(float, tile, [128]);
  tile[threadIdx.x] = values[threadIdx.x];
  if (with_barrier) __syncthreads();
  values[threadIdx.x] = tile[127 - threadIdx.x];
}

bool is_reversed(bool with_barrier) {
  std::vector<float> values(128);
  for (int index = 0; index < 128; ++index) values[index] = static_cast<float>(index);
  EXPECT(ran(MTL_LAUNCH(reverse, (Launch{1, 128}), values.data(), with_barrier)));
  for (int index = 0; index < 128; ++index) {
    if (values[index] != static_cast<float>(127 - index)) return false;
  }
  return true;
}

__global__ void shuffles(float* sums, unsigned* lanes) {
  const int lane = static_cast<int>(threadIdx.x);
  float sum = static_cast<float>(lane);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAll, sum, step);
  sums[lane] = sum;
  lanes[lane] = static_cast<unsigned>(__shfl_sync(kAll, lane, 3, 8));
  lanes[32 + lane] = static_cast<unsigned>(__shfl_down_sync(kAll, lane, 2, 16));
  lanes[64 + lane] = static_cast<unsigned>(__shfl_up_sync(kAll, lane, 1));
  lanes[96 + lane] = __ballot_sync(kAll, lane % 3 == 0);
  lanes[128 + lane] = __reduce_add_sync(kAll, static_cast<unsigned>(lane));
  // each half of a warp separately
  const unsigned half = lane < 16 ? 0xffffu : 0xffff0000u;
  lanes[160 + lane] = lane < 16 ? __reduce_max_sync(half, static_cast<unsigned>(lane)) : 7;
}

__global__ void some_threads_end() {
  if (threadIdx.x >= 64) return;
  __syncthreads();
}

__global__ void two_barriers() {
  if (threadIdx.x < 64) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

// The second warp waits for the first warp, which arrives at the barrier but does not wait there.
__global__ void announce_to_another_warp(bool announces, int* out) {
  MTL_SHARED(int, value, [1]);
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) value[0] = 7;
    if (announces) cuda::announce(1, 64);
    return;
  }
  cuda::meet(1, 64);
  out[threadIdx.x - 32] = value[0];
}

__global__ void shuffle_with_a_lane_gone(float* out) {
  if (threadIdx.x == 5) return;
  out[threadIdx.x] = __shfl_sync(kAll, 1.0f, 0);
}

__global__ void read_unwritten(float* out) {
  MTL_SHARED(float, tile, [32]);
  MTL_DYNAMIC_SHARED(bytes);
  const auto* more = reinterpret_cast<const __nv_bfloat16*>(bytes);
  out[threadIdx.x] = threadIdx.x == 0 ? tile[0] : __bfloat162float(more[threadIdx.x]);
}

#if !defined(__SANITIZE_ADDRESS__)
__global__ void write_beyond() {
  MTL_SHARED(float, tile, [32]);
  volatile float* values = tile;
  values[threadIdx.x + 1] = 1.0f;
}
#endif

__global__ void copy_through(const float* in, float* out, bool wait) {
  MTL_SHARED(float, tile, [4 * 32]);
  float* mine = tile + 4 * threadIdx.x;
  cuda::copy_async_16(mine, in + 4 * threadIdx.x, threadIdx.x % 2 == 0);
  cuda::commit_copies();
  if (wait) cuda::wait_for_copies<0>();
  for (int i = 0; i < 4; ++i) out[4 * threadIdx.x + i] = mine[i];
}

__global__ void copy_groups(const float* in, float* out) {
  MTL_SHARED(float, tile, [8]);
  cuda::copy_async_16(tile, in, true);
  cuda::commit_copies();
  cuda::copy_async_16(tile + 4, in + 4, true);
  cuda::commit_copies();
  cuda::wait_for_copies<1>();
  for (int i = 0; i < 8; ++i) out[i] = tile[i];
}

__global__ void load_astray(int offset) {
  MTL_SHARED(uint16_t, tile, [64 * 8]);
  uint32_t r[4];
  cuda::load_matrices(r, tile + threadIdx.x * 8 + offset);
}

template <typename T>
T from_float(float value) {
  if constexpr (sizeof(T) == sizeof(__half) && !std::is_same_v<T, __half>) return __float2bfloat16(value);
  else return __float2half(value);
}
float to_float(__nv_bfloat16 value) { return __bfloat162float(value); }
float to_float(__half value) { return __half2float(value); }

// c [16, 8] += a [16, 16] b [16, 8]. a is loaded with ldmatrix; b, which is row-major in memory, with its
// transposed form.
template <typename T>
__global__ void multiply(const T* a, const T* b, float* c) {
  MTL_SHARED(T, a_tile, [16 * 16]);
  MTL_SHARED(T, b_tile, [2 * 16 * 8]);
  const int lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < 256; i += 32) a_tile[i] = a[i];
  for (int i = lane; i < 256; i += 32) b_tile[i] = b[i % 128];
  __syncwarp();
  uint32_t a_registers[4], b_both[4];
  cuda::load_matrices(a_registers, a_tile + lane % 16 * 16 + lane / 16 * 8);
  cuda::load_matrices_transposed(b_both, b_tile + lane * 8);
  const uint32_t b_registers[2] = {b_both[0], b_both[1]};
  float d[4];
  const int row = lane / 4, column = lane % 4 * 2;
  for (int i = 0; i < 4; ++i) d[i] = c[(row + i / 2 * 8) * 8 + column + i % 2];
  cuda::mma(d, a_registers, b_registers, T{});
  for (int i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
}

template <typename T>
void check_multiply() {
  std::vector<T> a(256), b(128);
  std::vector<float> c(128), expected(128);
  for (uint32_t i = 0; i < 256; ++i) a[i] = from_float<T>(noise(i));
  for (uint32_t i = 0; i < 128; ++i) b[i] = from_float<T>(noise(1000 + i));
  for (uint32_t i = 0; i < 128; ++i) c[i] = noise(2000 + i);
  for (int row = 0; row < 16; ++row) {
    for (int column = 0; column < 8; ++column) {
      double sum = c[row * 8 + column];
      for (int k = 0; k < 16; ++k) sum += double{to_float(a[row * 16 + k])} * to_float(b[k * 8 + column]);
      expected[row * 8 + column] = static_cast<float>(sum);
    }
  }
  EXPECT(ran(MTL_LAUNCH(multiply<T>, (Launch{1, 32}), a.data(), b.data(), c.data())));
  // each side rounds to float once; the sums may differ in the last place of a double
  for (int i = 0; i < 128; ++i) EXPECT(std::fabs(c[i] - expected[i]) <= 1e-6f);
}

}  // namespace

MTL_TEST(cuda_emulation_runs_every_thread_once) {
  const Launch how = {{3, 2, 2}, {4, 3, 2}};
  std::vector<int> counts(how.grid.size() * how.block.size());
  for (const Order order : kOrders) {
    emulation::set_order(order, 3);
    EXPECT(ran(MTL_LAUNCH(count_threads, how, counts.data())));
  }
  emulation::set_order(Order::kAscending);
  for (const int count : counts) EXPECT(count == 3);
}

MTL_TEST(cuda_emulation_keeps_barriers_and_shows_missing_ones) {
  int num_wrong = 0;
  for (const Order order : kOrders) {
    emulation::set_order(order, 3);
    EXPECT(is_reversed(true));
    num_wrong += !is_reversed(false);
  }
  EXPECT(num_wrong == 3);  // in any order, some warp reads values that a later warp writes
  emulation::set_order(Order::kAscending);
}

MTL_TEST(cuda_emulation_shuffles_and_votes) {
  for (const Order order : kOrders) {
    emulation::set_order(order, 9);
    std::vector<float> sums(32);
    std::vector<unsigned> lanes(192);
    EXPECT(ran(MTL_LAUNCH(shuffles, (Launch{1, 32}), sums.data(), lanes.data())));
    for (unsigned lane = 0; lane < 32; ++lane) {
      EXPECT(sums[lane] == 496.0f);
      EXPECT(lanes[lane] == lane / 8 * 8 + 3);
      EXPECT(lanes[32 + lane] == (lane % 16 < 14 ? lane + 2 : lane));
      EXPECT(lanes[64 + lane] == (lane > 0 ? lane - 1 : 0));
      EXPECT(lanes[96 + lane] == 0x49249249u);
      EXPECT(lanes[128 + lane] == 496);
      EXPECT(lanes[160 + lane] == (lane < 16 ? 15 : 7));
    }
  }
  emulation::set_order(Order::kAscending);
}

MTL_TEST(cuda_emulation_reports_threads_that_never_come) {
  EXPECT(rejected(MTL_LAUNCH(some_threads_end, (Launch{2, 128})), "64 ended"));
  EXPECT(rejected(MTL_LAUNCH(two_barriers, (Launch{1, 128})), "another barrier"));
  float out[32];
  EXPECT(rejected(MTL_LAUNCH(shuffle_with_a_lane_gone, (Launch{1, 32}), out), "31 at __shfl_sync"));
  EXPECT(is_reversed(true));  // the emulation still works after the error
}

MTL_TEST(cuda_emulation_counts_threads_that_do_not_wait_at_a_barrier) {
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kShuffled}) {
    emulation::set_order(order, 3);
    int out[32] = {};
    EXPECT(MTL_LAUNCH(announce_to_another_warp, (Launch{1, 64}), true, out) == cudaSuccess);
    for (const int value : out) EXPECT(value == 7);
    EXPECT(rejected(MTL_LAUNCH(announce_to_another_warp, (Launch{1, 64}), false, out), "32 at bar.sync"));
  }
  emulation::set_order(Order::kAscending);
}

MTL_TEST(cuda_emulation_poisons_shared_memory) {
  for (int repeat = 0; repeat < 2; ++repeat) {
    std::vector<float> out(32, 0.0f);
    EXPECT(ran(MTL_LAUNCH(read_unwritten, (Launch{1, 32, 256}), out.data())));
    for (const float value : out) EXPECT(std::isnan(value));
    EXPECT(is_reversed(true));  // leaves numbers in shared memory, where the second round must find NaN
  }
#if !defined(__SANITIZE_ADDRESS__)  // AddressSanitizer ends the process
  EXPECT(rejected(MTL_LAUNCH(write_beyond, (Launch{1, 32})), "beyond its end, at byte 128"));
#endif
}

MTL_TEST(cuda_emulation_refuses_what_no_gpu_launches) {
  EXPECT(rejected(MTL_LAUNCH(some_threads_end, (Launch{1, 1025})), "cannot be launched"));
  EXPECT(rejected(MTL_LAUNCH(some_threads_end, (Launch{{1, 65536}, 32})), "cannot be launched"));
  EXPECT(rejected(MTL_LAUNCH(some_threads_end, (Launch{1, 32, 228 << 10})), "dynamic shared memory"));
}

MTL_TEST(cuda_emulation_copies_arrive_when_waited_for) {
  alignas(16) float in[128], out[128];
  for (uint32_t i = 0; i < 128; ++i) in[i] = noise(i);
  EXPECT(ran(MTL_LAUNCH(copy_through, (Launch{1, 32}), in, out, true)));
  for (int i = 0; i < 128; ++i) EXPECT(out[i] == (i / 4 % 2 == 0 ? in[i] : 0.0f));
  EXPECT(ran(MTL_LAUNCH(copy_through, (Launch{1, 32}), in, out, false)));
  for (int i = 0; i < 128; ++i) EXPECT(std::isnan(out[i]));
  EXPECT(ran(MTL_LAUNCH(copy_groups, (Launch{1, 1}), in, out)));
  for (int i = 0; i < 8; ++i) EXPECT(i < 4 ? out[i] == in[i] : std::isnan(out[i]));
  EXPECT(rejected(MTL_LAUNCH(copy_through, (Launch{1, 32}), in + 1, out, true), "global memory that is not aligned"));
}

MTL_TEST(cuda_emulation_matrix_loads_stay_inside) {
  EXPECT(ran(MTL_LAUNCH(load_astray, (Launch{1, 32}), 0)));
  EXPECT(rejected(MTL_LAUNCH(load_astray, (Launch{1, 32}), 33 * 8), "in no shared array"));
  EXPECT(rejected(MTL_LAUNCH(load_astray, (Launch{1, 32}), 4), "not aligned to 16"));
}

MTL_TEST(cuda_emulation_multiplies_matrices) {
  check_multiply<__nv_bfloat16>();
  check_multiply<__half>();
}

MTL_TEST(cuda_emulation_converts_16_bit_numbers) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float wide = __bfloat162float({static_cast<uint16_t>(bits)}), half = __half2float({static_cast<uint16_t>(bits)});
    if (!std::isnan(wide)) EXPECT(__float2bfloat16(wide).bits == bits);
    if (!std::isnan(half)) EXPECT(__float2half(half).bits == bits);
  }
  EXPECT(__float2bfloat16(1.00390625f).bits == 0x3f80);  // halfway: to even
  EXPECT(__float2bfloat16(1.01171875f).bits == 0x3f82);
  EXPECT(__float2half(1.00048828125f).bits == 0x3c00);
  EXPECT(__float2half(65520.0f).bits == 0x7c00);
}

}  // namespace mtl::tests

// Tests the emulation of Hopper's features: boxes, operands and accumulators have the layout of the PTX ISA's
// tables (repeated here independently), and each kind of error that would otherwise show only on a GPU is
// detected.
#include <cmath>
#include <cstring>
#include <vector>

#include "backends/cuda/instructions/hopper.h"
#include "backends/cuda/runtime/tensor_map.h"
#include "tests/cuda_kernel_test.h"
#include "tests/native_test.h"

namespace mtl::tests {
namespace {

using cuda::Launch;
using cuda::Swizzle;
using cuda::TensorMap;
using emulation::Order;

template <typename Body>
void in_every_order(const Body& body) {
  for (const Order order : {Order::kAscending, Order::kDescending, Order::kShuffled}) {
    emulation::set_order(order, 2);
    body();
  }
  emulation::set_order(Order::kAscending);
}

// Tells whether the launch failed with an error whose message contains `text`.
bool rejected(cudaError_t status, const char* text) {
  const bool as_expected = status == cudaErrorLaunchFailure && std::strstr(emulation::error(), text) != nullptr;
  if (!as_expected) std::printf("  got status %d: %s\n", status, emulation::error());
  emulation::clear_error();
  return as_expected;
}

constexpr int bytes_of(Swizzle swizzle) { return swizzle == Swizzle::k128 ? 128 : swizzle == Swizzle::k64 ? 64 : 32; }

// Returns the position of 16-bit element `column` of row `row` in a panel whose rows are as long as its
// swizzle. With 128 bytes, unit i of row r is at i XOR r mod 8. With 64 bytes, two rows share one line of 128
// bytes, and the pattern has four lines; with 32 bytes, four rows share a line, and the pattern has two
// lines.
int place_in_panel(Swizzle swizzle, int row, int column) {
  const int bytes = bytes_of(swizzle), rows_of_line = 128 / bytes, units = bytes / 16;
  const int unit = column / 8 ^ row / rows_of_line % units;
  return row * bytes / 2 + unit * 8 + column % 8;
}

// Shared memory of the kernels below: a tile, followed by a barrier.
constexpr int kTileBytes = 16384, kSharedBytes = kTileBytes + static_cast<int>(sizeof(uint64_t));

__device__ uint64_t* barrier_behind(unsigned char* tile) { return reinterpret_cast<uint64_t*>(tile + kTileBytes); }

// Starts to copy a box to the tile, from row `row` on, and announces the given number of bytes to the
// barrier. Called by one thread.
__device__ void bring_box(unsigned char* tile, const TensorMap& map, int column, int vector, int row, int announced) {
  cuda::arrive_expecting(barrier_behind(tile), announced);
  cuda::copy_box(tile, map, column, vector, row, barrier_behind(tile));
}

// --- boxes

struct BoxCase {
  Swizzle swizzle;
  int column, vector, row;
};

__global__ void copy_one_box(const TensorMap map, BoxCase where, uint16_t* out, int elements, int announced) {
  MTL_DYNAMIC_SHARED(bytes);
  if (threadIdx.x == 0) {
    cuda::set_up_barrier(barrier_behind(bytes), 1);
    cuda::publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x == 0) bring_box(bytes, map, where.column, where.vector, where.row, announced);
  cuda::wait_for_phase(barrier_behind(bytes), 0, 0);
  for (int i = static_cast<int>(threadIdx.x); i < elements; i += 64) out[i] = reinterpret_cast<uint16_t*>(bytes)[i];
}

constexpr int kPositions = 50, kVectors = 3, kColumns = 72, kBox = 32;

TensorMap map_of(const std::vector<uint16_t>& tensor, Swizzle swizzle) {
  TensorMap map;
  EXPECT(cuda::make_tensor_map(&map, {tensor.data(), false, kPositions, kVectors, kColumns, kVectors * kColumns, kColumns, kBox,
                                      bytes_of(swizzle) / 2, swizzle}) == cudaSuccess);
  return map;
}

// A tensor whose elements are their own indices.
std::vector<uint16_t> numbered_tensor() {
  std::vector<uint16_t> tensor(kPositions * kVectors * kColumns);
  for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = static_cast<uint16_t>(i + 1);
  return tensor;
}

// --- matmuls

// Operand B [k, n], 16 x kColumns, in K-major panels (rows n, columns k) or MN-major panels (rows k, columns
// n) with a total of `depth` steps along k.
struct MatmulCase {
  Swizzle swizzle;
  bool a_in_registers;
  int start;  // first of the 16 steps along k, if the panel is deeper
};

constexpr int kDepth = 32;

template <typename T, int kN>
__global__ void multiply(const T* a, const T* b, const float* c, float* d, MatmulCase how, bool accumulate) {
  MTL_DYNAMIC_SHARED(bytes);
  auto* a_tile = reinterpret_cast<T*>(bytes);
  auto* b_tile = reinterpret_cast<T*>(bytes + 16384);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  const int row_bytes = bytes_of(how.swizzle), width = row_bytes / 2;
  // A is K-major: 64 rows, with the whole depth in one panel or, if rows of a panel are short, in several
  for (int i = thread; i < 64 * kDepth; i += 128) {
    const int row = i / kDepth, k = i % kDepth;
    a_tile[k / width * 64 * width + place_in_panel(how.swizzle, row, k % width)] = a[i];
  }
  for (int i = thread; i < kDepth * kN; i += 128) {
    const int k = i / kN, n = i % kN;
    if (how.a_in_registers) {
      b_tile[n / width * kDepth * width + place_in_panel(how.swizzle, k, n % width)] = b[i];  // MN-major
    } else {
      b_tile[k / width * kN * width + place_in_panel(how.swizzle, n, k % width)] = b[i];
    }
  }
  cuda::fence_async_proxy();
  __syncthreads();
  const uint32_t a_at = cuda::shared_address(a_tile), b_at = cuda::shared_address(b_tile);
  const auto stride = static_cast<uint32_t>(8 * row_bytes);
  float sums[kN / 8][4];
  const auto place = [&](int n, int i) { return (16 * warp + lane / 4 + i / 2 * 8) * kN + 8 * n + lane % 4 * 2 + i % 2; };
  for (int n = 0; n < kN / 8; ++n) {
    for (int i = 0; i < 4; ++i) sums[n][i] = c[place(n, i)];
  }
  cuda::fence_wgmma();
  const int k = how.start;
  uint32_t registers[4];
  if (how.a_in_registers) {
    for (int number = 0; number < 4; ++number) {
      const T* from = a + (16 * warp + lane / 4 + number % 2 * 8) * kDepth + k + lane % 4 * 2 + number / 2 * 8;
      std::memcpy(&registers[number], from, 4);
    }
    const auto at = b_at + static_cast<uint32_t>(k * row_bytes);
    const uint64_t matrix = cuda::matrix_descriptor(at, static_cast<uint32_t>(kDepth * row_bytes), stride, how.swizzle);
    cuda::WarpGroupMatmul<T, kN>::by_columns(sums, registers, matrix, accumulate);
  } else {
    const auto at = [&](uint32_t tile, int rows) { return tile + static_cast<uint32_t>(k / width * rows * row_bytes + k % width * 2); };
    cuda::WarpGroupMatmul<T, kN>::by_rows(sums, cuda::matrix_descriptor(at(a_at, 64), 16, stride, how.swizzle),
                                          cuda::matrix_descriptor(at(b_at, kN), 16, stride, how.swizzle), accumulate);
  }
  cuda::commit_wgmma();
  cuda::wait_for_wgmma<0>();
  for (int n = 0; n < kN / 8; ++n) {
    for (int i = 0; i < 4; ++i) d[place(n, i)] = sums[n][i];
  }
}

template <typename T, int kN>
void check_matmul(DType dtype, MatmulCase how, bool accumulate) {
  HostTensor a(dtype, {64, kDepth}), b(dtype, {kDepth, kN}), c(DType::kFloat32, {64, kN}), d(DType::kFloat32, {64, kN});
  a.fill(1, 1.0);
  b.fill(2, 1.0);
  c.fill(3, 1.0);
  // sums of 17 terms of at most 1, rounded to float once
  const double tolerance = std::ldexp(17.0, -24);
  EXPECT(ran(MTL_LAUNCH((multiply<T, kN>), (Launch{1, 128, 32768}), a.data<const T>(), b.data<const T>(),
                        c.data<const float>(), d.data<float>(), how, accumulate)));
  for (int row = 0; row < 64; ++row) {
    for (int n = 0; n < kN; ++n) {
      double sum = accumulate ? c.get(row * kN + n) : 0.0;
      for (int k = how.start; k < how.start + 16; ++k) sum += a.get(row * kDepth + k) * b.get(k * kN + n);
      EXPECT(std::fabs(d.get(row * kN + n) - sum) <= tolerance);
    }
  }
}

// --- injected faults

enum class Fault {
  kNone,
  kNoArrival,
  kWrongParity,
  kTooManyArrivals,
  kNotSetUp,
  kNotPublished,
  kTooManyBytes,
  kNotAligned,
  kCopyUnderWay,
};

__global__ void use_barrier(const TensorMap map, Fault fault) {
  MTL_DYNAMIC_SHARED(bytes);
  uint64_t* const barrier = barrier_behind(bytes);
  if (threadIdx.x == 0 && fault != Fault::kNotSetUp) {
    cuda::set_up_barrier(barrier, 2);
    if (fault != Fault::kNotPublished) cuda::publish_barriers();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::arrive_expecting(barrier, kBox * 128 + (fault == Fault::kTooManyBytes ? 16 : 0));
    cuda::copy_box(bytes + (fault == Fault::kNotAligned ? 128 : 0), map, 0, 0, 0, barrier);
    if (fault == Fault::kTooManyArrivals) {
      cuda::arrive(barrier);
      cuda::arrive(barrier);
    }
  }
  if (threadIdx.x == 32 && fault != Fault::kNoArrival && fault != Fault::kTooManyArrivals) cuda::arrive(barrier);
  if (fault == Fault::kCopyUnderWay) return;
  cuda::wait_for_phase(barrier, 0, 7);
  if (fault == Fault::kWrongParity) cuda::wait_for_phase(barrier, 1, 7);
}

enum class MatmulFault {
  kNone,
  kNoFence,
  kNoWait,
  kNoCommit,
  kOneWarpLess,
  kOtherDescriptor,
  kReadsTooEarly,
  kInsidePattern,
  kStrideInsidePattern,
  kByRowsInsidePattern,
};

// Copies B, all ones, to the beginning of shared memory.
__device__ void bring_ones(unsigned char* bytes, const TensorMap& map) {
  if (threadIdx.x == 0) {
    cuda::set_up_barrier(barrier_behind(bytes), 1);
    cuda::publish_barriers();
    bring_box(bytes, map, 0, 0, 0, kBox * 128);
  }
  __syncthreads();
}

using Sums = float[2][4];

// A matmul of 64 x 16 x 16 with all ones in A and B, so that every sum is 16. A is read until the matmul is
// waited for.
constexpr uint32_t kOnes[4] = {0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u};

__device__ void start_matmul_of_ones(Sums& sums, uint32_t b, uint32_t stride = 1024) {
  cuda::WarpGroupMatmul<__nv_bfloat16, 16>::by_columns(sums, kOnes, cuda::matrix_descriptor(b, 16, stride, Swizzle::k128), true);
}

__device__ void write_sums(const Sums& sums, float* out) {
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 4; ++i) out[threadIdx.x * 8 + n * 4 + i] = sums[n][i];
  }
}

__global__ void use_matmuls(const TensorMap map, MatmulFault fault, float* out) {
  MTL_DYNAMIC_SHARED(bytes);
  bring_ones(bytes, map);
  if (fault != MatmulFault::kReadsTooEarly) cuda::wait_for_phase(barrier_behind(bytes), 0, 0);
  Sums sums = {};
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const uint32_t tile = cuda::shared_address(bytes);
  const uint32_t b = tile + (fault == MatmulFault::kOtherDescriptor && warp == 2 ? 1024 : fault == MatmulFault::kInsidePattern ? 128 : 0);
  if (fault != MatmulFault::kNoFence) cuda::fence_wgmma();
  if (fault == MatmulFault::kByRowsInsidePattern) {
    // 32 columns further on is a later part of the same rows and allowed; 4 rows further on is not
    const uint64_t later = cuda::matrix_descriptor(tile + 64, 16, 1024, Swizzle::k128);
    cuda::WarpGroupMatmul<__nv_bfloat16, 16>::by_rows(sums, later, cuda::matrix_descriptor(tile + 512, 16, 1024, Swizzle::k128), true);
  } else if (fault != MatmulFault::kOneWarpLess || warp != 3) {
    start_matmul_of_ones(sums, b, fault == MatmulFault::kStrideInsidePattern ? 1040 : 1024);
  }
  if (fault != MatmulFault::kNoCommit) cuda::commit_wgmma();
  if (fault != MatmulFault::kNoWait) cuda::wait_for_wgmma<0>();
  if (fault == MatmulFault::kReadsTooEarly) cuda::wait_for_phase(barrier_behind(bytes), 0, 0);
  write_sums(sums, out);
}

enum class Stored { kFencedByAll, kFencedByOne, kNotFenced };

// A copy brings a tile of ones, and threads overwrite it with twos before a matmul reads it.
__global__ void multiply_what_threads_store(const TensorMap map, Stored how, float* out) {
  MTL_DYNAMIC_SHARED(bytes);
  bring_ones(bytes, map);
  cuda::wait_for_phase(barrier_behind(bytes), 0, 0);
  for (int i = static_cast<int>(threadIdx.x); i < kBox * 64; i += 128) reinterpret_cast<uint16_t*>(bytes)[i] = 0x4000;
  if (how == Stored::kFencedByAll || (how == Stored::kFencedByOne && threadIdx.x == 0)) cuda::fence_async_proxy();
  __syncthreads();
  Sums sums = {};
  cuda::fence_wgmma();
  start_matmul_of_ones(sums, cuda::shared_address(bytes));
  cuda::commit_wgmma();
  cuda::wait_for_wgmma<0>();
  write_sums(sums, out);
}

// A copy brings a tile of ones, threads overwrite it with twos, and the next copy overwrites the twos.
__global__ void refill_what_threads_store(const TensorMap map, Stored how) {
  MTL_DYNAMIC_SHARED(bytes);
  bring_ones(bytes, map);
  cuda::wait_for_phase(barrier_behind(bytes), 0, 0);
  for (int i = static_cast<int>(threadIdx.x); i < kBox * 64; i += 128) reinterpret_cast<uint16_t*>(bytes)[i] = 0x4000;
  if (how == Stored::kFencedByAll || (how == Stored::kFencedByOne && threadIdx.x == 0)) cuda::fence_async_proxy();
  __syncthreads();
  if (threadIdx.x == 0) bring_box(bytes, map, 0, 0, 0, kBox * 128);
  cuda::wait_for_phase(barrier_behind(bytes), 1, 0);
}

// A slot's tile is used and released, and the slot is filled again while the matmul may still read the first
// tile.
__global__ void refill_during_a_matmul(const TensorMap map, bool waits, float* out) {
  MTL_DYNAMIC_SHARED(bytes);
  bring_ones(bytes, map);
  cuda::wait_for_phase(barrier_behind(bytes), 0, 0);
  Sums sums = {};
  cuda::fence_wgmma();
  start_matmul_of_ones(sums, cuda::shared_address(bytes));
  cuda::commit_wgmma();
  if (waits) cuda::wait_for_wgmma<0>();
  __syncthreads();
  if (threadIdx.x == 0) bring_box(bytes, map, 0, 0, kPositions, kBox * 128);  // past the last row: zeros
  cuda::wait_for_phase(barrier_behind(bytes), 1, 0);
  if (!waits) cuda::wait_for_wgmma<0>();
  write_sums(sums, out);
}

// The first of three warp groups, launched with 168 registers per thread, releases registers; the others take
// them.
template <int kGiven, int kTaken>
__global__ void change_registers(bool in_every_warp) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < 4) return cuda::give_registers_back<kGiven>();
  if (in_every_warp || warp != 11) cuda::take_registers<kTaken>();
}

bool all_sixteen(const std::vector<float>& values) {
  for (const float value : values) {
    if (value != 16.0f) return false;
  }
  return true;
}

}  // namespace

MTL_TEST(cuda_hopper_boxes_are_swizzled_and_zero_outside) {
  const std::vector<uint16_t> tensor = numbered_tensor();
  in_every_order([&] {
    for (const BoxCase where : {BoxCase{Swizzle::k128, 0, 1, 0}, {Swizzle::k128, 64, 2, 30}, {Swizzle::k64, 32, 0, 18},
                                {Swizzle::k64, 64, 2, 40}, {Swizzle::k32, 64, 1, 49}, {Swizzle::k32, 16, 0, -3}}) {
      const int width = bytes_of(where.swizzle) / 2, elements = kBox * width;
      std::vector<uint16_t> out(elements, 7);
      EXPECT(ran(MTL_LAUNCH(copy_one_box, (Launch{1, 64, kSharedBytes}), map_of(tensor, where.swizzle), where, out.data(),
                            elements, 2 * elements)));
      for (int row = 0; row < kBox; ++row) {
        for (int column = 0; column < width; ++column) {
          const int position = where.row + row, c = where.column + column;
          const bool inside = position >= 0 && position < kPositions && c < kColumns;
          const int expected = inside ? (position * kVectors + where.vector) * kColumns + c + 1 : 0;
          EXPECT(out[place_in_panel(where.swizzle, row, column)] == expected);
        }
      }
    }
  });
}

MTL_TEST(cuda_hopper_matmuls_read_the_canonical_layouts) {
  using BFloat = __nv_bfloat16;
  for (const Swizzle swizzle : {Swizzle::k128, Swizzle::k64, Swizzle::k32}) {
    for (const int start : {0, 16}) {
      check_matmul<BFloat, 64>(DType::kBFloat16, {swizzle, false, start}, true);
      check_matmul<__half, 128>(DType::kFloat16, {swizzle, false, start}, false);
      check_matmul<BFloat, 128>(DType::kBFloat16, {swizzle, true, start}, false);
      check_matmul<__half, 64>(DType::kFloat16, {swizzle, true, start}, true);
    }
  }
  check_matmul<BFloat, 16>(DType::kBFloat16, {Swizzle::k32, true, 16}, true);
  check_matmul<__half, 32>(DType::kFloat16, {Swizzle::k64, true, 16}, true);
  check_matmul<__half, 192>(DType::kFloat16, {Swizzle::k128, true, 0}, true);
  check_matmul<BFloat, 256>(DType::kBFloat16, {Swizzle::k128, true, 16}, false);
}

MTL_TEST(cuda_hopper_emulation_notices_wrong_barriers) {
  const std::vector<uint16_t> tensor = numbered_tensor();
  const TensorMap map = map_of(tensor, Swizzle::k128);
  const Launch how = {1, 64, kSharedBytes};
  in_every_order([&] {
    const auto use = [&](Fault fault) { return MTL_LAUNCH(use_barrier, how, map, fault); };
    EXPECT(ran(use(Fault::kNone)));
    EXPECT(rejected(use(Fault::kNoArrival), "64 at mbarrier.try_wait"));
    EXPECT(rejected(use(Fault::kNoArrival), "slot 7, parity 0, byte 16384 of shared memory"));
    EXPECT(rejected(use(Fault::kWrongParity), "slot 7, parity 1, byte 16384 of shared memory"));
    EXPECT(rejected(use(Fault::kNotSetUp), "no mbarrier"));
    EXPECT(rejected(use(Fault::kNotPublished), "made visible"));
    EXPECT(rejected(use(Fault::kTooManyBytes), "never come"));
    EXPECT(rejected(use(Fault::kNotAligned), "not aligned to 1024"));
  });
  // in this order the bytes are still in flight at the third arrival; if they had arrived, it would belong to
  // the next phase
  emulation::set_order(Order::kDescending);
  EXPECT(rejected(MTL_LAUNCH(use_barrier, how, map, Fault::kTooManyArrivals), "more arrivals"));
  EXPECT(rejected(MTL_LAUNCH(use_barrier, how, map, Fault::kCopyUnderWay), "still under way"));
  emulation::set_order(Order::kAscending);
}

MTL_TEST(cuda_hopper_emulation_detects_wrong_matmuls) {
  const std::vector<uint16_t> ones(kPositions * kVectors * kColumns, 0x3f80);
  const TensorMap map = map_of(ones, Swizzle::k128);
  const Launch how = {1, 128, kSharedBytes};
  std::vector<float> out(128 * 8);
  const auto use = [&](MatmulFault fault) { return MTL_LAUNCH(use_matmuls, how, map, fault, out.data()); };
  in_every_order([&] {
    EXPECT(ran(use(MatmulFault::kNone)) && all_sixteen(out));
    EXPECT(rejected(use(MatmulFault::kNoFence), "no wgmma.fence"));
    EXPECT(rejected(use(MatmulFault::kNoWait), "was not waited for"));
    EXPECT(rejected(use(MatmulFault::kNoCommit), "was not waited for"));
    EXPECT(rejected(use(MatmulFault::kOneWarpLess), "not all warps"));
    EXPECT(rejected(use(MatmulFault::kOtherDescriptor), "not start the same matmul"));
    EXPECT(rejected(use(MatmulFault::kInsidePattern), "starts at byte 128 of the swizzle pattern of 1024 bytes"));
    EXPECT(rejected(use(MatmulFault::kByRowsInsidePattern), "starts at byte 512 of the swizzle pattern"));
    EXPECT(rejected(use(MatmulFault::kStrideInsidePattern), "are 1040 bytes apart"));
  });
  // on a GPU a read that is too early may succeed by chance: in the emulation each fault shows in one of the
  // two extreme orders
  emulation::set_order(Order::kDescending);
  EXPECT(ran(MTL_LAUNCH(refill_during_a_matmul, how, map, true, out.data())) && all_sixteen(out));
  EXPECT(ran(MTL_LAUNCH(refill_during_a_matmul, how, map, false, out.data())) && !all_sixteen(out));
  emulation::set_order(Order::kAscending);
}

MTL_TEST(cuda_hopper_emulation_detects_stores_that_matmuls_do_not_see) {
  const std::vector<uint16_t> ones(kPositions * kVectors * kColumns, 0x3f80);
  const TensorMap map = map_of(ones, Swizzle::k128);
  std::vector<float> out(128 * 8);
  const auto use = [&](Stored how) {
    return MTL_LAUNCH(multiply_what_threads_store, (Launch{1, 128, kSharedBytes}), map, how, out.data());
  };
  in_every_order([&] {
    EXPECT(ran(use(Stored::kFencedByAll)));
    for (const float value : out) EXPECT(value == 32.0f);
    EXPECT(rejected(use(Stored::kNotFenced), "stored without fence.proxy.async"));
  });
  // in this order the other threads store after the only thread that fences
  EXPECT(rejected(use(Stored::kFencedByOne), "stored without fence.proxy.async"));
}

MTL_TEST(cuda_hopper_emulation_detects_stores_that_may_come_after_a_copy) {
  const std::vector<uint16_t> ones(kPositions * kVectors * kColumns, 0x3f80);
  const TensorMap map = map_of(ones, Swizzle::k128);
  const auto use = [&](Stored how) { return MTL_LAUNCH(refill_what_threads_store, (Launch{1, 128, kSharedBytes}), map, how); };
  in_every_order([&] {
    EXPECT(ran(use(Stored::kFencedByAll)));
    EXPECT(rejected(use(Stored::kNotFenced), "stored without fence.proxy.async before the copy overwrites it"));
  });
  // in this order the other threads store after the only thread that fences
  EXPECT(rejected(use(Stored::kFencedByOne), "stored without fence.proxy.async before the copy overwrites it"));
}

MTL_TEST(cuda_hopper_emulation_detects_registers_that_are_not_released) {
  const Launch how = {1, 3 * 128, 0};
  in_every_order([&] {
    EXPECT(ran(MTL_LAUNCH((change_registers<24, 240>), how, true)));  // 504, as launched
    EXPECT(rejected(MTL_LAUNCH((change_registers<32, 240>), how, true), "more registers than others give back"));
    EXPECT(rejected(MTL_LAUNCH((change_registers<176, 176>), how, true), "to 176 registers, from 168"));
    EXPECT(rejected(MTL_LAUNCH((change_registers<24, 160>), how, true), "to 160 registers, from 168"));
    EXPECT(rejected(MTL_LAUNCH((change_registers<24, 240>), how, false), "the warps of a group"));
  });
}

// A matmul is started before its tile has arrived. The fault shows only if the copy is later than the read of
// the matmul, which happens for some seeds of the shuffled order.
MTL_TEST(cuda_hopper_emulation_shows_a_tile_that_is_not_there_yet) {
  const std::vector<uint16_t> ones(kPositions * kVectors * kColumns, 0x3f80);
  const TensorMap map = map_of(ones, Swizzle::k128);
  std::vector<float> out(128 * 8);
  int num_wrong = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    emulation::set_order(Order::kShuffled, seed);
    EXPECT(ran(MTL_LAUNCH(use_matmuls, (Launch{1, 128, kSharedBytes}), map, MatmulFault::kReadsTooEarly, out.data())));
    num_wrong += !all_sixteen(out);
  }
  emulation::set_order(Order::kAscending);
  EXPECT(num_wrong > 0);
}

MTL_TEST(cuda_hopper_tensor_maps_are_refused_as_by_the_driver) {
  const std::vector<uint16_t> tensor = numbered_tensor();
  const cuda::TensorMapShape right = {tensor.data(), false, kPositions, kVectors, kColumns, kVectors * kColumns, kColumns,
                                      kBox,          64,    Swizzle::k128};
  TensorMap map;
  const auto refused = [&](auto change) {
    cuda::TensorMapShape shape = right;
    change(shape);
    return cuda::make_tensor_map(&map, shape) == cudaErrorInvalidValue;
  };
  EXPECT(!refused([](auto&) {}));
  EXPECT(refused([](auto& shape) { shape.vector_distance = 70; }));  // 140 bytes
  EXPECT(refused([](auto& shape) { shape.data = static_cast<const char*>(shape.data) + 2; }));
  EXPECT(refused([](auto& shape) { shape.box_rows = 257; }));
  EXPECT(refused([](auto& shape) { shape.positions = 0; }));
  EXPECT(refused([](auto& shape) { shape.swizzle = Swizzle::k64; }));  // the box has longer rows
}

// CUDA_ERROR_INVALID_VALUE, NOT_INITIALIZED, INVALID_CONTEXT and OUT_OF_MEMORY: only INVALID_VALUE is caused
// by a shape.
MTL_TEST(cuda_hopper_tensor_maps_tell_what_the_driver_said) {
  EXPECT(cuda::status_of_driver(0) == cudaSuccess);
  EXPECT(cuda::status_of_driver(1) == cudaErrorInvalidValue);
  EXPECT(cuda::status_of_driver(3) == cudaErrorInitializationError);
  EXPECT(cuda::status_of_driver(201) == cudaErrorDeviceUninitialized);
  EXPECT(cuda::status_of_driver(2) == cudaErrorUnknown);
}

}  // namespace mtl::tests

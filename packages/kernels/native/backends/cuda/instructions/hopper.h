// The instructions that only Hopper has (sm_90a). Each has one function, which is inline PTX with nvcc, and
// ordinary code with the same effect under emulation (async_work.h). Layouts follow the PTX ISA, section
// "Asynchronous Warpgroup Level Matrix Multiply-Accumulate":
//   D (64 x N)   warp w of the group has rows 16 w to 16 w + 15; d[n] has the layout of ptx.h's d for columns 8 n to 8 n + 7
//   A (64 x 16)  in registers: warp w has rows 16 w to 16 w + 15, in the layout of ptx.h's a
//
// Code that uses these functions is between `#if MTL_HOPPER_CODE` and `#else`, because the same sources are
// also compiled for GPUs other than Hopper, where the kernels trap. A Hopper GPU may also run that code, from
// a library built without sm_90a or compiled by the driver from PTX. It then reports an error instead of
// leaving the outputs unchanged.
#pragma once

#if defined(MTL_CUDA_DEBUG)
#include <cstdio>
#endif
#include <type_traits>

#include "backends/cuda/instructions/ptx.h"

#if defined(__CUDA_ARCH__) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define MTL_HOPPER_CODE 0
#else
#define MTL_HOPPER_CODE 1
#endif

namespace mtl::cuda {

// The driver's description of a tensor in global memory, which runtime/tensor_map.h creates. Kernels take it
// as `const __grid_constant__ TensorMap`.
struct alignas(128) TensorMap {
  uint64_t opaque[16];
};

// How the 16-byte units within rows of 128, 64 or 32 bytes are permuted. The values are the encoding in
// matrix descriptors.
enum class Swizzle : uint32_t { k128 = 1, k64 = 2, k32 = 3 };

// Describes a tile in shared memory for matmuls. `leading` and `stride` are in bytes (see `address_in` in
// async_work.cc).
MTL_PTX uint64_t matrix_descriptor(uint32_t address, uint32_t leading, uint32_t stride, Swizzle swizzle) {
  const auto field = [](uint32_t bytes) { return static_cast<uint64_t>((bytes & 0x3ffff) >> 4); };
  return field(address) | field(leading) << 16 | field(stride) << 32 | static_cast<uint64_t>(swizzle) << 62;
}

#if defined(__CUDACC__)
#if MTL_HOPPER_CODE

// Initializes a barrier in shared memory. A phase of the barrier ends after `arrivals` arrivals, and after
// all bytes that the arrivals announced have been copied.
MTL_PTX void set_up_barrier(uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}
// Makes this thread's stores to shared memory visible to copies and matmuls that start after the next
// barrier. This is necessary because copies and matmuls read shared memory through a different path than
// threads, the "async proxy" of the PTX ISA.
MTL_PTX void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Makes barriers that this thread has initialized visible to the copy engine. __syncthreads makes them
// visible to threads.
MTL_PTX void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  fence_async_proxy();
}
MTL_PTX void arrive(uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
// Arrives at the barrier, and makes its current phase also wait for `bytes` bytes of bulk copies.
MTL_PTX void arrive_expecting(uint64_t* barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes) : "memory");
}
// Waits for the end of the phase with the given parity: 0 for the first phase, then 1, then 0 again. `slot`
// is the index of the barrier's ring slot, or -1 for tiles outside of the ring. In builds with
// MTL_CUDA_DEBUG, a phase that does not end is printed and ends the kernel. Without MTL_CUDA_DEBUG, the
// kernel would wait forever.
#if defined(MTL_CUDA_DEBUG)
MTL_PTX void wait_for_phase(uint64_t* barrier, int parity, int slot) {
  constexpr long long kLatestCycles = 1LL << 34;  // nine seconds
  const long long started = clock64();
  for (int is_over = 0; is_over == 0;) {
    asm volatile(
        "{\n"
        ".reg .pred over;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 over, [%1], %2;\n"
        "selp.b32 %0, 1, 0, over;\n"
        "}"
        : "=r"(is_over)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
    if (is_over == 0 && clock64() - started > kLatestCycles) {
      printf("a phase does not end: slot %d, parity %d, byte %u of shared memory, block (%u, %u), thread %u\n", slot, parity,
             shared_address(barrier), blockIdx.x, blockIdx.y, threadIdx.x);
      __trap();
    }
  }
}
#else
MTL_PTX void wait_for_phase(uint64_t* barrier, int parity, int) {
  asm volatile(
      "{\n"
      ".reg .pred over;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n"
      "@!over bra again;\n"
      "}" ::"r"(shared_address(barrier)),
      "r"(parity)
      : "memory");
}
#endif

// Starts to copy a box of three dimensions, innermost first, to shared memory. The barrier counts the copied
// bytes. Elements outside of the tensor become zeros. Must be called by one thread.
MTL_PTX void copy_box(void* shared, const TensorMap& map, int x, int y, int z, uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
          shared_address(shared)),
      "l"(&map), "r"(shared_address(barrier)), "r"(x), "r"(y), "r"(z)
      : "memory");
}
MTL_PTX void prefetch(const TensorMap& map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// Sets how many registers the threads of a warp group have from now on. All threads of the group must call
// it.
template <int count>
MTL_PTX void give_registers_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count));
}
template <int count>
MTL_PTX void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count));
}

// Completes earlier writes to the registers of a warp group's matmul. Needed before the group's first matmul.
MTL_PTX void fence_wgmma() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
MTL_PTX void commit_wgmma() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most the newest `groups_left` groups of this warp group are incomplete.
template <int groups_left>
MTL_PTX void wait_for_wgmma() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups_left) : "memory");
}
// Keeps the compiler from moving reads and writes of registers across this point. This is necessary because
// the compiler does not know that a matmul in progress still writes its sums and reads its left operand. Must
// be called before the fence and after the wait of every matmul.
template <typename Register, int kRows>
MTL_PTX void hold(Register (&registers)[kRows][4]) {
#pragma unroll
  for (int row = 0; row < kRows; ++row) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if constexpr (std::is_same_v<Register, float>) {
        asm volatile("" : "+f"(registers[row][i])::"memory");
      } else {
        asm volatile("" : "+r"(registers[row][i])::"memory");
      }
    }
  }
}

// Starts a matmul: d = a * b or, with `accumulate`, d += a * b. d is 64 x kColumns, and the inner dimension
// is 16. Must be called by a whole warp group. b is in shared memory, as kColumns rows of 16 (`by_rows`) or
// 16 rows of kColumns (`by_columns`); a is in shared memory or in registers.
template <typename T, int kColumns>
struct WarpGroupMatmul;

#define MTL_FOUR(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define MTL_D_16 MTL_FOUR(0), MTL_FOUR(1)
#define MTL_D_32 MTL_D_16, MTL_FOUR(2), MTL_FOUR(3)
#define MTL_D_64 MTL_D_32, MTL_FOUR(4), MTL_FOUR(5), MTL_FOUR(6), MTL_FOUR(7)
#define MTL_D_128                                                                                             \
  MTL_D_64, MTL_FOUR(8), MTL_FOUR(9), MTL_FOUR(10), MTL_FOUR(11), MTL_FOUR(12), MTL_FOUR(13), MTL_FOUR(14), \
      MTL_FOUR(15)
#define MTL_D_192                                                                                            \
  MTL_D_128, MTL_FOUR(16), MTL_FOUR(17), MTL_FOUR(18), MTL_FOUR(19), MTL_FOUR(20), MTL_FOUR(21), MTL_FOUR(22), \
      MTL_FOUR(23)
#define MTL_D_256                                                                                            \
  MTL_D_192, MTL_FOUR(24), MTL_FOUR(25), MTL_FOUR(26), MTL_FOUR(27), MTL_FOUR(28), MTL_FOUR(29), MTL_FOUR(30), \
      MTL_FOUR(31)
#define MTL_NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7"
#define MTL_NAMES_32 MTL_NAMES_16 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define MTL_NAMES_64 MTL_NAMES_32 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define MTL_NAMES_128 \
  MTL_NAMES_64 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
               ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define MTL_NAMES_192 \
  MTL_NAMES_128 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
                ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define MTL_NAMES_256 \
  MTL_NAMES_192 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
                ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// The assembly of a matmul. It refers to operands by number, because nvcc does not support named operands.
// After the operands of d follow A, B and a flag that requests an addition; or four registers of A, B and the
// flag.
#define MTL_WGMMA(N, TYPE, A, B, ADD, TRANSPOSED, ...)                                                                \
  asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, " ADD ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE \
               "." TYPE " {" MTL_NAMES_##N "}, " A ", " B ", add, 1, 1, " TRANSPOSED ";\n}"                              \
               : MTL_D_##N                                                                                             \
               : __VA_ARGS__)
#define MTL_WGMMA_OF_TYPE(N, TYPE, NAME, A0, A1, A2, A3, A4, A5)                                                        \
  template <>                                                                                                         \
  struct WarpGroupMatmul<TYPE, N> {                                                                                  \
    MTL_PTX static void by_rows(float (&d)[N / 8][4], uint64_t a, uint64_t b, bool accumulate) {                      \
      MTL_WGMMA(N, NAME, A0, A1, A2, "0, 0", "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                      \
    }                                                                                                                 \
    MTL_PTX static void by_columns(float (&d)[N / 8][4], const uint32_t (&a)[4], uint64_t b, bool accumulate) {       \
      MTL_WGMMA(N, NAME, "{" A0 "," A1 "," A2 "," A3 "}", A4, A5, "1", "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]),    \
                "l"(b), "r"(static_cast<int>(accumulate)));                                                         \
    }                                                                                                                 \
  }
#define MTL_WGMMAS(N, ...)                                    \
  MTL_WGMMA_OF_TYPE(N, __nv_bfloat16, "bf16", __VA_ARGS__);    \
  MTL_WGMMA_OF_TYPE(N, __half, "f16", __VA_ARGS__)
MTL_WGMMAS(16, "%8", "%9", "%10", "%11", "%12", "%13");
MTL_WGMMAS(32, "%16", "%17", "%18", "%19", "%20", "%21");
MTL_WGMMAS(64, "%32", "%33", "%34", "%35", "%36", "%37");
MTL_WGMMAS(128, "%64", "%65", "%66", "%67", "%68", "%69");
MTL_WGMMAS(192, "%96", "%97", "%98", "%99", "%100", "%101");
MTL_WGMMAS(256, "%128", "%129", "%130", "%131", "%132", "%133");

#undef MTL_WGMMAS
#undef MTL_WGMMA_OF_TYPE
#undef MTL_WGMMA

#endif
#endif

}  // namespace mtl::cuda

#if !defined(__CUDACC__)
#include "emulation/hopper.h"
#endif

// Kernel launches, with and without a GPU. A launcher fills a Launch and names the kernel. With nvcc, the
// launch becomes <<<>>>; with a host compiler, the threads run one after another (see the emulation's
// block.h).
//
//   MTL_LAUNCH(kernel, launch, arguments...)   a cudaError_t; a kernel's name that contains commas needs
//                                              parentheses
//   MTL_SHARED(float, tile, [32][33]);      a shared array, all NaN at the start of a block under emulation
//   MTL_DYNAMIC_SHARED(bytes);              unsigned char* bytes: Launch::shared_bytes bytes, aligned to 1024
//   in_one_access<uint4>(address)           the value at the address as one vector; must be aligned to its
//   size
#pragma once

#include <cstddef>
#include <type_traits>

#include "backends/cuda/listed_kernels.h"
#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#else
#include "emulation/intrinsics.h"
#include "emulation/runtime.h"
#endif

namespace mtl::cuda {

struct Launch {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

template <typename Vector, typename T>
using VectorAt = std::conditional_t<std::is_const_v<T>, const Vector, Vector>;

#if defined(__CUDACC__)

template <typename Vector, typename T>
__device__ __forceinline__ VectorAt<Vector, T>& in_one_access(T* address) {
  return *reinterpret_cast<VectorAt<Vector, T>*>(address);
}

#define MTL_SHARED(type, name, dimensions) __shared__ type name dimensions
#define MTL_DYNAMIC_SHARED(name)                                             \
  extern __shared__ __align__(1024) unsigned char mtl_dynamic_shared[];      \
  unsigned char* const name = mtl_dynamic_shared

constexpr size_t kSharedWithoutAsking = 48 << 10;

template <typename... Parameters, typename... Arguments>
cudaError_t launch(const ListedKernel&, void (*kernel)(Parameters...), const Launch& how, Arguments&&... arguments) {
  if (how.shared_bytes > kSharedWithoutAsking) {
    const cudaError_t status = cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                    static_cast<int>(how.shared_bytes));
    if (status != cudaSuccess) return status;
  }
  kernel<<<how.grid, how.block, how.shared_bytes, how.stream>>>(static_cast<Parameters>(arguments)...);
  return cudaGetLastError();
}

#define MTL_LAUNCH(kernel, ...) ::mtl::cuda::launch(::mtl::cuda::KernelListing<kernel>::listing, kernel, __VA_ARGS__)

#endif

}  // namespace mtl::cuda

#if !defined(__CUDACC__)
#include "emulation/kernel_launch.h"
#endif

// Emulates backends/cuda/launch.h in @mtl/kernels without a GPU. A launch runs the kernel's threads one after
// the other (see block.h). Only that header includes this file.
#pragma once

#include <cstdlib>
#include <tuple>

#include "backends/cuda/launch.h"
#include "emulation/counts.h"
#include "emulation/intrinsics.h"
#include "emulation/loaded_kernels.h"
#include "emulation/stream.h"

namespace mtl::cuda {

template <typename Vector, typename T>
VectorAt<Vector, T>& in_one_access(T* address, MTL_SITE_PARAMETERS) {
  if (reinterpret_cast<uintptr_t>(address) % sizeof(Vector) != 0) {
    emulation::fail({"an access", file, line}, "%zu bytes at an address that is not aligned to them", sizeof(Vector));
  }
  return *reinterpret_cast<VectorAt<Vector, T>*>(address);
}

#define MTL_SHARED(type, name, dimensions)                                              \
  using name##_array = type dimensions;                                                 \
  static char name##_key;                                                               \
  name##_array& name = *static_cast<name##_array*>(                                     \
      ::mtl::emulation::static_shared(&name##_key, sizeof(name##_array), alignof(name##_array)))
#define MTL_DYNAMIC_SHARED(name) \
  unsigned char* const name = static_cast<unsigned char*>(::mtl::emulation::dynamic_shared())

template <typename Body>
cudaError_t emulate(const char* kernel, const Launch& how, Body body) {
  const auto run = [](void* argument) { (*static_cast<Body*>(argument))(); };
  return emulation::run_grid(kernel, how.grid, how.block, how.shared_bytes, run, &body) ? cudaSuccess
                                                                                        : cudaErrorLaunchFailure;
}

template <typename... Parameters, typename... Arguments>
cudaError_t launch(const char* name, const ListedKernel&, void (*kernel)(Parameters...), const Launch& how, Arguments&&... arguments) {
  static const bool is_idle = std::getenv("MTL_EMULATION_IDLE") != nullptr;
  if (emulation::is_left_out(reinterpret_cast<const void*>(kernel))) return cudaErrorInvalidDeviceFunction;
  emulation::count(emulation::kKernels);
  // arguments are copied, because a captured kernel runs later, and possibly several times; each thread gets
  // its own copy, as on a GPU
  const std::tuple<Parameters...> values(static_cast<Parameters>(arguments)...);
  const cudaError_t error = emulation::enqueue(how.stream, [=] {
    return is_idle ? cudaSuccess : emulate(name, how, [&] { std::apply(kernel, values); });
  });
  // as on a GPU, a launch also returns the error of an earlier call, if any
  const cudaError_t left = cudaGetLastError();
  return error == cudaSuccess ? left : error;
}

#define MTL_LAUNCH(kernel, ...) \
  ::mtl::cuda::launch(#kernel, ::mtl::cuda::KernelListing<kernel>::listing, kernel, __VA_ARGS__)

}  // namespace mtl::cuda

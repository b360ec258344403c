// This library's kernels, by op. Each kernel registers itself in the file that defines it: there is no
// central list or switch.
#pragma once

#include "core/op_call.h"

namespace mtl::cuda {

KernelFunction find_kernel(const char* op);

struct KernelRegistration {
  KernelRegistration(const char* op, KernelFunction kernel);
};

}  // namespace mtl::cuda

#define MTL_CUDA_CONCATENATE_(a, b) a##b
#define MTL_CUDA_CONCATENATE(a, b) MTL_CUDA_CONCATENATE_(a, b)
#define MTL_REGISTER_CUDA(op, kernel) \
  static const ::mtl::cuda::KernelRegistration MTL_CUDA_CONCATENATE(cuda_registration_, __LINE__)(op, kernel)

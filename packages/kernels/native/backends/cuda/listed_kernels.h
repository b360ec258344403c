// The list of the library's kernels. When the library is initialised, each kernel that MTL_LAUNCH names is
// added. Opening a device loads all listed kernels (see runtime/load_kernels.h).
#pragma once

namespace mtl::cuda {

struct ListedKernel {
  const void* kernel;
  const ListedKernel* next;
};
inline const ListedKernel* first_listed_kernel = nullptr;

template <auto kKernel>
struct KernelListing : ListedKernel {
  KernelListing() : ListedKernel{reinterpret_cast<const void*>(kKernel), first_listed_kernel} { first_listed_kernel = this; }
  static inline KernelListing listing{};
};

}  // namespace mtl::cuda

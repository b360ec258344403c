// The list of the library's kernels. All of the list is loaded when a device is opened
// (runtime/load_kernels.h). The initialisation of the library adds each kernel that MTL_LAUNCH names.
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

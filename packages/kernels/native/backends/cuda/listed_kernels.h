// The kernels of the library, all of which are loaded when a device is opened (runtime/load_kernels.h). Each
// kernel that MTL_LAUNCH names is in the list: the initialisation of the library puts it there.
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

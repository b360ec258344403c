#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

#include "platforms/platform.h"

namespace mtl {

void* reserve_memory(size_t bytes) {
  constexpr size_t kAlignment = 64, kHugePage = size_t{2} << 20;
  void* data = nullptr;
  if (posix_memalign(&data, bytes >= kHugePage ? kHugePage : kAlignment, bytes) != 0) return nullptr;
  // Huge pages avoid a third of the TLB misses of matmuls; the call has no effect where huge pages are
  // disabled.
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

bool may_use_tiles() {
#if defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILE_DATA
  static const bool usable = syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
  return usable;
#else
  return false;
#endif
}

Status find_in_library(const char* path, const char* symbol, void** address) {
  // never unloaded, because tensors, threads and other addons hold pointers into the library until the
  // process ends
  void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* reason = dlerror();
    return error_status("MTL_CUDA_LIBRARY", "%s", reason == nullptr ? path : reason);
  }
  *address = dlsym(handle, symbol);
  if (*address != nullptr) return ok_status();
  return error_status("MTL_CUDA_LIBRARY", "%s has no %s: another library", path, symbol);
}

}  // namespace mtl

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>

#include "platforms/platform.h"

namespace mtl {
namespace {

constexpr size_t kAlignment = 64, kHugePage = size_t{2} << 20;
// Blocks of at least this size are mapped with mmap instead of allocated by the C library.
constexpr size_t kLargeBlock = size_t{8} << 20;

// Maps memory that begins at a huge page boundary. Returns null if there is not enough memory.
void* map_memory(size_t bytes) {
  const size_t whole = bytes + kHugePage;
  void* const mapped = mmap(nullptr, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const start = static_cast<char*>(mapped);
  char* const data = start + (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
  if (data != start) munmap(start, static_cast<size_t>(data - start));
  char* const end = data + bytes;
  if (end != start + whole) munmap(end, static_cast<size_t>(start + whole - end));
  return data;
}

}  // namespace

// Large blocks are mapped directly. Once some large blocks have been freed, the C library would allocate
// large blocks from its heap, which cannot return memory that is below a block in use.
void* reserve_memory(size_t bytes) {
  void* data = nullptr;
  if (bytes >= kLargeBlock) {
    data = map_memory(bytes);
  } else if (posix_memalign(&data, bytes >= kHugePage ? kHugePage : kAlignment, bytes) != 0) {
    return nullptr;
  }
  // Huge pages avoid a third of the TLB misses in matmuls. If huge pages are disabled, the call has no
  // effect.
  if (data != nullptr && bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void give_memory_back(void* data, size_t bytes) {
  if (bytes >= kLargeBlock) {
    munmap(data, bytes);
  } else {
    std::free(data);
  }
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

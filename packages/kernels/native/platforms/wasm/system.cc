#include <cstdlib>

#include "platforms/platform.h"

namespace mtl {

void* reserve_memory(size_t bytes) {
  void* data = nullptr;
  return posix_memalign(&data, 64, bytes) == 0 ? data : nullptr;
}

void give_memory_back(void* data, size_t) { std::free(data); }

bool may_use_tiles() { return false; }

Status find_in_library(const char* path, const char*, void**) {
  return error_status("MTL_CUDA_LIBRARY", "WebAssembly cannot open the shared library %s", path);
}

}  // namespace mtl

// Does not register destructors of thread_local variables, because these variables live as long as the
// module.
extern "C" int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

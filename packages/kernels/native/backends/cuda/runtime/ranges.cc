#include "backends/cuda/runtime/ranges.h"

#include <cstdlib>

// Only NVTX's headers are needed: if a profiler is attached, it provides the library.
#if __has_include(<nvtx.h>)  // header of the emulation
#include <nvtx.h>
#define MTL_HAS_NVTX
#elif __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define MTL_HAS_NVTX
#endif

namespace mtl::cuda {
namespace {

[[maybe_unused]] bool is_on() {
  static const bool on = std::getenv("MTL_NVTX") != nullptr;
  return on;
}

}  // namespace

#ifdef MTL_HAS_NVTX
void push_range(const char* name) {
  if (is_on()) nvtxRangePushA(name);
}
void pop_range() {
  if (is_on()) nvtxRangePop();
}
#else
void push_range(const char*) {}
void pop_range() {}
#endif

}  // namespace mtl::cuda

#include "backends/cuda/runtime/ranges.h"

#include <cstdlib>

// Headers only: an attached profiler provides the library.
#if __has_include(<nvtx.h>)  // the emulation's
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

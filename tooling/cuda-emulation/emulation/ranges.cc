#include <cstdio>
#include <cstdlib>

#include <nvtx.h>

static thread_local int depth = 0;

extern "C" int nvtxRangePushA(const char* name) {
  static std::FILE* const file = [] {
    const char* const path = std::getenv("MTL_EMULATION_RANGES");
    return path == nullptr ? nullptr : std::fopen(path, "w");
  }();
  if (file != nullptr) {
    std::fprintf(file, "%*s%s\n", 2 * depth, "", name);
    std::fflush(file);
  }
  return depth++;
}

extern "C" int nvtxRangePop() { return --depth; }

// Marks bytes that belong to no allocation (the rest of a block, and cached blocks) for AddressSanitizer.
// Without marks, reuse would hide every overrun and every use after release. No-ops in other builds.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace mtl {

inline void forbid([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_POISON_MEMORY_REGION(data, bytes);
#endif
}

inline void permit([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
#endif
}

}  // namespace mtl

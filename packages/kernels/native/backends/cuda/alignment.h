#pragma once

#include <cstdint>

namespace mtl::cuda {

// Returns true if the address is aligned for 16-byte accesses. Null counts as aligned.
inline bool is_aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

}  // namespace mtl::cuda

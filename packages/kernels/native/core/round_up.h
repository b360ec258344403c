// Sizes of memory in bytes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mtl {

// Returns the smallest multiple of `multiple` that is not below `value`.
constexpr size_t round_up(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }

// Returns a number of bytes as a size_t. If it exceeds what 32-bit pointers can address, returns a size that
// every allocator refuses.
constexpr size_t to_size(int64_t bytes) {
  return static_cast<int64_t>(static_cast<size_t>(bytes)) == bytes ? static_cast<size_t>(bytes) : SIZE_MAX;
}

}  // namespace mtl

// Addresses without memory, for devices that compute nothing.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <atomic>

namespace mtl {

// Addresses that are never read or written. They are distinct, so that views and overlaps of tensors can be
// distinguished. With 32-bit pointers, there are 4 GiB of addresses.
class Addresses {
 public:
  // `first_bit`: the addresses begin at 2^first_bit if pointers have so many bits, otherwise at 4096.
  explicit Addresses(int first_bit) : next_(first_bit < 8 * static_cast<int>(sizeof(void*)) ? uintptr_t{1} << first_bit : 4096) {}

  // Returns null if none are left.
  void* take(size_t bytes) {
    uintptr_t first = next_.load();
    do {
      if (bytes > UINTPTR_MAX - first) return nullptr;
    } while (!next_.compare_exchange_weak(first, first + bytes));
    return reinterpret_cast<void*>(first);
  }

 private:
  std::atomic<uintptr_t> next_;
};

}  // namespace mtl

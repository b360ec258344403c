#include "core/caching_allocator.h"

#include <cstdlib>

#include "core/memory_marks.h"
#include "core/round_up.h"
#include "platforms/platform.h"

namespace mtl {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

// Small sizes are rounded up to a multiple of 64 bytes. Larger sizes are rounded up to a multiple of an
// eighth of their power of two, so that nearly equal sizes share blocks and at most an eighth is wasted.
size_t CachingAllocator::block_size(size_t bytes) {
  if (bytes <= 4096) return round_up(bytes == 0 ? 1 : bytes, kAlignment);
  if (bytes >= kHugePage * 8) return round_up(bytes, kHugePage);
  const int log2 = 63 - __builtin_clzll(bytes);
  return round_up(bytes, (size_t{1} << log2) / 8);
}

Status CachingAllocator::allocate(uint64_t bytes, void** data) {
  // 32-bit pointers address fewer bytes than shapes can describe, and sizes are rounded up below
  if (bytes > PTRDIFF_MAX) {
    return error_status("MTL_OUT_OF_MEMORY", "no block of memory has %llu bytes", static_cast<unsigned long long>(bytes));
  }
  const size_t size = block_size(bytes);
  const MutexLock lock(mutex_);
  if (limit_ != 0 && statistics_.bytes_in_use + size > limit_) {
    return error_status("MTL_OUT_OF_MEMORY", "allocation of %llu bytes exceeds the limit of %llu bytes (%llu in use)",
                        static_cast<unsigned long long>(bytes), static_cast<unsigned long long>(limit_),
                        static_cast<unsigned long long>(statistics_.bytes_in_use));
  }
  // A cached block may be up to an eighth larger than requested. It is counted with the requested size, so
  // that the bytes in use do not depend on earlier allocations.
  const auto found = cached_.lower_bound(size);
  size_t granted = size;
  if (found != cached_.end() && found->first <= size + size / 8) {
    granted = found->first;
    *data = found->second;
    cached_.erase(found);
  } else {
    *data = source_.reserve(size);
    if (*data == nullptr) {
      free_cached();  // the allocation may succeed once cached blocks are released
      *data = source_.reserve(size);
    }
    if (*data == nullptr) {
      return error_status("MTL_OUT_OF_MEMORY", "the system has no %zu bytes of memory (%llu in use here)", size,
                          static_cast<unsigned long long>(statistics_.bytes_in_use));
    }
    statistics_.bytes_reserved += size;
  }
  if (source_.is_memory) {
    permit(*data, bytes);
    forbid(static_cast<char*>(*data) + bytes, granted - bytes);
  }
  live_.emplace(*data, Block{granted, size});
  statistics_.bytes_in_use += size;
  statistics_.num_allocations += 1;
  if (statistics_.bytes_in_use > statistics_.peak_bytes) statistics_.peak_bytes = statistics_.bytes_in_use;
  return ok_status();
}

void CachingAllocator::release(void* data) {
  if (data == nullptr) return;
  const MutexLock lock(mutex_);
  const auto found = live_.find(data);
  if (found == live_.end()) return;
  const auto [granted, counted] = found->second;
  statistics_.bytes_in_use -= counted;
  statistics_.num_allocations -= 1;
  if (source_.is_memory) forbid(data, granted);
  cached_.emplace(granted, data);
  live_.erase(found);
}

void CachingAllocator::trim() {
  const MutexLock lock(mutex_);
  free_cached();
}

void CachingAllocator::give_back(Cached::iterator block) {
  const auto [size, data] = *block;
  statistics_.bytes_reserved -= size;
  if (source_.is_memory) permit(data, size);
  source_.give_back(data, size);
  cached_.erase(block);
}

void CachingAllocator::free_cached() {
  while (!cached_.empty()) give_back(cached_.begin());
}

MemoryStatistics CachingAllocator::statistics() {
  const MutexLock lock(mutex_);
  return statistics_;
}

void CachingAllocator::reset_peak() {
  const MutexLock lock(mutex_);
  statistics_.peak_bytes = statistics_.bytes_in_use;
}

void CachingAllocator::set_limit(uint64_t bytes) {
  const MutexLock lock(mutex_);
  limit_ = bytes;
}

CachingAllocator& host_allocator() {
  // The allocator is never destroyed, because tensors may still exist after static destruction at process
  // exit.
  static CachingAllocator* allocator = new CachingAllocator({reserve_memory, give_memory_back, true});
  return *allocator;
}

Scratch::Scratch(uint64_t bytes) { discard(host_allocator().allocate(bytes, &data)); }

Scratch::~Scratch() { host_allocator().release(data); }

}  // namespace mtl

#include "core/caching_allocator.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "core/memory_marks.h"
#include "core/round_up.h"

namespace mtl {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;
// Blocks from this size on are mapped, not taken from the C library.
constexpr size_t kLargeBlock = size_t{8} << 20;

// Maps memory that begins at a huge page. Returns null if the system has none.
void* map_host(size_t bytes) {
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

// Large blocks are mapped: once some of them were freed, the C library would take others from its heap, which
// keeps memory below blocks in use.
void* reserve_host(size_t bytes) {
  void* data = nullptr;
  if (bytes >= kLargeBlock) {
    data = map_host(bytes);
    if (data != nullptr) madvise(data, bytes, MADV_HUGEPAGE);
    return data;
  }
  if (posix_memalign(&data, bytes >= kHugePage ? kHugePage : kAlignment, bytes) != 0) return nullptr;
  // Huge pages avoid a third of the TLB misses of matmuls; the call has no effect where huge pages are
  // disabled.
  if (bytes >= kHugePage) madvise(data, bytes, MADV_HUGEPAGE);
  return data;
}

void give_host_back(void* data, size_t bytes) {
  if (bytes >= kLargeBlock) {
    munmap(data, bytes);
  } else {
    std::free(data);
  }
}

}  // namespace

// Small blocks are multiples of 64 bytes; larger ones are rounded to an eighth of their power of two, so that
// nearly equal sizes share blocks and at most an eighth is wasted.
size_t CachingAllocator::block_size(size_t bytes) {
  if (bytes <= 4096) return round_up(bytes == 0 ? 1 : bytes, kAlignment);
  if (bytes >= kHugePage * 8) return round_up(bytes, kHugePage);
  const int log2 = 63 - __builtin_clzll(bytes);
  return round_up(bytes, (size_t{1} << log2) / 8);
}

Status CachingAllocator::allocate(size_t bytes, void** data) {
  const size_t size = block_size(bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (limit_ != 0 && statistics_.bytes_in_use + size > limit_) {
    return error_status("MTL_OUT_OF_MEMORY", "allocation of %zu bytes exceeds the limit of %llu bytes (%llu in use)",
                        bytes, static_cast<unsigned long long>(limit_),
                        static_cast<unsigned long long>(statistics_.bytes_in_use));
  }
  // A cached block up to an eighth larger than requested is as good as an exact one. It counts with the
  // requested size, so that the bytes in use do not depend on earlier allocations.
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
  const std::lock_guard<std::mutex> lock(mutex_);
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
  const std::lock_guard<std::mutex> lock(mutex_);
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
  const std::lock_guard<std::mutex> lock(mutex_);
  return statistics_;
}

void CachingAllocator::reset_peak() {
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_.peak_bytes = statistics_.bytes_in_use;
}

void CachingAllocator::set_limit(uint64_t bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  limit_ = bytes;
}

CachingAllocator& host_allocator() {
  // The allocator is never destroyed: tensors may outlive static destruction at process exit.
  static CachingAllocator* allocator = new CachingAllocator({reserve_host, give_host_back, true});
  return *allocator;
}

Scratch::Scratch(size_t bytes) { discard(host_allocator().allocate(bytes, &data)); }

Scratch::~Scratch() { host_allocator().release(data); }

}  // namespace mtl

#include "core/memory_arena.h"

#include <algorithm>

#include "core/memory_marks.h"
#include "core/round_up.h"

namespace mtl {
namespace {

constexpr size_t kGranularity = 512;  // the least alignment for fast matmuls and 16-byte accesses
constexpr size_t kMebibyte = size_t{1} << 20;
constexpr size_t kLargestSmall = kMebibyte;
constexpr size_t kSmallSegment = 2 * kMebibyte;
constexpr size_t kLargeSegment = 32 * kMebibyte;

}  // namespace

Status MemoryArena::allocate(size_t bytes, void** data) {
  if (bytes > PTRDIFF_MAX) return error_status("MTL_OUT_OF_MEMORY", "no block of memory has %zu bytes", bytes);
  const size_t size = round_up(std::max<size_t>(bytes, 1), kGranularity);
  const int pool = size <= kLargestSmall ? kSmall : kLarge;
  const MutexLock lock(mutex_);
  if (limit_ != 0 && statistics_.bytes_in_use + size > limit_) {
    return error_status("MTL_OUT_OF_MEMORY", "allocation of %zu bytes exceeds the limit of %llu bytes (%llu in use)",
                        bytes, static_cast<unsigned long long>(limit_),
                        static_cast<unsigned long long>(statistics_.bytes_in_use));
  }
  Blocks::iterator block = find_free(size, pool);
  if (block == blocks_.end()) MTL_RETURN_IF_ERROR(add_segment(size, pool, &block));
  free_[pool].erase({block->second.size, block->first});
  block->second.is_free = false;
  split(block, size);
  statistics_.bytes_in_use += block->second.size;
  statistics_.num_allocations += 1;
  statistics_.peak_bytes = std::max(statistics_.peak_bytes, statistics_.bytes_in_use);
  *data = block->first;
  if (source_.is_memory) permit(block->first, bytes);
  return ok_status();
}

MemoryArena::Blocks::iterator MemoryArena::find_free(size_t size, int pool) {
  const auto found = free_[pool].lower_bound({size, nullptr});
  return found == free_[pool].end() ? blocks_.end() : blocks_.find(found->second);
}

Status MemoryArena::add_segment(size_t size, int pool, Blocks::iterator* block) {
  size_t segment = pool == kSmall ? kSmallSegment : std::max(kLargeSegment, round_up(size, kSmallSegment));
  void* data = nullptr;
  Status status = source_.reserve(segment, &data);
  if (!status.ok()) {
    // the request may still succeed after cached segments have been released, or with a smaller segment
    discard(status);
    if (!source_.keeps_segments) trim_locked();
    segment = round_up(size, kSmallSegment);
    status = source_.reserve(segment, &data);
  }
  if (!status.ok()) {
    discard(status);
    return error_status("MTL_OUT_OF_MEMORY", "the device has no %zu bytes of memory (%llu in use here, %llu reserved)",
                        segment, static_cast<unsigned long long>(statistics_.bytes_in_use),
                        static_cast<unsigned long long>(statistics_.bytes_reserved));
  }
  statistics_.bytes_reserved += segment;
  if (source_.is_memory) forbid(data, segment);
  char* const begin = static_cast<char*>(data);
  *block = blocks_.emplace(begin, Block{segment, pool, true, begin, segment}).first;
  free_[pool].emplace(segment, begin);
  return ok_status();
}

// Splits off the unused rest of a block, unless the rest is too small for further requests in its pool.
void MemoryArena::split(Blocks::iterator block, size_t size) {
  const size_t rest = block->second.size - size;
  const size_t least = block->second.pool == kSmall ? kGranularity : kLargestSmall;
  if (rest < least) return;
  block->second.size = size;
  Block remainder = block->second;
  remainder.size = rest;
  remainder.is_free = true;
  char* const begin = block->first + size;
  blocks_.emplace(begin, remainder);
  free_[remainder.pool].emplace(rest, begin);
}

bool MemoryArena::release(void* data) {
  const MutexLock lock(mutex_);
  const auto block = blocks_.find(static_cast<char*>(data));
  if (block == blocks_.end() || block->second.is_free) return false;
  statistics_.bytes_in_use -= block->second.size;
  statistics_.num_allocations -= 1;
  if (source_.is_memory) forbid(block->first, block->second.size);
  mark_free(block);
  return true;
}

void MemoryArena::mark_free(Blocks::iterator block) {
  auto& free = free_[block->second.pool];
  const auto joins = [&](Blocks::iterator other) {
    return other != blocks_.end() && other->second.is_free && other->second.segment == block->second.segment;
  };
  const auto after = std::next(block);
  if (joins(after)) {
    free.erase({after->second.size, after->first});
    block->second.size += after->second.size;
    blocks_.erase(after);
  }
  if (block != blocks_.begin() && joins(std::prev(block))) {
    const auto before = std::prev(block);
    free.erase({before->second.size, before->first});
    before->second.size += block->second.size;
    blocks_.erase(block);
    block = before;
  }
  block->second.is_free = true;
  free.emplace(block->second.size, block->first);
}

void MemoryArena::trim() {
  const MutexLock lock(mutex_);
  trim_locked();
}

void MemoryArena::trim_locked() {
  if (source_.may_give_back != nullptr && !source_.may_give_back()) return;
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    if (!block->second.is_free || block->second.size != block->second.segment_size) {
      ++block;
      continue;
    }
    free_[block->second.pool].erase({block->second.size, block->first});
    statistics_.bytes_reserved -= block->second.segment_size;
    if (source_.is_memory) permit(block->first, block->second.segment_size);
    source_.give_back(block->first);
    block = blocks_.erase(block);
  }
}

MemoryStatistics MemoryArena::statistics() {
  const MutexLock lock(mutex_);
  return statistics_;
}

void MemoryArena::reset_peak() {
  const MutexLock lock(mutex_);
  statistics_.peak_bytes = statistics_.bytes_in_use;
}

void MemoryArena::set_limit(uint64_t bytes) {
  const MutexLock lock(mutex_);
  limit_ = bytes;
}

}  // namespace mtl

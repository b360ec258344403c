// The allocator of device memory, with counted host memory instead of a GPU's.
#include "core/memory_arena.h"

#include <cstdlib>
#include <random>
#include <vector>

#include "tests/native_test.h"

namespace mtl::tests {
namespace {

constexpr size_t kMebibyte = size_t{1} << 20;
size_t available = 0;  // bytes left in the source
int num_segments = 0;
std::vector<std::pair<void*, size_t>> segments;

Status reserve(size_t bytes, void** data) {
  if (bytes > available) return error_status("MTL_OUT_OF_MEMORY", "none left");
  available -= bytes;
  *data = std::malloc(bytes);
  segments.emplace_back(*data, bytes);
  num_segments += 1;
  return ok_status();
}

void give_back(void* data) {
  for (auto segment = segments.begin(); segment != segments.end(); ++segment) {
    if (segment->first != data) continue;
    available += segment->second;
    num_segments -= 1;
    std::free(data);
    segments.erase(segment);
    return;
  }
  EXPECT(!"only what was reserved is given back");
}

void provide(size_t bytes) {
  EXPECT(num_segments == 0);
  available = bytes;
}

MTL_TEST(arena_joins_what_it_has_split) {
  provide(64 * kMebibyte);
  MemoryArena arena({reserve, give_back});
  void *first, *second, *third, *whole;
  EXPECT(succeeded(arena.allocate(8 * kMebibyte, &first)));
  EXPECT(succeeded(arena.allocate(8 * kMebibyte, &second)));
  EXPECT(succeeded(arena.allocate(16 * kMebibyte, &third)));
  EXPECT(num_segments == 1);  // 32 MiB hold all three
  EXPECT(arena.statistics().bytes_in_use == 32 * kMebibyte && arena.statistics().num_allocations == 3);
  arena.release(first);
  arena.release(third);
  arena.release(second);  // joins both neighbours
  EXPECT(succeeded(arena.allocate(32 * kMebibyte, &whole)));
  EXPECT(whole == first && num_segments == 1);
  arena.release(whole);
  EXPECT(arena.statistics().bytes_in_use == 0 && arena.statistics().peak_bytes == 32 * kMebibyte);
  arena.trim();
  EXPECT(num_segments == 0 && arena.statistics().bytes_reserved == 0);
}

MTL_TEST(arena_returns_nothing_while_its_source_must_not_wait) {
  provide(64 * kMebibyte);
  bool may_give_back = false;
  MemoryArena::Source source;
  source.reserve = reserve;
  source.give_back = give_back;
  source.may_give_back = [&] { return may_give_back; };
  MemoryArena arena(source);
  void *first, *second;
  EXPECT(succeeded(arena.allocate(40 * kMebibyte, &first)));
  arena.release(first);
  EXPECT(failed_with(arena.allocate(50 * kMebibyte, &second), "MTL_OUT_OF_MEMORY"));
  arena.trim();
  EXPECT(num_segments == 1);
  may_give_back = true;
  EXPECT(succeeded(arena.allocate(50 * kMebibyte, &second)));
  arena.release(second);
  arena.trim();
  EXPECT(num_segments == 0);
}

MTL_TEST(arena_keeps_small_blocks_out_of_large_segments) {
  provide(64 * kMebibyte);
  MemoryArena arena({reserve, give_back});
  void *large, *small, *again;
  EXPECT(succeeded(arena.allocate(20 * kMebibyte, &large)));
  arena.release(large);
  EXPECT(succeeded(arena.allocate(1, &small)));
  EXPECT(succeeded(arena.allocate(32 * kMebibyte, &again)));
  EXPECT(again == large && num_segments == 2);
  EXPECT(arena.statistics().bytes_in_use == 32 * kMebibyte + 512);
  arena.release(small);
  arena.release(again);
  arena.trim();
}

MTL_TEST(arena_gives_idle_segments_back_before_it_fails) {
  provide(40 * kMebibyte);
  MemoryArena arena({reserve, give_back});
  void *first, *second = nullptr;
  EXPECT(succeeded(arena.allocate(32 * kMebibyte, &first)));
  EXPECT(failed_with(arena.allocate(36 * kMebibyte, &second), "MTL_OUT_OF_MEMORY"));
  arena.release(first);
  EXPECT(succeeded(arena.allocate(36 * kMebibyte, &second)));
  EXPECT(num_segments == 1);
  arena.release(second);
  arena.set_limit(kMebibyte);
  EXPECT(failed_with(arena.allocate(2 * kMebibyte, &second), "MTL_OUT_OF_MEMORY"));
  arena.trim();
}

MTL_TEST(arena_of_graphs_keeps_idle_segments_even_when_it_fails) {
  provide(40 * kMebibyte);
  MemoryArena arena({reserve, give_back, /*keeps_segments=*/true});
  void *first, *second = nullptr;
  EXPECT(succeeded(arena.allocate(32 * kMebibyte, &first)));
  arena.release(first);
  EXPECT(failed_with(arena.allocate(36 * kMebibyte, &second), "MTL_OUT_OF_MEMORY"));
  EXPECT(num_segments == 1);
  EXPECT(succeeded(arena.allocate(8 * kMebibyte, &second)));  // taken from the idle segment
  EXPECT(second == first);
  arena.release(second);
  arena.trim();
  EXPECT(num_segments == 0);
}

MTL_TEST(arena_hands_out_blocks_that_do_not_overlap) {
  provide(1024 * kMebibyte);
  MemoryArena arena({reserve, give_back});
  std::mt19937 random(7);
  std::vector<std::pair<char*, size_t>> live;
  for (int step = 0; step < 4000; ++step) {
    if (!live.empty() && random() % 2 == 0) {
      const size_t index = random() % live.size();
      arena.release(live[index].first);
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
      continue;
    }
    if (live.size() == 40) continue;
    const size_t bytes = random() % 4 == 0 ? random() % (6 * kMebibyte) : random() % 5000;
    void* data = nullptr;
    if (!succeeded(arena.allocate(bytes, &data))) return EXPECT(false);
    char* const begin = static_cast<char*>(data);
    for (const auto& [other, size] : live) EXPECT(begin + bytes <= other || other + size <= begin);
    live.emplace_back(begin, bytes);
  }
  for (const auto& block : live) arena.release(block.first);
  arena.release(live.empty() ? nullptr : live[0].first);  // a second time: ignored
  EXPECT(arena.statistics().bytes_in_use == 0 && arena.statistics().num_allocations == 0);
  arena.trim();
  EXPECT(num_segments == 0);
}

}  // namespace
}  // namespace mtl::tests

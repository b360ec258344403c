#include "emulation/device_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace mtl::emulation {
namespace {

// The size of the address space for device memory. Each address is used only once, so accesses after a
// release are detected, too.
constexpr size_t kSpaceBytes = size_t{1} << 42;
constexpr size_t kGranularity = size_t{2} << 20;  // granularity of a GPU driver's allocations
constexpr size_t kPinnedAlignment = 512;

struct Allocation {
  size_t bytes, mapped;
  Owner owner;
};

struct Memory {
  std::mutex mutex;
  std::map<const char*, Allocation> allocations;
  char* space = nullptr;  // kSpaceBytes of addresses, reserved at first use
  size_t used = 0;
  bool is_kept = false;
  int num_in_reach = 0;
};

Memory& memory() {
  static auto* one = new Memory();
  return *one;
}

struct sigaction action_before;

void on_fault(int signal, siginfo_t* information, void*) {
  const char* const at = static_cast<char*>(information->si_addr);
  // takes no lock, because this thread may already hold it, and the process ends anyway
  if (memory().space != nullptr && at >= memory().space && at < memory().space + kSpaceBytes) {
    static const char text[] =
        "emulation: the host has touched memory of the device, or the device memory that was given back\n";
    const ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
  }
  sigaction(signal, &action_before, nullptr);  // the access is repeated, and fails as usual
}

bool reserve_space(Memory& all) {
  void* const space = mmap(nullptr, kSpaceBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return false;
  all.space = static_cast<char*>(space);
  return true;
}

void protect(Memory& all, int protection) {
  for (const auto& [data, allocation] : all.allocations) {
    if (allocation.owner == Owner::kDevice) mprotect(const_cast<char*>(data), allocation.mapped, protection);
  }
}

}  // namespace

void* take_device_memory(size_t bytes, bool is_written) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const size_t mapped = (bytes + kGranularity - 1) / kGranularity * kGranularity;
  if (mapped < bytes || (all.space == nullptr && !reserve_space(all)) || mapped > kSpaceBytes - all.used) return nullptr;
  char* const data = all.space + all.used;
  if (mprotect(data, mapped, PROT_READ | PROT_WRITE) != 0) return nullptr;
  if (is_written) std::memset(data, 0xff, bytes);
  if (all.is_kept && all.num_in_reach == 0) mprotect(data, mapped, PROT_NONE);
  all.used += mapped;
  all.allocations[data] = {bytes, mapped, Owner::kDevice};
  return data;
}

void* take_pinned_memory(size_t bytes, bool is_written) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const size_t mapped = (bytes + kPinnedAlignment - 1) / kPinnedAlignment * kPinnedAlignment;
  void* const data = mapped < bytes ? nullptr : std::aligned_alloc(kPinnedAlignment, mapped);
  if (data == nullptr) return nullptr;
  if (is_written) std::memset(data, 0xff, bytes);
  all.allocations[static_cast<char*>(data)] = {bytes, mapped, Owner::kPinned};
  return data;
}

bool give_memory_back(void* data) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto found = all.allocations.find(static_cast<char*>(data));
  if (found == all.allocations.end()) return false;
  if (found->second.owner == Owner::kPinned) {
    std::free(data);
  } else {
    madvise(data, found->second.mapped, MADV_DONTNEED);
    mprotect(data, found->second.mapped, PROT_NONE);
  }
  all.allocations.erase(found);
  return true;
}

Owner owner_of(const void* data, size_t bytes) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const char* const first = static_cast<const char*>(data);
  auto found = all.allocations.upper_bound(first);
  if (found == all.allocations.begin()) return Owner::kPageable;
  --found;
  return first + bytes <= found->first + found->second.bytes ? found->second.owner : Owner::kPageable;
}

void keep_from_host(bool is_kept) {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (is_kept == all.is_kept) return;
  all.is_kept = is_kept;
  if (is_kept) {
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigaction(SIGSEGV, &action, &action_before);
  } else {
    sigaction(SIGSEGV, &action_before, nullptr);
  }
  if (all.num_in_reach == 0) protect(all, is_kept ? PROT_NONE : PROT_READ | PROT_WRITE);
}

DeviceMemoryInReach::DeviceMemoryInReach() {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (++all.num_in_reach == 1 && all.is_kept) protect(all, PROT_READ | PROT_WRITE);
}

DeviceMemoryInReach::~DeviceMemoryInReach() {
  Memory& all = memory();
  const std::lock_guard<std::mutex> lock(all.mutex);
  if (--all.num_in_reach == 0 && all.is_kept) protect(all, PROT_NONE);
}

}  // namespace mtl::emulation

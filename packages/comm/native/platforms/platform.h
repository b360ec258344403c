// Functions of the operating system that POSIX does not contain: sharing memory between processes, waiting
// for a change of a word in this memory, events, and noticing the end of other processes. Each folder in
// platforms/ defines these functions for one system, and CMake compiles one of the folders. The addon is not
// available on other systems.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/status.h"

namespace mtl::comm::platform {

// Creates zeroed memory that other processes of the host can open by `handle` and the id of this process, for
// as long as `handle` is open. It has no name in a file system, so no file is left behind. Pages are
// allocated at first access. Returns MTL_SEGMENT if the system refuses.
Status create_shared_memory(uint64_t bytes, int* handle, void** data);
// Opens shared memory that process `pid` created. Returns MTL_SEGMENT if that process has ended or is not
// accessible, or if the memory is not `bytes` long.
Status open_shared_memory(int pid, int handle, uint64_t bytes, void** data);
void unmap_shared_memory(void* data, uint64_t bytes);

// Sleeps while `word`, which may be in shared memory, has the value `seen`. The sleep ends at `wake_all`,
// after `nanoseconds`, or earlier. The system compares the value under a lock, so that a change just before
// the call is not missed.
void sleep_while(const std::atomic<uint32_t>* word, uint32_t seen, int64_t nanoseconds);
// Wakes all threads of all processes that sleep on `word`.
void wake_all(const std::atomic<uint32_t>* word);

// Returns a descriptor that `raise_event` makes readable, or -1 with the reason in errno.
int create_event();
void raise_event(int event);
void clear_event(int event);

// Returns a descriptor that becomes readable when the process `pid` ends, or -1 with the reason in errno:
// ESRCH if it has ended.
int watch_process(int pid);
// Makes the system kill this process when `parent`, the process that started it, ends. If the parent has
// already ended, this process is killed immediately. Returns MTL_LAUNCH if the system cannot do that.
Status end_with_parent(int64_t parent);

// Returns how many processors this process may use; 0 if that is unknown.
int num_processors();

// Fills memory with random bytes for secrets. Returns false if the system cannot provide any.
bool fill_with_random(void* data, size_t bytes);

}  // namespace mtl::comm::platform

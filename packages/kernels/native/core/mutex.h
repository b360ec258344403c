// The lock that guards state which several JavaScript threads may use at once.
#pragma once

#if !defined(__wasm__)
#include <mutex>
#endif

namespace mtl {

#if defined(__wasm__)
// a WebAssembly instance belongs to a single JavaScript thread, and the threads of its pool run only kernels,
// which take no lock; so no lock is needed
class Mutex {};
class MutexLock {
 public:
  explicit MutexLock(Mutex&) {}
  ~MutexLock() {}
};
#else
using Mutex = std::mutex;
using MutexLock = std::lock_guard<std::mutex>;
#endif

}  // namespace mtl

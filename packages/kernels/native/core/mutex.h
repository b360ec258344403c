// A lock for state that several JavaScript threads may use at the same time.
#pragma once

#if !defined(__wasm__)
#include <mutex>
#endif

namespace mtl {

#if defined(__wasm__)
// no lock is needed here: a WebAssembly instance belongs to a single JavaScript thread, and the threads in
// its pool run only kernels, which take no lock
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

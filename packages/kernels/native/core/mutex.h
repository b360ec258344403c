// The lock that guards state which several threads of JavaScript may use at once.
#pragma once

#if !defined(__wasm__)
#include <mutex>
#endif

namespace mtl {

#if defined(__wasm__)
// WebAssembly's instance belongs to one thread of JavaScript: the threads of its pool run kernels alone,
// which take no lock.
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

// One thread of an emulated block: a separate stack, without a thread of the operating system. On supported
// CPUs switching takes a few instructions (a block of 256 threads reaches a barrier tens of thousands of
// times in a small test); on others it uses ucontext.
#pragma once

#include <cstddef>

namespace mtl::emulation {

struct FiberState;

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Makes the next resume() call `body(argument)` from its beginning; a body that ran before is abandoned,
  // not unwound.
  void start(void (*body)(void*), void* argument);
  // Runs the fiber until it yields or its body returns. Called from outside of fibers.
  void resume();
  // Returns to the caller of resume(). Called by the running fiber.
  static void yield();

 private:
  FiberState* state_;
};

}  // namespace mtl::emulation

// One thread of an emulated block: a stack of its own and nothing else. Switching is a few instructions where
// we know the processor (a block of 256 threads meets at a barrier tens of thousands of times in a small
// test), ucontext elsewhere.
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

  // Makes the next resume() call `body(argument)` from its beginning; whatever ran before is abandoned, not
  // unwound.
  void start(void (*body)(void*), void* argument);
  // Runs the fiber until it yields or its body returns. Called from outside of fibers.
  void resume();
  // Goes back to who called resume(). Called by the running fiber.
  static void yield();

 private:
  FiberState* state_;
};

}  // namespace mtl::emulation

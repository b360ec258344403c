// A thread of an emulated block. It has its own stack, but is not a thread of the operating system. On
// supported CPUs, switching takes a few instructions: in a small test, a block of 256 threads reaches a
// barrier tens of thousands of times. On all other CPUs, switching uses ucontext.
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

  // Makes the next resume() call `body(argument)` from its beginning. If an earlier body has not returned, it
  // is abandoned, and its stack is not unwound.
  void start(void (*body)(void*), void* argument);
  // Runs the fiber until it yields or its body returns. Called from outside of fibers.
  void resume();
  // Returns to the caller of resume(). Called by the running fiber.
  static void yield();

 private:
  FiberState* state_;
};

}  // namespace mtl::emulation

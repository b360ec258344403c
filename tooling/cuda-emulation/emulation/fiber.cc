#include "emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

// MTL_PORTABLE_FIBERS selects the code for CPUs other than x86-64, so that it can be tested on x86-64
#if defined(__x86_64__) && !defined(MTL_PORTABLE_FIBERS)
#define MTL_FAST_FIBERS 1
#else
#include <ucontext.h>
#endif

namespace mtl::emulation {
namespace {

// A fiber's stack also holds the values that a kernel has in registers on a GPU. These are at most 255
// registers of 4 bytes, and several times that in a build without optimisation.
constexpr size_t kStackBytes = 256 << 10;
// Stacks begin at different lines of a page. A warp uses only the beginning of each stack, and without this
// offset, these beginnings would evict each other from the first-level cache.
constexpr size_t kLineBytes = 64, kStaggerBytes = 17 * kLineBytes, kNumStaggers = 32;

// The saved state of a fiber while the thread that resumed it runs, or of this thread while the fiber runs.
struct Context {
#if defined(MTL_FAST_FIBERS)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
  void* fake_stack = nullptr;  // for AddressSanitizer
};

}  // namespace

struct FiberState {
  unsigned char* stack;
  size_t stack_bytes;
  Context own, resumer;
  const void* resumer_stack = nullptr;  // reported by AddressSanitizer
  size_t resumer_stack_bytes = 0;
  void (*body)(void*);
  void* argument;
  bool is_abandoned = false;  // a body has begun and not ended
};

}  // namespace mtl::emulation

#if defined(MTL_FAST_FIBERS)
// Saves the registers that a called function must preserve, switches stacks, and restores the registers.
// Follows the System V ABI, but does not save the floating-point control words, because no kernel changes
// them.
extern "C" void mtl_exchange_stacks(void** save, void* load);
asm(R"(
.text
.globl mtl_exchange_stacks
.hidden mtl_exchange_stacks
.type mtl_exchange_stacks, @function
mtl_exchange_stacks:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size mtl_exchange_stacks, .-mtl_exchange_stacks
)");
#endif

namespace mtl::emulation {
namespace {

FiberState* running = nullptr;

// Switches from `from` to `to`, whose stack is given. `save` is null if `from` will never run again.
void exchange(Context& from, Context& to, void** save, const void* stack, size_t stack_bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(save, stack, stack_bytes);
#else
  (void)save, (void)stack, (void)stack_bytes;
#endif
#if defined(MTL_FAST_FIBERS)
  mtl_exchange_stacks(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.context, &to.context);
#endif
}

void arrived(void* fake_stack, const void** stack_before, size_t* bytes_before) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake_stack, stack_before, bytes_before);
#else
  (void)fake_stack, (void)stack_before, (void)bytes_before;
#endif
}

// The first function on every fiber's stack. Never returns.
void run_fiber() {
  FiberState& self = *running;
  arrived(nullptr, &self.resumer_stack, &self.resumer_stack_bytes);
  self.body(self.argument);
  self.is_abandoned = false;
  exchange(self.own, self.resumer, nullptr, self.resumer_stack, self.resumer_stack_bytes);
  std::abort();
}

}  // namespace

Fiber::Fiber() : state_(new FiberState()) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* memory = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  // a page below the stack forbids access, so a kernel that needs more stack crashes at once and overwrites
  // no memory
  if (memory == MAP_FAILED || mprotect(memory, page, PROT_NONE) != 0) {
    std::fprintf(stderr, "emulation: no memory for a stack of %zu bytes\n", kStackBytes);
    std::abort();
  }
  static size_t number = 0;
  state_->stack = static_cast<unsigned char*>(memory) + page;
  state_->stack_bytes = kStackBytes - number++ % kNumStaggers * kStaggerBytes;
}

Fiber::~Fiber() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  munmap(state_->stack - page, kStackBytes + page);
  delete state_;
}

void Fiber::start(void (*body)(void*), void* argument) {
  state_->body = body;
  state_->argument = argument;
  state_->own.fake_stack = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  // an abandoned body leaves AddressSanitizer's red zones on its stack
  if (state_->is_abandoned) __asan_unpoison_memory_region(state_->stack, state_->stack_bytes);
#endif
  state_->is_abandoned = true;
#if defined(MTL_FAST_FIBERS)
  auto* top = reinterpret_cast<uint64_t*>(state_->stack + state_->stack_bytes);
  *--top = 0;  // return address of run_fiber; also aligns the stack as a called function expects
  *--top = reinterpret_cast<uint64_t>(&run_fiber);
  for (int preserved = 0; preserved < 6; ++preserved) *--top = 0;
  state_->own.stack_pointer = top;
#else
  getcontext(&state_->own.context);
  state_->own.context.uc_stack.ss_sp = state_->stack;
  state_->own.context.uc_stack.ss_size = state_->stack_bytes;
  makecontext(&state_->own.context, &run_fiber, 0);
#endif
}

void Fiber::resume() {
  FiberState& self = *state_;
  running = &self;
  exchange(self.resumer, self.own, &self.resumer.fake_stack, self.stack, self.stack_bytes);
  arrived(self.resumer.fake_stack, nullptr, nullptr);
  running = nullptr;
}

void Fiber::yield() {
  FiberState& self = *running;
  exchange(self.own, self.resumer, &self.own.fake_stack, self.resumer_stack, self.resumer_stack_bytes);
  arrived(self.own.fake_stack, &self.resumer_stack, &self.resumer_stack_bytes);
}

}  // namespace mtl::emulation

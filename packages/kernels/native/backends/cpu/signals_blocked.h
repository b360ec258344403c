// Prevents signal handlers from running inside oneDNN's code.
#pragma once

#include <pthread.h>
#include <signal.h>

#include "backends/cpu/threads.h"

namespace mtl {

// While an object of this class exists, signals that have handlers are blocked in its thread and in the
// thread's pool. Kernels that oneDNN generates for CPUs without AVX-512 use the stack pointer as a general
// register, so a signal handler would write its frame to an arbitrary address and damage the heap. Signals
// that report faults in the code itself, such as SIGSEGV, are not blocked.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    block(&previous_);
    const int threads = num_threads();
    if (threads == num_blocked_) return;
    // Blocks signals in the threads that exist. New threads inherit this thread's signal mask.
    on_threads(threads, [](int thread) {
      if (thread > 0) block(nullptr);
    });
    num_blocked_ = threads;
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  static void block(sigset_t* previous) {
    sigset_t signals;
    sigfillset(&signals);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&signals, fault);
    pthread_sigmask(SIG_BLOCK, &signals, previous);
  }

  sigset_t previous_;
  static inline thread_local int num_blocked_ = 1;  // threads of this thread's pool, itself included
};

}  // namespace mtl

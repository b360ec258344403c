// Threads without shared memory: the calling thread alone, which computes all tasks of a call.
#include "backends/cpu/threads.h"

namespace mtl {

int num_threads() { return 1; }

int most_threads() { return 1; }

void run_on_threads(int count, void (*body)(const void* context, int thread), const void* context) {
  for (int thread = 0; thread < count; ++thread) body(context, thread);
}

Status set_num_threads(int num_threads, bool) {
  if (num_threads == 1) return ok_status();
  return error_status("MTL_WEBASSEMBLY", "%d threads asked for, but the kernels have no shared memory, expected 1", num_threads);
}

}  // namespace mtl

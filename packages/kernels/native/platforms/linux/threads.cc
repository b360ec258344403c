#include "backends/cpu/threads.h"

#include <omp.h>
#include <sched.h>

namespace mtl {
namespace {

constexpr int kMostThreads = 1024;

}  // namespace

int num_threads() { return omp_get_max_threads(); }

int most_threads() { return kMostThreads; }

void run_on_threads(int count, void (*body)(const void* context, int thread), const void* context) {
#pragma omp parallel for schedule(static, 1) num_threads(count) if (count > 1)
  for (int thread = 0; thread < count; ++thread) body(context, thread);
}

Status set_num_threads(int num_threads, bool pin) {
  if (num_threads < 1 || num_threads > kMostThreads) {
    return error_status("MTL_ARGUMENT", "%d threads asked for, expected 1 to %d", num_threads, kMostThreads);
  }
  static cpu_set_t allowed;
  static const bool known = sched_getaffinity(0, sizeof allowed, &allowed) == 0;
  omp_set_dynamic(0);
  omp_set_num_threads(num_threads);
  if (!known) return ok_status();
  const int num_cores = CPU_COUNT(&allowed);
#pragma omp parallel num_threads(num_threads)
  {
    cpu_set_t mine = allowed;
    // The calling thread is not pinned to a core, because threads that it starts later (data readers) would
    // be pinned to the same core.
    if (pin && num_threads <= num_cores && omp_get_thread_num() > 0) {
      int skip = omp_get_thread_num();
      CPU_ZERO(&mine);
      for (int core = 0; core < CPU_SETSIZE; ++core) {
        if (CPU_ISSET(core, &allowed) && skip-- == 0) {
          CPU_SET(core, &mine);
          break;
        }
      }
    }
    sched_setaffinity(0, sizeof mine, &mine);
  }
  return ok_status();
}

}  // namespace mtl

// The clock for deadlines, waits and traces: monotonic nanoseconds, the same for all processes of a host.
#pragma once

#include <time.h>

#include <cstdint>

namespace mtl::comm {

inline int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
}

constexpr int64_t kMillisecond = 1000000;

}  // namespace mtl::comm

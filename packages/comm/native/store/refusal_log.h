// Logs rejected traffic of a store to standard error, rate-limited, so that a flood of traffic does not cause
// a flood of lines.
#pragma once

#include <cstdint>
#include <string>

namespace mtl::comm::store {

class RefusalLog {
 public:
  // Writes one line, or counts it for a later one.
  void refuse(const std::string& peer, const std::string& why);
  uint64_t num_refused() const { return num_refused_; }

 private:
  uint64_t num_refused_ = 0;
  uint64_t num_silent_ = 0;
  double allowance_ = 5;  // lines that may be written in a burst
  int64_t last_ns_ = 0;
};

}  // namespace mtl::comm::store

// Logs the traffic that a store rejects to standard error. The number of lines per second is limited, so that
// a flood of traffic does not cause a flood of lines.
#pragma once

#include <cstdint>
#include <string>

namespace mtl::comm::store {

class RefusalLog {
 public:
  // Writes one line, or only counts the rejection; the next line then reports the count.
  void refuse(const std::string& peer, const std::string& why);
  uint64_t num_refused() const { return num_refused_; }

 private:
  uint64_t num_refused_ = 0;
  uint64_t num_silent_ = 0;
  double allowance_ = 5;  // the number of lines that may be written now
  int64_t last_ns_ = 0;
};

}  // namespace mtl::comm::store

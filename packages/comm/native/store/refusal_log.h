// Says on standard error which traffic a store refuses, at a rate that a flood of it cannot turn into a flood
// of lines.
#pragma once

#include <cstdint>
#include <string>

namespace mtl::comm::store {

class RefusalLog {
 public:
  // One line, or counted into a later one.
  void refuse(const std::string& peer, const std::string& why);
  uint64_t num_refused() const { return num_refused_; }

 private:
  uint64_t num_refused_ = 0;
  uint64_t num_silent_ = 0;
  double allowance_ = 5;  // lines that may be written at once
  int64_t last_ns_ = 0;
};

}  // namespace mtl::comm::store

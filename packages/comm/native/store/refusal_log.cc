#include "store/refusal_log.h"

#include <algorithm>
#include <cstdio>

#include "core/clock.h"

namespace mtl::comm::store {
namespace {

constexpr double kMaxAllowance = 5;
constexpr double kLinesPerSecond = 0.2;

}  // namespace

void RefusalLog::refuse(const std::string& peer, const std::string& why) {
  ++num_refused_;
  const int64_t now = now_ns();
  if (last_ns_ != 0) {
    allowance_ = std::min(kMaxAllowance, allowance_ + static_cast<double>(now - last_ns_) / 1e9 * kLinesPerSecond);
  }
  last_ns_ = now;
  if (allowance_ < 1) {
    ++num_silent_;
    return;
  }
  allowance_ -= 1;
  std::string before;
  if (num_silent_ > 0) before = " (and " + std::to_string(num_silent_) + " more since the last line)";
  num_silent_ = 0;
  std::fprintf(stderr, "warning[MTL_STORE_REFUSED]: the store refused a connection from %s: %s%s; the job goes on\n",
               peer.c_str(), why.c_str(), before.c_str());
}

}  // namespace mtl::comm::store

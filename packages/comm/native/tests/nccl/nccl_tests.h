// Shared by the tests of the nccl engine: ranks as threads, a store in memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "engines/nccl/nccl_engine.h"
#include "group/group.h"
#include "test_program.h"

namespace mtl::comm::nccl::tests {

void report(bool is_met, const char* file, int line, const std::string& what);

// A store in memory; each key is written once, as in the real store.
class MemoryStore {
 public:
  StoreAccess access();
  int num_keys(const std::string& part);  // keys that contain `part`
  // Announces that a rank of the test will set a key that ends with `end`: a search for such a key then waits
  // until it is set, however slow the machine is.
  void expect_key(const std::string& end) { expected_.push_back(end); }

 private:
  bool is_expected(const std::string& key) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> expected_;
  std::map<std::string, std::string> values_;
};

Status wait(Group::Work work);
bool contains(const Status& status, const std::string& text);
bool failed_with(const Status& status, const char* code);

}  // namespace mtl::comm::nccl::tests

#define NCCL_TEST(name) MTL_TEST(name)
// checks `expression`; if it is false, prints the failure of `status` as well
#define EXPECT_STATUS(expression, status)                                                                \
  ::mtl::comm::nccl::tests::report((expression), __FILE__, __LINE__,                                     \
                                   std::string(#expression) + ": " +                                     \
                                       ((status).ok() ? "success" : (status).failure().code + ": " + (status).failure().message))

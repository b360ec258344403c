#include "tests/nccl/nccl_tests.h"

#include <cstdio>

namespace mtl::comm::nccl::tests {

void report(bool is_met, const char* file, int line, const std::string& what) {
  if (!is_met) testing::report_failure(file, line, what.c_str());
}

StoreAccess MemoryStore::access() {
  StoreAccess access;
  access.set = [this](const std::string& key, const std::string& value) -> Status {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool is_new = values_.emplace(key, value).second;
    changed_.notify_all();
    report(is_new, __FILE__, __LINE__, "a key is written once: " + key);
    return ok_status();
  };
  access.find = [this](const std::string& key, std::string* value, bool* is_there) -> Status {
    std::unique_lock<std::mutex> lock(mutex_);
    if (is_expected(key)) changed_.wait(lock, [&] { return values_.count(key) > 0; });
    const auto found = values_.find(key);
    *is_there = found != values_.end();
    if (*is_there) *value = found->second;
    return ok_status();
  };
  return access;
}

bool MemoryStore::is_expected(const std::string& key) const {
  for (const std::string& end : expected_) {
    if (key.size() >= end.size() && key.compare(key.size() - end.size(), end.size(), end) == 0) return true;
  }
  return false;
}

int MemoryStore::num_keys(const std::string& part) {
  const std::lock_guard<std::mutex> lock(mutex_);
  int count = 0;
  for (const auto& entry : values_) count += entry.first.find(part) != std::string::npos;
  return count;
}

Status wait(Group::Work work) { return work.wait(); }

bool contains(const Status& status, const std::string& text) {
  return !status.ok() && status.failure().message.find(text) != std::string::npos;
}

bool failed_with(const Status& status, const char* code) { return !status.ok() && status.failure().code == code; }

}  // namespace mtl::comm::nccl::tests

int main(int argc, char** argv) {
  const std::string name = "tests of the nccl engine (" + mtl::comm::nccl::nccl_build_text() + ")";
  mtl::testing::TestProgram program;
  program.name = name.c_str();
#ifndef MTL_NCCL_FAKES
  program.at_end = [] {
    std::printf("SKIPPED the tests of the nccl engine against fakes: %s\n", mtl::comm::nccl::nccl_build_text().c_str());
  };
#endif
  return mtl::testing::run_tests(argc, argv, program);
}

#include "tests/nccl/nccl_tests.h"

#include <cstdio>
#include <cstring>

namespace mtl::comm::nccl::tests {
namespace {

struct Entry {
  const char* name;
  void (*body)();
};

std::vector<Entry>& all_tests() {
  static std::vector<Entry> tests;
  return tests;
}

std::atomic<int> num_failures{0};

}  // namespace

Test::Test(const char* name, void (*body)()) { all_tests().push_back({name, body}); }

void report(bool is_met, const char* file, int line, const std::string& what) {
  if (is_met) return;
  ++num_failures;
  const char* slash = std::strrchr(file, '/');
  std::printf("  FAILED %s:%d: %s\n", slash == nullptr ? file : slash + 1, line, what.c_str());
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
  using namespace mtl::comm::nccl::tests;
  int num_run = 0;
  for (const Entry& test : all_tests()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    const int before = num_failures;
    test.body();
    std::printf("%s %s\n", num_failures == before ? "ok  " : "FAIL", test.name);
    std::fflush(stdout);
    ++num_run;
  }
#ifndef MTL_NCCL_DOUBLES
  std::printf("SKIPPED the tests of the nccl engine against doubles: %s\n", mtl::comm::nccl::nccl_build_text().c_str());
#endif
  std::printf("%d tests of the nccl engine, %d failures (%s)\n", num_run, num_failures.load(),
              mtl::comm::nccl::nccl_build_text().c_str());
  return num_failures == 0 && num_run > 0 ? 0 : 1;
}

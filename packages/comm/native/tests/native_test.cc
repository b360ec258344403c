#include "tests/native_test.h"

#include <atomic>
#include <cstring>

namespace mtl::comm::tests {
namespace {

struct NativeTest {
  const char* name;
  void (*body)();
};

std::vector<NativeTest>& all_tests() {
  static std::vector<NativeTest> tests;
  return tests;
}

std::atomic<int> num_failures{0};

}  // namespace

TestRegistration::TestRegistration(const char* name, void (*body)()) { all_tests().push_back({name, body}); }

void report_failure(const char* file, int line, const char* expression) {
  if (++num_failures > 40) return;  // the first ones say it all
  const char* slash = std::strrchr(file, '/');
  std::printf("  FAILED %s:%d: %s\n", slash == nullptr ? file : slash + 1, line, expression);
}

bool failed_with(const Status& status, const char* code) {
  const bool as_expected = !status.ok() && status.failure().code == code && !status.failure().message.empty();
  if (!as_expected) {
    std::printf("  got %s: %s\n", status.ok() ? "success" : status.failure().code.c_str(),
                status.ok() ? "" : status.failure().message.c_str());
  }
  return as_expected;
}

bool succeeded(const Status& status) {
  if (status.ok()) return true;
  std::printf("  got %s: %s\n", status.failure().code.c_str(), status.failure().message.c_str());
  return false;
}

ThreadedGroup::ThreadedGroup(int size, uint64_t buffer_bytes, int64_t timeout_ms, const Wrap& wrap) {
  local::LocalOptions options;
  options.buffer_bytes = buffer_bytes;
  const local::LocalCommunicator* first = nullptr;
  for (int member = 0; member < size; ++member) {
    GroupIdentity identity;
    identity.name = "test";
    for (int rank = 0; rank < size; ++rank) identity.ranks.push_back(10 + rank);
    identity.rank = member;
    identity.timeout_ns = timeout_ms * kMillisecond;
    std::unique_ptr<local::LocalCommunicator> communicator;
    if (member == 0) {
      EXPECT(succeeded(local::LocalCommunicator::create(identity, options, &communicator)));
      first = communicator.get();
    } else {
      communicator = local::LocalCommunicator::join(identity, options, *first);
    }
    communicators_.push_back(communicator.get());
    jobs_.push_back(std::make_unique<JobState>(10 + member));
    traces_.push_back(std::make_unique<Trace>(64));
    std::unique_ptr<Communicator> wrapped = std::move(communicator);
    if (wrap) wrapped = wrap(member, std::move(wrapped));
    groups_.push_back(std::make_unique<Group>(member + 1, std::move(identity), std::move(wrapped), jobs_.back().get(),
                                              traces_.back().get()));
  }
}

void ThreadedGroup::run(const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int member = 0; member < size(); ++member) threads.emplace_back(body, member);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace mtl::comm::tests

int main(int argc, char** argv) {
  using namespace mtl::comm::tests;
  int num_run = 0;
  for (const NativeTest& test : all_tests()) {
    if (argc > 1 && std::strstr(test.name, argv[1]) == nullptr) continue;
    const int before = num_failures;
    test.body();
    std::printf("%s %s\n", num_failures == before ? "ok  " : "FAIL", test.name);
    std::fflush(stdout);
    ++num_run;
  }
  std::printf("%d native tests, %d failures\n", num_run, num_failures.load());
  return num_failures == 0 && num_run > 0 ? 0 : 1;
}

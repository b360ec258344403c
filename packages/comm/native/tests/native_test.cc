#include "tests/native_test.h"

#include <cstdio>

namespace mtl::comm::tests {

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

int main(int argc, char** argv) { return mtl::testing::run_tests(argc, argv); }

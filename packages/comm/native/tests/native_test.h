// Shared by native tests: checks of statuses, and groups of threads.
#pragma once

#include <cstdio>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "engines/local/local_communicator.h"
#include "group/group.h"
#include "test_program.h"

namespace mtl::comm::tests {

// Returns whether the status is a failure with this code; prints the status if it is not.
bool failed_with(const Status& status, const char* code);
bool succeeded(const Status& status);

// A group whose members are threads of this process, with one mapping of one segment.
class ThreadedGroup {
 public:
  // A function that wraps another engine around the engine of a member.
  using Wrap = std::function<std::unique_ptr<Communicator>(int member, std::unique_ptr<Communicator> communicator)>;
  ThreadedGroup(int size, uint64_t buffer_bytes, int64_t timeout_ms = 20000, const Wrap& wrap = nullptr);

  ~ThreadedGroup() {
    while (!groups_.empty()) groups_.pop_back();
  }

  int size() const { return static_cast<int>(groups_.size()); }
  local::LocalCommunicator& communicator(int member) { return *communicators_[static_cast<size_t>(member)]; }
  Group& group(int member) { return *groups_[static_cast<size_t>(member)]; }
  JobState& job(int member) { return *jobs_[static_cast<size_t>(member)]; }
  Trace& trace(int member) { return *traces_[static_cast<size_t>(member)]; }
  // Closes a member's group. Member 0 owns the mapping: it must be closed last, unless no other member is
  // running.
  void close(int member) { groups_[static_cast<size_t>(member)].reset(); }
  // Calls `body(member)` on a thread for each member.
  void run(const std::function<void(int)>& body);

 private:
  std::vector<std::unique_ptr<JobState>> jobs_;
  std::vector<std::unique_ptr<Trace>> traces_;
  std::vector<local::LocalCommunicator*> communicators_;  // owned by the groups
  std::vector<std::unique_ptr<Group>> groups_;
};

}  // namespace mtl::comm::tests

// The NCCL groups of one process in one job. They share the order of launches, and are aborted together.
#pragma once

#include <algorithm>
#include <functional>
#include <mutex>
#include <vector>

#include "engines/nccl/launch_order.h"

struct ncclComm;

namespace mtl::comm::nccl {

class ProcessGroups {
 public:
  class Member {
   public:
    virtual ~Member() = default;
    // Adds the member's communicators to the list; the member must not use them afterwards. Returns false if
    // the member has no communicators to abort.
    virtual bool give_up(std::vector<ncclComm*>* communicators) = 0;
    // Called when the communicators that the member gave up have been aborted.
    virtual void aborted() = 0;
  };

  LaunchOrder order;

  void enter(Member* member) {
    const std::lock_guard<std::mutex> lock(mutex_);
    members_.push_back(member);
  }

  // Removes a member, after waiting for an abort that is in progress. A second call has no effect.
  void leave(Member* member) {
    const std::lock_guard<std::mutex> lock(mutex_);
    members_.erase(std::remove(members_.begin(), members_.end(), member), members_.end());
  }

  // Calls `abort` once, and passes the communicators of all members.
  void abort_all(const std::function<void(const std::vector<ncclComm*>&)>& abort) {
    const std::lock_guard<std::mutex> lock(mutex_);
    std::vector<ncclComm*> communicators;
    std::vector<Member*> given_up;
    for (Member* member : members_) {
      if (member->give_up(&communicators)) given_up.push_back(member);
    }
    abort(communicators);
    for (Member* member : given_up) member->aborted();
  }

 private:
  std::mutex mutex_;  // if both are needed, this mutex is locked before a member's own mutex
  std::vector<Member*> members_;
};

}  // namespace mtl::comm::nccl

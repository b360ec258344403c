// The objects behind JavaScript's handles. Jobs and groups live until they are closed, and handles are never
// reused. The table of handles belongs to the process and is never destroyed, because threads of jobs that
// are still open run until the process exits.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <unordered_map>

#include "bindings/convert.h"
#include "engines/local/watchdog.h"
#include "engines/nccl/process_groups.h"
#include "group/group.h"

namespace mtl::comm::bindings {

struct OpenGroup {
  std::unique_ptr<Group> group;
  std::unordered_map<int64_t, Group::Work> works;  // by ticket; removed once waited for
  int64_t next_ticket = 1;
  std::function<void()> on_close;  // after the group is destroyed
};

// A process's membership in a job. Only the thread that has created it may use it.
struct Job {
  explicit Job(int rank) : state(rank), trace(8192) {}
  JobState state;
  Trace trace;
  std::map<int64_t, std::unique_ptr<OpenGroup>> groups;
  std::map<std::string, int> num_created;  // how often a group with this name and these ranks was created
  std::unique_ptr<local::HostBoard> board;
  std::unique_ptr<local::Watchdog> watchdog;
  std::shared_ptr<nccl::ProcessGroups> nccl_groups;
  std::vector<std::shared_ptr<void>> kept;  // other objects with the job's lifetime, such as a store's client
};

// Both functions return null, with a pending MTL_CLOSED exception, if the handle is not open.
Job* read_job(const Napi::CallbackInfo& info, size_t index);
OpenGroup* read_group(const Napi::CallbackInfo& info, size_t index);

// Adds a group of `job` to the table and returns its handle to JavaScript.
Napi::Value add_group(const Napi::CallbackInfo& info, Job* job, GroupIdentity identity,
                      std::unique_ptr<Communicator> communicator, std::function<void()> on_close);

// Like add_group, but returns {group, engine}.
Napi::Value opened_group(const Napi::CallbackInfo& info, Job* job, GroupIdentity identity,
                         std::unique_ptr<Communicator> communicator);

}  // namespace mtl::comm::bindings

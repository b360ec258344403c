// The functions createJob, closeJob, abortJob, failureOfJob, takeTrace.
#include <mutex>

#include "bindings/jobs.h"

namespace mtl::comm::bindings {
namespace {

struct Tables {
  std::mutex mutex;  // worker threads of one process share the module
  std::unordered_map<int64_t, std::unique_ptr<Job>> jobs;
  std::unordered_map<int64_t, OpenGroup*> groups;
  int64_t next_handle = 1;
};

Tables& tables() {
  static Tables* const all = new Tables;
  return *all;
}

template <typename Entry, typename Map>
Entry* entry_of(const Napi::CallbackInfo& info, size_t index, Map Tables::*map, const char* what) {
  int64_t handle;
  if (!read_integer(info, index, &handle)) return nullptr;
  const std::lock_guard<std::mutex> lock(tables().mutex);
  const auto found = (tables().*map).find(handle);
  if (found != (tables().*map).end()) return &*found->second;
  throw_status(info.Env(), error_status("MTL_CLOSED", "this %s was closed", what));
  return nullptr;
}

Napi::Value create_job(const Napi::CallbackInfo& info) {
  int64_t rank;
  if (!read_integer(info, 0, &rank)) return {};
  const std::lock_guard<std::mutex> lock(tables().mutex);
  const int64_t handle = tables().next_handle++;
  tables().jobs[handle] = std::make_unique<Job>(static_cast<int>(rank));
  return Napi::Number::New(info.Env(), static_cast<double>(handle));
}

void close_group(const Napi::CallbackInfo& info) {
  OpenGroup* group = read_group(info, 0);
  if (group == nullptr) return;
  const int64_t handle = info[0].As<Napi::Number>().Int64Value();
  std::unique_ptr<OpenGroup> closed;
  {
    const std::lock_guard<std::mutex> lock(tables().mutex);
    tables().groups.erase(handle);
    for (auto& [job_handle, job] : tables().jobs) {
      const auto found = job->groups.find(handle);
      if (found == job->groups.end()) continue;
      closed = std::move(found->second);
      job->groups.erase(found);
    }
  }
  closed->group.reset();  // joins the group's threads; must run without the lock
  if (closed->on_close) closed->on_close();
}

// Closes the groups first and then leaves the board, so that other ranks do not report the end of this
// process as a failure.
void close_job(const Napi::CallbackInfo& info) {
  if (read_job(info, 0) == nullptr) return;
  std::unique_ptr<Job> job;
  {
    const std::lock_guard<std::mutex> lock(tables().mutex);
    const auto found = tables().jobs.find(info[0].As<Napi::Number>().Int64Value());
    job = std::move(found->second);
    tables().jobs.erase(found);
    for (const auto& [handle, group] : job->groups) tables().groups.erase(handle);
  }
  for (const auto& [handle, group] : job->groups) {
    group->group.reset();
    if (group->on_close) group->on_close();
  }
  if (job->board != nullptr && !job->state.is_aborted()) job->board->leave();
  job->watchdog.reset();
}

// (job, {code, message, rank})
void abort_job(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  Failure failure;
  int64_t rank;
  if (job == nullptr) return;
  Fields fields(info, 1);
  if (!fields.text("code", &failure.code) || !fields.text("message", &failure.message) ||
      !fields.integer("rank", &rank)) {
    return;
  }
  failure.rank = static_cast<int>(rank);
  job->state.abort(std::move(failure));
}

Napi::Value failure_of(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  if (job == nullptr || !job->state.is_aborted()) return info.Env().Undefined();
  const Status reason = job->state.reason();
  Napi::Object failure = Napi::Object::New(info.Env());
  failure.Set("message", reason.failure().message);
  set_failure(failure, reason.failure());
  return failure;
}

Napi::Value take_trace(const Napi::CallbackInfo& info) {
  Job* job = read_job(info, 0);
  if (job == nullptr) return {};
  Napi::Array entries = Napi::Array::New(info.Env());
  uint32_t index = 0;
  uint64_t num_dropped = 0;
  for (const TraceEntry& entry : job->trace.take(&num_dropped)) {
    Napi::Object object = Napi::Object::New(info.Env());
    const auto group = job->groups.find(entry.group);
    object.Set("group", group == job->groups.end() ? "" : group->second->group->identity().name);
    object.Set("operation", name_of(entry.kind));
    object.Set("peer", entry.peer);
    object.Set("sequence", static_cast<double>(entry.sequence));
    object.Set("bytes", static_cast<double>(entry.bytes));
    object.Set("postedNs", static_cast<double>(entry.posted_ns));
    object.Set("startedNs", static_cast<double>(entry.started_ns));
    object.Set("doneNs", static_cast<double>(entry.done_ns));
    object.Set("waitedFromNs", static_cast<double>(entry.waited_from_ns));
    object.Set("waitDoneNs", static_cast<double>(entry.wait_done_ns));
    entries.Set(index++, object);
  }
  entries.Set("numDropped", static_cast<double>(num_dropped));
  return entries;
}

void register_job_functions(Napi::Env env, Napi::Object exports) {
  exports.Set("createJob", Napi::Function::New(env, create_job));
  exports.Set("closeJob", Napi::Function::New(env, close_job));
  exports.Set("abortJob", Napi::Function::New(env, abort_job));
  exports.Set("failureOfJob", Napi::Function::New(env, failure_of));
  exports.Set("takeTrace", Napi::Function::New(env, take_trace));
  exports.Set("closeGroup", Napi::Function::New(env, close_group));
}

const Registration job_registration(register_job_functions);

}  // namespace

Job* read_job(const Napi::CallbackInfo& info, size_t index) { return entry_of<Job>(info, index, &Tables::jobs, "job"); }

OpenGroup* read_group(const Napi::CallbackInfo& info, size_t index) {
  return entry_of<OpenGroup>(info, index, &Tables::groups, "group");
}

Napi::Value add_group(const Napi::CallbackInfo& info, Job* job, GroupIdentity identity,
                      std::unique_ptr<Communicator> communicator, std::function<void()> on_close) {
  const std::lock_guard<std::mutex> lock(tables().mutex);
  const int64_t handle = tables().next_handle++;
  auto group = std::make_unique<OpenGroup>();
  group->group = std::make_unique<Group>(handle, std::move(identity), std::move(communicator), &job->state, &job->trace);
  group->on_close = std::move(on_close);
  tables().groups[handle] = group.get();
  job->groups[handle] = std::move(group);
  return Napi::Number::New(info.Env(), static_cast<double>(handle));
}

Napi::Value opened_group(const Napi::CallbackInfo& info, Job* job, GroupIdentity identity,
                         std::unique_ptr<Communicator> communicator) {
  Napi::Object opened = Napi::Object::New(info.Env());
  opened.Set("engine", communicator->engine());
  opened.Set("group", add_group(info, job, std::move(identity), std::move(communicator), nullptr));
  return opened;
}

}  // namespace mtl::comm::bindings

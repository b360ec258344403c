// The functions of a communicator's thread: it connects channels, launches deferred operations, and detects
// completion, errors and timeouts.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "engines/nccl/with_header/nccl_communicator.h"

namespace mtl::comm::nccl {
namespace {

constexpr auto kEager = std::chrono::milliseconds(1);     // polling interval while a launch is pending
constexpr auto kRelaxed = std::chrono::milliseconds(10);  // polling interval while operations are on the device
// How long starting an operation waits, at most, in nanoseconds, until NCCL has launched the operation. A
// non-blocking communicator launches from its own thread, which takes some ten microseconds, or longer while
// the channel is connecting.
constexpr int64_t kLaunching = 2 * kMillisecond;
constexpr int kLooks = 100;  // the minimum number of polls, for a machine that is busy with other work
// The maximum number of thread blocks of the device that a message between two GPUs may occupy; the remaining
// blocks are left to kernels that run at the same time. Prediction: eight blocks reach about 200 GB/s over
// NVLink 4.
constexpr int kMessageBlocks = 8;
constexpr int64_t kFirstLook = 2 * kMillisecond;
constexpr int64_t kLastLook = 64 * kMillisecond;

std::string to_store(const Description& description) {
  return format_text("%llu %llu %d %d %d %d", static_cast<unsigned long long>(description.sequence),
                     static_cast<unsigned long long>(description.count), static_cast<int>(description.kind),
                     static_cast<int>(description.dtype), static_cast<int>(description.reduction), description.root);
}

bool from_store(const std::string& text, Description* description) {
  unsigned long long sequence, count;
  int kind, dtype, reduction, root;
  if (std::sscanf(text.c_str(), "%llu %llu %d %d %d %d", &sequence, &count, &kind, &dtype, &reduction, &root) != 6) {
    return false;
  }
  *description = {sequence, count, static_cast<OperationKind>(kind), static_cast<DType>(dtype),
                  static_cast<Reduction>(reduction), root};
  return true;
}

std::string stuck_key(const Channel& channel, const Operation& operation, int member) {
  return "stuck/" + channel.name + "/" + std::to_string(operation.description.sequence) + "/" + std::to_string(member);
}

}  // namespace

void NcclCommunicator::serve() {
  const ContextScope scope(nccl_, context_);
  Lock lock(mutex_);
  while (!is_ending_) {
    const auto must_abort = [&] { return (must_stop_ || job_->is_aborted()) && !is_aborted_; };
    if (job_->is_aborted() && !is_aborted_) abort_job(&lock);
    if (must_abort()) abort_own(&lock);
    bool is_eager = false, is_busy = false;
    for (auto entry = channels_.begin(); entry != channels_.end() && !is_aborted_; ++entry) {
      is_eager |= tend(entry->second.get(), &lock);  // the iterator stays valid if this adds a channel
      is_busy |= !entry->second->is_idle() || entry->second->state != Channel::State::kReady;
    }
    if (is_ending_ || must_abort()) continue;
    if (is_eager && !is_aborted_) {
      changed_.wait_for(lock, kEager);
    } else if (is_busy && !is_aborted_) {
      changed_.wait_for(lock, kRelaxed);
    } else {
      is_idle_ = true;
      changed_.wait(lock);
      is_idle_ = false;
    }
  }
}

// Serves one channel. Returns true if an operation is waiting to be launched.
bool NcclCommunicator::tend(Channel* channel, Lock* lock) {
  if (channel->state == Channel::State::kNew) connect(channel, lock);
  if (channel->state == Channel::State::kConnecting || channel->state == Channel::State::kReady) poll_error(channel);
  if (channel->state == Channel::State::kReady) launch_waiting(channel);
  take_done(channel);
  // selects the operation that has waited longest
  const RecordPointer oldest = !channel->launched.empty()  ? channel->launched.front()
                               : !channel->waiting.empty() ? channel->waiting.front()
                                                           : nullptr;
  if (oldest != nullptr) watch_time(channel, oldest, lock);
  return !channel->waiting.empty();
}

// Shares the unique id through the store and starts to connect. No other thread uses a new channel yet, so
// the slow calls run without the lock.
void NcclCommunicator::connect(Channel* channel, Lock* lock) {
  if (now_ns() < channel->next_look_ns) return;
  const std::string id_key = key("id/" + channel->name);
  ncclUniqueId id;
  ncclResult_t result = ncclSuccess;
  Status status;
  bool is_there = true;
  lock->unlock();
  if (channel->rank == 0) {
    result = nccl_.ncclGetUniqueId(&id);
    if (result == ncclSuccess) status = options_.store.set(id_key, std::string(id.internal, sizeof(id.internal)));
  } else {
    std::string value;
    status = options_.store.find(id_key, &value, &is_there);
    if (status.ok() && is_there && value.size() != sizeof(id.internal)) {
      status = error_status("MTL_NCCL", "the store's %s is not a unique id", id_key.c_str());
    }
    if (status.ok() && is_there) std::memcpy(id.internal, value.data(), sizeof(id.internal));
  }
  ncclComm_t communicator = nullptr;
  if (status.ok() && is_there && result == ncclSuccess) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (!channel->is_collective()) config.maxCTAs = kMessageBlocks;
    result = nccl_.ncclCommInitRankConfig(&communicator, static_cast<int>(channel->members.size()), id, channel->rank,
                                          &config);
    if (result == ncclInProgress) result = ncclSuccess;
  }
  lock->lock();
  channel->communicator = communicator;
  if (!status.ok()) return fail(channel, status.failure().code.c_str(), -1, status.failure().message);
  if (result != ncclSuccess) return fail(channel, "MTL_NCCL", job_->rank(), "connecting: " + text_of(result, *channel));
  if (is_there) {
    channel->state = Channel::State::kConnecting;
  } else {
    channel->look_interval_ns = std::clamp(2 * channel->look_interval_ns, kFirstLook, kLastLook);
    channel->next_look_ns = now_ns() + channel->look_interval_ns;
  }
}

// Reads the state of the channel's communicator from NCCL: in progress, ready, or failed.
void NcclCommunicator::poll_error(Channel* channel) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t result = nccl_.ncclCommGetAsyncError(channel->communicator, &state);
  if (result != ncclSuccess) state = result;
  if (state == ncclInProgress) return;
  if (state != ncclSuccess) {
    if (channel->broken_since_ns == 0) channel->broken_since_ns = now_ns();
    const bool is_about_peers = state == ncclRemoteError || state == ncclSystemError;
    if (is_about_peers && now_ns() - channel->broken_since_ns < options_.naming_ns) return;
    return fail(channel, "MTL_NCCL", is_about_peers ? -1 : job_->rank(), text_of(state, *channel));
  }
  if (channel->state == Channel::State::kConnecting) channel->state = Channel::State::kReady;
  if (channel->waiting.empty() || channel->waiting.front()->stage != Record::Stage::kIssued) return;
  // NCCL puts an operation into the stream only when it launches the operation, so the operation's event must
  // not be recorded earlier
  const RecordPointer record = channel->waiting.front();
  const Status status = nccl_.check(nccl_.cuEventRecord(record->done, channel->stream), "cuEventRecord");
  if (!status.ok()) return fail(channel, "MTL_CUDA", job_->rank(), status.failure().message);
  channel->waiting.pop_front();
  channel->launched.push_back(record);
  record->stage = Record::Stage::kLaunched;
  if (channel->is_collective()) options_.process->order.leave(record->place);
  changed_.notify_all();
}

// Launches all operations that can be launched. Runs on the program's thread right after the start of an
// operation, or on the communicator's thread.
void NcclCommunicator::launch_waiting(Channel* channel) {
  while (channel->state == Channel::State::kReady && channel->broken_since_ns == 0 && !channel->waiting.empty()) {
    const RecordPointer first = channel->waiting.front();
    Record& record = *first;
    if (record.stage == Record::Stage::kIssued || is_aborted_ || job_->is_aborted()) return;
    if (channel->is_collective() && !options_.process->order.is_first(record.place)) return;
    const Status status =
        nccl_.check(nccl_.cuStreamWaitEvent(channel->stream, record.ready, CU_EVENT_WAIT_DEFAULT), "cuStreamWaitEvent");
    if (!status.ok()) return fail(channel, "MTL_CUDA", job_->rank(), status.failure().message);
    const ncclResult_t result = issue(nccl_, *channel, record.operation, barrier_word_);
    if (result != ncclSuccess && result != ncclInProgress) {
      return fail(channel, "MTL_NCCL", job_->rank(), text_of(result, *channel));
    }
    record.stage = Record::Stage::kIssued;
    if (!record.is_executed) keep_memory(&record, true);
    await_launch(channel, record);
  }
}

// Waits briefly until the operation is launched. Without this wait, it and all later operations would wait
// for the next poll of the communicator's thread.
void NcclCommunicator::await_launch(Channel* channel, const Record& record) {
  const int64_t deadline = now_ns() + kLaunching;
  for (int num_looks = 0; num_looks < kLooks || now_ns() < deadline; ++num_looks) {
    poll_error(channel);
    if (record.stage != Record::Stage::kIssued || channel->broken_since_ns != 0) return;
    std::this_thread::yield();
  }
}

void NcclCommunicator::take_done(Channel* channel) {
  bool is_changed = false;
  while (!channel->launched.empty()) {
    Record& record = *channel->launched.front();
    const CUresult result = nccl_.cuEventQuery(record.done);
    if (result == CUDA_ERROR_NOT_READY) break;
    if (result != CUDA_SUCCESS) {
      return fail(channel, "MTL_CUDA", job_->rank(), nccl_.check(result, "cuEventQuery").failure().message);
    }
    record.stage = Record::Stage::kDone;
    keep_memory(&record, false);
    // an operation still needs its event if the program has not yet waited for the operation
    if (record.is_executed) give_back_events(&record);
    channel->launched.pop_front();
    is_changed = true;
  }
  if (is_changed) changed_.notify_all();
}

// Watches the timeout of an operation. After half of the timeout, the operation's description is written to
// the store, so that members that reach their timeout can report which members arrived, and with which
// operation. If the operation succeeds before this time, nothing is written.
void NcclCommunicator::watch_time(Channel* channel, const RecordPointer& record, Lock* lock) {
  const int64_t waited = now_ns() - record->call.started_ns;
  if (waited < group_.timeout_ns / 2 || !record->failure.ok()) return;
  if (!record->is_published) {
    record->is_published = true;
    const std::string at = key(stuck_key(*channel, record->operation, group_.rank));
    const std::string text = to_store(record->operation.description);
    lock->unlock();
    // an error is ignored, because its only effect is that the error message does not contain the members'
    // names
    static_cast<void>(options_.store.set(at, text));
    lock->lock();
  }
  if (waited >= group_.timeout_ns && record->stage != Record::Stage::kDone) time_out(channel, record, lock);
}

void NcclCommunicator::time_out(Channel* channel, const RecordPointer& record, Lock* lock) {
  std::vector<int> late, left;
  int other = -1;
  Description theirs;
  std::string silent_store;
  lock->unlock();
  for (const int member : channel->members) {
    if (member == group_.rank) continue;
    std::string value;
    bool is_there = false;
    Status status = options_.store.find(key(stuck_key(*channel, record->operation, member)), &value, &is_there);
    Description found;
    if (status.ok() && is_there && from_store(value, &found)) {
      if (other < 0 && !(found == record->operation.description)) {
        other = member;
        theirs = found;
      }
      continue;
    }
    late.push_back(member);
    if (status.ok()) status = options_.store.find(key("left/" + std::to_string(member)), &value, &is_there);
    if (status.ok() && is_there) left.push_back(member);
    if (!status.ok()) silent_store = status.failure().message;
  }
  lock->lock();
  if (job_->is_aborted() || record->stage == Record::Stage::kDone) return;
  const Call& call = record->call;
  const double seconds = static_cast<double>(group_.timeout_ns) / 1e9;
  if (!silent_store.empty()) {
    fail(record.get(), call.fail("MTL_TIMEOUT", -1, format_text("not done within %g s; who is late is not known: ",
                                                                seconds) + silent_store));
  } else if (other >= 0) {
    fail(record.get(), call.mismatch(other, theirs));
  } else if (!left.empty()) {
    fail(record.get(), call.left(left.front()));
  } else if (!late.empty()) {
    fail(record.get(), call.timed_out(late));
  } else {
    fail(record.get(), call.fail("MTL_TIMEOUT", -1, format_text("all members started it, but NCCL did not end it within "
                                                                "%g s", seconds)));
  }
}

// Aborts NCCL for this group only, because the program cancelled an operation that NCCL has already received.
// The group's kernels end, and the streams continue. The calls may be slow, so they are made without the
// lock.
void NcclCommunicator::abort_own(Lock* lock) {
  std::vector<ncclComm_t> communicators;
  lock->unlock();
  if (give_up(&communicators)) {
    abort_together(nccl_, communicators);
    aborted();
  }
  lock->lock();
}

// Aborts NCCL for all groups of this process. The first group that sees the job's failure calls this
// function.
void NcclCommunicator::abort_job(Lock* lock) {
  lock->unlock();
  options_.process->abort_all(
      [&](const std::vector<ncclComm_t>& communicators) { abort_together(nccl_, communicators); });
  lock->lock();
}

bool NcclCommunicator::give_up(std::vector<ncclComm_t>* communicators) {
  const Lock lock(mutex_);
  if (is_aborting_) return false;
  is_aborting_ = true;
  for (const auto& entry : channels_) {
    Channel& channel = *entry.second;
    channel.state = Channel::State::kGone;
    if (channel.communicator != nullptr) communicators->push_back(channel.communicator);
    channel.communicator = nullptr;
    for (const RecordPointer& record : channel.waiting) {
      if (channel.is_collective()) options_.process->order.leave(record->place);
    }
  }
  return true;
}

void NcclCommunicator::aborted() {
  const Lock lock(mutex_);
  is_aborted_ = true;
  changed_.notify_all();
}

// Handles the failure of a whole channel. The operation that has waited longest reports the failure.
void NcclCommunicator::fail(Channel* channel, const char* code, int rank, const std::string& what) {
  if (job_->is_aborted()) return;
  auto* records = !channel->launched.empty() ? &channel->launched : &channel->waiting;
  if (!records->empty()) {
    Record* record = records->front().get();
    return fail(record, record->call.fail(code, rank, what));
  }
  Failure failure;
  failure.code = code;
  failure.rank = rank;
  failure.group = group_.name;
  failure.message = format_text("group %s, connecting (%s), rank %d: ", group_.name.c_str(), channel->name.c_str(),
                                job_->rank()) + what;
  job_->abort(std::move(failure));
  changed_.notify_all();
}

void NcclCommunicator::fail(Record* record, Status failure) {
  record->failure = std::move(failure);
  changed_.notify_all();
}

std::string NcclCommunicator::text_of(ncclResult_t result, const Channel& channel) const {
  const char* last = nccl_.ncclGetLastError(channel.communicator);
  return std::string("NCCL: ") + nccl_.ncclGetErrorString(result) + (last == nullptr || *last == '\0' ? "" : ": ") +
         (last == nullptr ? "" : last);
}

}  // namespace mtl::comm::nccl

#include "engines/nccl/with_header/nccl_communicator.h"

#include <algorithm>
#include <chrono>

namespace mtl::comm::nccl {
namespace {

constexpr int64_t kLastWords = 2000 * kMillisecond;     // how long NCCL may take to close or to abort
constexpr int64_t kSpinning = kMillisecond / 10;        // how long a barrier spins; it takes less on idle devices

CUstream as_stream(void* stream) { return static_cast<CUstream>(stream); }

}  // namespace

Status connect_nccl(std::shared_ptr<const NcclLibraries> libraries, const GroupIdentity& group,
                    const NcclOptions& options, JobState* job, std::unique_ptr<Communicator>* communicator) {
  std::unique_ptr<NcclCommunicator> opened(new NcclCommunicator(std::move(libraries), group, options, job));
  MTL_RETURN_IF_ERROR(opened->open());
  *communicator = std::move(opened);
  return ok_status();
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<const NcclLibraries> libraries, const GroupIdentity& group,
                                   const NcclOptions& options, JobState* job)
    : libraries_(std::move(libraries)), nccl_(*libraries_), group_(group), options_(options), job_(job) {}

Status NcclCommunicator::open() {
  MTL_RETURN_IF_ERROR(nccl_.check(nccl_.cuDeviceGet(&device_, options_.device), "cuDeviceGet"));
  MTL_RETURN_IF_ERROR(nccl_.check(nccl_.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain"));
  const ContextScope scope(nccl_, context_);
  int lowest = 0;
  MTL_RETURN_IF_ERROR(
      nccl_.check(nccl_.cuCtxGetStreamPriorityRange(&lowest, &priority_), "cuCtxGetStreamPriorityRange"));
  MTL_RETURN_IF_ERROR(nccl_.check(nccl_.cuMemAlloc(&barrier_word_, sizeof(int32_t)), "cuMemAlloc"));
  Channel* collectives;
  MTL_RETURN_IF_ERROR(add_channel("collectives", group_.members(), &collectives));
  MTL_RETURN_IF_ERROR(nccl_.check(nccl_.cuMemsetD8Async(barrier_word_, 0, sizeof(int32_t), collectives->stream),
                                  "cuMemsetD8Async"));
  options_.process->enter(this);
  thread_ = std::thread(&NcclCommunicator::serve, this);
  return ok_status();
}

NcclCommunicator::~NcclCommunicator() {
  {
    Lock lock(mutex_);
    // the communicator's thread is still running, so this wait ends no later than the timeout
    changed_.wait(lock, [&] {
      if (!thread_.joinable() || is_aborted_) return true;
      for (const auto& entry : channels_) {
        for (const RecordPointer& record : entry.second->launched) {
          if (record->is_joined) return false;
        }
      }
      return true;
    });
    is_ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
  if (context_ == nullptr) return;
  {
    const ContextScope scope(nccl_, context_);
    if (job_->is_aborted()) {
      Lock lock(mutex_);
      abort_job(&lock);
    }
    options_.process->leave(this);
    close_channels();
    for (const CUevent event : events_) nccl_.cuEventDestroy(event);
    if (barrier_word_ != 0) nccl_.cuMemFree(barrier_word_);
  }
  nccl_.cuDevicePrimaryCtxRelease(device_);
}

// Destroys idle channels and aborts the other channels, so that members that still wait for this member learn
// that it has left. The aborts come first, because destroying a communicator may wait for kernels of other
// communicators.
void NcclCommunicator::close_channels() {
  std::vector<ncclComm_t> idle, unfinished;
  for (const auto& entry : channels_) {
    Channel& channel = *entry.second;
    take_done(&channel);
    const bool is_idle = channel.state == Channel::State::kReady && channel.is_idle() && !job_->is_aborted();
    if (channel.communicator != nullptr) (is_idle ? idle : unfinished).push_back(channel.communicator);
    for (auto* records : {&channel.waiting, &channel.launched}) {
      for (const RecordPointer& record : *records) {
        if (channel.is_collective()) options_.process->order.leave(record->place);
        keep_memory(record.get(), false);
        give_back_events(record.get());
      }
    }
  }
  abort_together(nccl_, unfinished);
  std::vector<ncclComm_t> refused;
  for (const ncclComm_t communicator : idle) {
    ncclResult_t result = nccl_.ncclCommFinalize(communicator);
    const int64_t deadline = now_ns() + kLastWords;
    while (result == ncclInProgress && now_ns() < deadline && !job_->is_aborted()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (nccl_.ncclCommGetAsyncError(communicator, &result) != ncclSuccess) result = ncclInternalError;
    }
    if (result == ncclSuccess) {
      nccl_.ncclCommDestroy(communicator);
    } else {
      refused.push_back(communicator);
    }
  }
  abort_together(nccl_, refused);
  for (const auto& entry : channels_) nccl_.cuStreamDestroy(entry.second->stream);
}

Status NcclCommunicator::add_channel(std::string name, std::vector<int> members, Channel** channel) {
  std::unique_ptr<Channel> added(new Channel);
  added->name = std::move(name);
  added->members = std::move(members);
  while (added->members[static_cast<size_t>(added->rank)] != group_.rank) ++added->rank;
  // the stream has high priority, because only an early start shortens the wait for communication
  MTL_RETURN_IF_ERROR(nccl_.check(
      nccl_.cuStreamCreateWithPriority(&added->stream, CU_STREAM_NON_BLOCKING, priority_),
      "cuStreamCreateWithPriority"));
  *channel = added.get();
  channels_[added->name] = std::move(added);
  return ok_status();
}

// Returns the operation's channel; null if the channel's stream cannot be created.
Channel* NcclCommunicator::channel_of(const Operation& operation) {
  if (!is_message(operation.kind)) return channels_["collectives"].get();
  const bool is_send = operation.kind == OperationKind::kSend;
  const int from = is_send ? group_.rank : operation.peer;
  const int to = is_send ? operation.peer : group_.rank;
  const std::string name = std::to_string(from) + ">" + std::to_string(to);
  const auto found = channels_.find(name);
  if (found != channels_.end()) return found->second.get();
  Channel* channel = nullptr;
  return add_channel(name, {from, to}, &channel).ok() ? channel : nullptr;
}

Status NcclCommunicator::new_event(CUevent* event) {
  if (!events_.empty()) {
    *event = events_.back();
    events_.pop_back();
    return ok_status();
  }
  return nccl_.check(nccl_.cuEventCreate(event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
}

void NcclCommunicator::give_back_events(Record* record) {
  for (CUevent* event : {&record->ready, &record->done}) {
    if (*event != nullptr) events_.push_back(*event);
    *event = nullptr;
  }
}

Begun NcclCommunicator::begin(Operation* operation, Call* call) {
  const ContextScope scope(nccl_, context_);
  const Lock lock(mutex_);
  const RecordPointer record = std::make_shared<Record>();
  record->operation = *operation;
  record->call = *call;
  record->call.group = &group_;
  record->call.operation = &record->operation;
  operation->progress = next_record_++;
  records_[operation->progress] = record;
  call->sent_bytes += bytes_on_wire(*operation, group_.size(), group_.rank);
  const Status status = call->check().ok() ? start(record) : ok_status();
  if (!status.ok()) fail(record.get(), record->call.fail("MTL_CUDA", job_->rank(), status.failure().message));
  if (is_idle_) changed_.notify_all();
  return Begun::kHandedOver;
}

// Records the compute stream's position in an event, and launches the operation if possible.
Status NcclCommunicator::start(const RecordPointer& record) {
  Channel* channel = channel_of(record->operation);
  if (channel == nullptr) return error_status("MTL_CUDA", "no stream could be made");
  MTL_RETURN_IF_ERROR(new_event(&record->ready));
  MTL_RETURN_IF_ERROR(new_event(&record->done));
  MTL_RETURN_IF_ERROR(
      nccl_.check(nccl_.cuEventRecord(record->ready, as_stream(options_.compute_stream)), "cuEventRecord"));
  if (channel->is_collective()) record->place = options_.process->order.enter();
  channel->waiting.push_back(record);
  launch_waiting(channel);
  return ok_status();
}

Status NcclCommunicator::execute(Operation* operation, Call* call) {
  const ContextScope scope(nccl_, context_);
  Lock lock(mutex_);
  const auto found = records_.find(operation->progress);
  if (found == records_.end()) return call->fail("MTL_NCCL", job_->rank(), "the operation was never begun");
  const RecordPointer record = found->second;
  records_.erase(found);
  Status status = wait_until_launched(record, &lock);
  if (record->stage == Record::Stage::kLaunched) {
    // the wait is enqueued even after a failure, because later work on the compute stream that uses this
    // memory must run after the communication
    const Status joined = nccl_.check(
        nccl_.cuStreamWaitEvent(as_stream(options_.compute_stream), record->done, CU_EVENT_WAIT_DEFAULT),
        "cuStreamWaitEvent");
    if (status.ok() && !joined.ok()) status = record->call.fail("MTL_CUDA", job_->rank(), joined.failure().message);
  }
  keep_memory(record.get(), false);
  if (status.ok() && operation->kind == OperationKind::kBarrier) status = wait_on_host(record, &lock);
  record->is_executed = true;
  record->is_joined = status.ok();
  if (record->stage == Record::Stage::kDone) give_back_events(record.get());
  if (record->stage == Record::Stage::kWaiting) forget(record);
  return status;
}

// Tells the allocator not to return memory to the device. Returning memory would wait for the device, which
// may be blocked in an operation forever.
void NcclCommunicator::keep_memory(Record* record, bool must_keep) {
  if (record->keeps_memory == must_keep || options_.keep_memory == nullptr) return;
  record->keeps_memory = must_keep;
  options_.keep_memory(must_keep ? 1 : -1);
}

// Removes an operation that was cancelled before NCCL received it. The operation must not be launched later,
// since its memory may have been reused.
void NcclCommunicator::forget(const RecordPointer& record) {
  for (const auto& entry : channels_) {
    std::deque<RecordPointer>& waiting = entry.second->waiting;
    const auto found = std::find(waiting.begin(), waiting.end(), record);
    if (found == waiting.end()) continue;
    waiting.erase(found);
    if (entry.second->is_collective()) options_.process->order.leave(record->place);
  }
  give_back_events(record.get());
}

// Waits until the operation has been launched, or cannot be launched any more.
Status NcclCommunicator::wait_until_launched(const RecordPointer& record, Lock* lock) {
  const int64_t last_words = record->call.deadline_ns() + kLastWords;
  while (record->failure.ok() && record->stage != Record::Stage::kLaunched && record->stage != Record::Stage::kDone) {
    const Status status = record->call.check();
    if (!status.ok()) {
      // NCCL may be about to launch the operation, so its memory must not be released before NCCL has been
      // aborted
      const auto stopped = [&] { return is_aborted_ || record->stage != Record::Stage::kIssued; };
      must_stop_ = !stopped();
      changed_.notify_all();
      changed_.wait_for(*lock, std::chrono::nanoseconds(kLastWords), stopped);
      return record->failure.ok() ? status : record->failure;
    }
    if (now_ns() > last_words) {
      return record->call.fail("MTL_TIMEOUT", -1, "a call of NCCL does not return, so nothing more can be learned");
    }
    changed_.wait_for(*lock, std::chrono::milliseconds(20));
  }
  if (!record->failure.ok()) return record->failure;
  return record->call.check();
}

// Waits until the device has completed the operation.
Status NcclCommunicator::wait_on_host(const RecordPointer& record, Lock* lock) {
  const int64_t started = now_ns();
  while (true) {
    const bool is_done = record->stage == Record::Stage::kDone;
    const CUresult result = is_done ? CUDA_SUCCESS : nccl_.cuEventQuery(record->done);
    // The failure is checked after the event, because an abort of NCCL also completes the event; the failure
    // is stored before the abort.
    if (!record->failure.ok()) return record->failure;
    MTL_RETURN_IF_ERROR(record->call.check());
    if (result == CUDA_SUCCESS) return ok_status();
    if (result != CUDA_ERROR_NOT_READY) {
      return record->call.fail("MTL_CUDA", job_->rank(), nccl_.check(result, "cuEventQuery").failure().message);
    }
    lock->unlock();
    if (now_ns() - started > kSpinning) std::this_thread::sleep_for(std::chrono::microseconds(50));
    lock->lock();
  }
}

bool NcclCommunicator::is_ready(const Operation& operation) {
  const Lock lock(mutex_);
  const auto found = records_.find(operation.progress);
  if (found == records_.end()) return false;
  const Record& record = *found->second;
  if (!record.failure.ok() || record.stage == Record::Stage::kDone) return true;
  if (record.stage != Record::Stage::kLaunched) return false;
  const ContextScope scope(nccl_, context_);
  return nccl_.cuEventQuery(record.done) == CUDA_SUCCESS;
}

void NcclCommunicator::leave() {
  // an error is ignored, because its only effect is that other members see the failure without the reason
  static_cast<void>(options_.store.set(key("left/" + std::to_string(group_.rank)), "1"));
  const Lock lock(mutex_);
  changed_.notify_all();
}

}  // namespace mtl::comm::nccl

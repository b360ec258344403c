#include "engines/staged/staged_communicator.h"

#include <algorithm>
#include <chrono>
#include <thread>

namespace mtl::comm::staged {
namespace {

constexpr int64_t kSpinning = kMillisecond / 10;       // how long to spin for a copy, which takes less on an idle stream
constexpr int64_t kLastCopies = 10000 * kMillisecond;  // a device that takes longer for its copies has failed
constexpr auto kLook = std::chrono::microseconds(50);

bool is_in_place(OperationKind kind) {
  return kind == OperationKind::kAllReduce || kind == OperationKind::kBroadcast;
}

}  // namespace

StagedCommunicator::StagedCommunicator(std::unique_ptr<Communicator> host, const MtlDeviceApi* device)
    : host_(std::move(host)), device_(*device), name_(std::string("staged+") + host_->engine()) {}

StagedCommunicator::~StagedCommunicator() {
  for (const auto& entry : transfers_) retire(entry.second);  // operations that were begun but not executed, because the group was closed
  const int64_t deadline = now_ns() + kLastCopies;
  while (!retired_.empty() && now_ns() < deadline) {
    give_back_retired();
    if (!retired_.empty()) std::this_thread::sleep_for(kLook);
  }
  for (void* event : events_) device_.destroy_event(event);
}

bool StagedCommunicator::new_event(void** event) {
  if (events_.empty()) return device_.create_event(event) == 0;
  *event = events_.back();
  events_.pop_back();
  return true;
}

Begun StagedCommunicator::begin(Operation* operation, Call* call) {
  if (operation->memory == Memory::kHost) return Begun::kUnfinished;
  const std::lock_guard<std::mutex> lock(mutex_);
  give_back_retired();
  operation->progress = next_transfer_++;
  Transfer& transfer = transfers_[operation->progress];
  const bool is_broadcast = operation->kind == OperationKind::kBroadcast;
  const bool is_root = is_broadcast && operation->description.root == call->group->rank;
  transfer.goes_out = operation->kind != OperationKind::kReceive && (!is_broadcast || is_root);
  transfer.comes_back = operation->kind != OperationKind::kSend && !is_root;
  if (!prepare(*operation, &transfer)) transfer.problem = device_.last_error();
  return Begun::kUnfinished;
}

// Allocates pinned memory, and enqueues the copy of the input into it after the earlier work of the compute
// stream.
bool StagedCommunicator::prepare(const Operation& operation, Transfer* transfer) {
  if (!new_event(&transfer->started) || !new_event(&transfer->copied)) return false;
  if (device_.record_event(transfer->started, device_.stream(MTL_STREAM_COMPUTE)) != 0) return false;
  const bool has_input = transfer->goes_out || is_in_place(operation.kind);
  if (has_input && device_.allocate_pinned(operation.input_bytes, &transfer->input) != 0) return false;
  if (is_in_place(operation.kind)) {
    transfer->output = transfer->input;
  } else if (transfer->comes_back && device_.allocate_pinned(operation.output_bytes, &transfer->output) != 0) {
    return false;
  }
  if (!transfer->goes_out) return true;
  void* const stream = device_.stream(MTL_STREAM_COMMUNICATION);
  return device_.wait_event(stream, transfer->started) == 0 &&
         device_.copy_async(transfer->input, operation.input, operation.input_bytes, stream) == 0 &&
         device_.record_event(transfer->copied, stream) == 0;
}

StagedCommunicator::Transfer StagedCommunicator::take(uint64_t number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = transfers_.find(number);
  const Transfer transfer = found->second;
  transfers_.erase(found);
  return transfer;
}

Status StagedCommunicator::execute(Operation* operation, Call* call) {
  // the host engine begins only after this check, because a member that has failed must not count among the
  // members that arrived
  Status status = call->check();
  if (operation->memory == Memory::kHost) return status.ok() ? host_->execute(operation, call) : status;
  if (operation->progress == 0) begin(operation, call);
  const Transfer transfer = take(operation->progress);
  if (status.ok() && !transfer.problem.empty()) status = call->fail("MTL_CUDA", call->job->rank(), transfer.problem);
  if (status.ok()) status = wait_for_input(transfer, call);
  if (status.ok()) {
    Operation on_host = *operation;
    on_host.memory = Memory::kHost;
    on_host.progress = 0;
    on_host.input = transfer.input;
    on_host.output = transfer.output;
    status = host_->execute(&on_host, call);
  }
  if (status.ok() && transfer.comes_back && !bring_back(*operation, transfer)) {
    status = call->fail("MTL_CUDA", call->job->rank(), device_.last_error());
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  retire(transfer);
  return status;
}

// Waits until the input is in pinned memory. The timeout counts from then on, so it measures the other
// members and not this member's kernels.
Status StagedCommunicator::wait_for_input(const Transfer& transfer, Call* call) {
  if (!transfer.goes_out) return ok_status();
  const int64_t from = now_ns();
  while (true) {
    const int result = device_.query_event(transfer.copied);
    if (result < 0) return call->fail("MTL_CUDA", call->job->rank(), device_.last_error());
    if (result == 1) break;
    MTL_RETURN_IF_ERROR(call->check());
    const int64_t now = now_ns();
    if (now > from + call->group->timeout_ns) {
      return call->fail("MTL_TIMEOUT", call->job->rank(), "the device has not come to the operation within " +
                                                              format_text("%g s", 1e-9 * static_cast<double>(now - from)));
    }
    if (now - from > kSpinning) std::this_thread::sleep_for(kLook);
  }
  call->started_ns = now_ns();
  return ok_status();
}

// Copies the result to the device, after all earlier kernels that use the result's memory. The compute stream
// waits for the copy, so all later work sees the result, and memory that is released from now on is not
// reused too early.
bool StagedCommunicator::bring_back(const Operation& operation, const Transfer& transfer) {
  void* const stream = device_.stream(MTL_STREAM_COPY);
  return device_.wait_event(stream, transfer.started) == 0 &&
         device_.copy_async(operation.output, transfer.output, operation.output_bytes, stream) == 0 &&
         device_.record_event(transfer.copied, stream) == 0 &&
         device_.wait_event(device_.stream(MTL_STREAM_COMPUTE), transfer.copied) == 0;
}

void StagedCommunicator::retire(const Transfer& transfer) {
  if (transfer.copied == nullptr || device_.query_event(transfer.copied) != 0) return give_back(transfer);
  retired_.push_back(transfer);
}

void StagedCommunicator::give_back_retired() {
  std::vector<Transfer> under_way;
  for (const Transfer& transfer : retired_) {
    if (device_.query_event(transfer.copied) == 0) {
      under_way.push_back(transfer);
    } else {
      give_back(transfer);
    }
  }
  retired_ = std::move(under_way);
}

void StagedCommunicator::give_back(const Transfer& transfer) {
  if (transfer.input != nullptr) device_.release_pinned(transfer.input);
  if (transfer.output != nullptr && transfer.output != transfer.input) device_.release_pinned(transfer.output);
  for (void* event : {transfer.started, transfer.copied}) {
    if (event != nullptr) events_.push_back(event);
  }
}

}  // namespace mtl::comm::staged

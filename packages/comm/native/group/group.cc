#include "group/group.h"

namespace mtl::comm {

Group::Group(int64_t handle, GroupIdentity identity, std::unique_ptr<Communicator> communicator, JobState* job,
             Trace* trace)
    : handle_(handle),
      identity_(std::move(identity)),
      communicator_(std::move(communicator)),
      job_(job),
      trace_(trace),
      collectives_(new Lane(communicator_.get())) {}

Group::~Group() {
  closing_ = true;
  communicator_->leave();
  collectives_.reset();
  sends_.clear();
  receives_.clear();
}

Group::Work Group::start(OperationRequest request) {
  Work work;
  work.group_ = this;
  work.lane_ = lane_of(request);
  work.task_ = std::make_shared<Task>();
  Task& task = *work.task_;
  Operation& operation = task.operation;
  operation.kind = request.kind;
  operation.description.kind = request.kind == OperationKind::kReceive ? OperationKind::kSend : request.kind;
  operation.description.dtype = request.dtype;
  operation.description.reduction = request.reduction;
  operation.description.root = request.kind == OperationKind::kBroadcast ? request.peer : -1;
  const size_t described = request.kind == OperationKind::kReceive ? request.output_bytes : request.input_bytes;
  operation.description.count = request.parts != nullptr ? kUnequalParts : described / size_of(request.dtype);
  operation.description.sequence = next_sequence(request);
  operation.memory = request.memory;
  operation.peer = request.peer;
  operation.input = request.input;
  operation.output = request.output;
  operation.input_bytes = request.input_bytes;
  operation.output_bytes = request.output_bytes;
  operation.parts = std::move(request.parts);
  Counters& counters = counters_[static_cast<size_t>(request.kind)];
  task.release = [&counters, &task, release = std::move(request.release)] {
    counters.sent_bytes += task.call.sent_bytes;
    if (release) release();
  };
  task.call.group = &identity_;
  task.call.job = job_;
  task.call.closing = &closing_;
  task.call.operation = &operation;
  task.posted_ns = now_ns();
  counters.calls += 1;
  work.lane_->post(work.task_);
  return work;
}

Status Group::Work::wait() {
  const int64_t from = now_ns();
  Status status = lane_->wait(task_);
  if (is_counted_) return status;
  is_counted_ = true;
  const int64_t to = now_ns();
  const Operation& operation = task_->operation;
  group_->counters_[static_cast<size_t>(operation.kind)].waited_ns += to - from;
  TraceEntry entry;
  entry.group = group_->handle_;
  entry.kind = operation.kind;
  entry.peer = operation.peer;
  entry.sequence = operation.description.sequence;
  entry.bytes = operation.kind == OperationKind::kReceive ? operation.output_bytes : operation.input_bytes;
  entry.posted_ns = task_->posted_ns;
  entry.started_ns = task_->call.started_ns;
  entry.done_ns = task_->done_ns;
  entry.waited_from_ns = from;
  entry.wait_done_ns = to;
  group_->trace_->add(entry);
  return status;
}

OperationCount Group::count_of(OperationKind kind) const {
  const Counters& counters = counters_[static_cast<size_t>(kind)];
  return {counters.calls, counters.sent_bytes, counters.waited_ns};
}

Lane* Group::lane_of(const OperationRequest& request) {
  if (!is_message(request.kind)) return collectives_.get();
  auto& lanes = request.kind == OperationKind::kSend ? sends_ : receives_;
  std::unique_ptr<Lane>& lane = lanes[request.peer];
  if (lane == nullptr) lane.reset(new Lane(communicator_.get()));
  return lane.get();
}

uint64_t Group::next_sequence(const OperationRequest& request) {
  if (request.kind == OperationKind::kSend) return num_sends_[request.peer]++;
  if (request.kind == OperationKind::kReceive) return num_receives_[request.peer]++;
  return num_collectives_++;
}

}  // namespace mtl::comm

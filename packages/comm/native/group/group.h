// A process group as one of its members sees it: queues over a communicator, sequence numbers, counters and a
// trace.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>

#include "group/lane.h"
#include "group/trace.h"

namespace mtl::comm {

struct OperationCount {
  uint64_t calls = 0;
  uint64_t sent_bytes = 0;
  int64_t waited_ns = 0;
};

// A request for an operation. The memory must stay valid until `release` is called.
struct OperationRequest {
  OperationKind kind = OperationKind::kBarrier;
  DType dtype = DType::kFloat32;
  Reduction reduction = Reduction::kSum;
  Memory memory = Memory::kHost;
  int peer = -1;  // position in the group: the root of a broadcast, or the peer of a message
  void* input = nullptr;
  size_t input_bytes = 0;
  void* output = nullptr;
  size_t output_bytes = 0;
  std::shared_ptr<const Parts> parts;  // of an all-to-all; null: equal parts
  std::function<void()> release;
};

class Group {
 public:
  // An operation in progress. `wait` may be called any number of times.
  class Work {
   public:
    Status wait();
    bool is_done() { return lane_->is_done(*task_); }

   private:
    friend class Group;
    Group* group_ = nullptr;
    Lane* lane_ = nullptr;
    std::shared_ptr<Task> task_;
    bool is_counted_ = false;
  };

  // `job` and `trace` must outlive the group.
  Group(int64_t handle, GroupIdentity identity, std::unique_ptr<Communicator> communicator, JobState* job, Trace* trace);
  // Leaves the group: incomplete operations fail with MTL_CLOSED, and members that wait for this member are
  // notified.
  ~Group();

  const GroupIdentity& identity() const { return identity_; }
  const char* engine() const { return communicator_->engine(); }
  bool moves(Memory memory) const { return communicator_->moves(memory); }

  // Starts an operation whose shapes and ranks have been checked. If the job has failed, the `wait` of the
  // result returns the failure.
  Work start(OperationRequest request);
  OperationCount count_of(OperationKind kind) const;

 private:
  struct Counters {
    std::atomic<uint64_t> calls{0};
    std::atomic<uint64_t> sent_bytes{0};
    std::atomic<int64_t> waited_ns{0};
  };

  Lane* lane_of(const OperationRequest& request);
  uint64_t next_sequence(const OperationRequest& request);

  const int64_t handle_;
  const GroupIdentity identity_;
  const std::unique_ptr<Communicator> communicator_;
  JobState* const job_;
  Trace* const trace_;
  std::atomic<bool> closing_{false};
  std::array<Counters, kNumOperationKinds> counters_;
  // one lane for collectives, one per member for sends, and one per member for receives; only the program's
  // thread uses these fields
  std::unique_ptr<Lane> collectives_;
  std::map<int, std::unique_ptr<Lane>> sends_, receives_;
  uint64_t num_collectives_ = 0;
  std::map<int, uint64_t> num_sends_, num_receives_;
};

}  // namespace mtl::comm

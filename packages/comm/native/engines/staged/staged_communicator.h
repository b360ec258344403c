// The engine for GPUs if NCCL does not support the ranks, for example because several ranks share a GPU.
// Tensors are copied through pinned host memory and communicated by a host engine (`local` or `gloo`), which
// also computes the sums. Host tensors are passed directly to the host engine.
//
// An operation on device memory:
//   begin    (on the program's thread, never blocks) records the compute stream's position in an event; the
//            communication stream waits for this event and copies the input to pinned memory
//   execute  (on the queue's own thread, or on the thread that waits) waits on the host for that copy, runs
//            the operation on the host engine, enqueues the copy of the result on the copy stream, and makes
//            the compute stream wait for the result; blocks while the program records a graph of the compute
//            stream (see mtl/device_api.h)
//
// Copies to the device have their own stream. On the stream of copies to the host, which wait for kernels, a
// result that is already available would be delayed.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "group/communicator.h"
#include "mtl/device_api.h"

namespace mtl::comm::staged {

class StagedCommunicator : public Communicator {
 public:
  // `device` outlives the communicator.
  StagedCommunicator(std::unique_ptr<Communicator> host, const MtlDeviceApi* device);
  // Waits for copies in progress, because their memory is released afterwards.
  ~StagedCommunicator() override;

  // Returns "staged+" followed by the host engine's name.
  const char* engine() const override { return name_.c_str(); }
  bool moves(Memory) const override { return true; }
  bool begins_at_once() const override { return true; }
  Begun begin(Operation* operation, Call* call) override;
  Status execute(Operation* operation, Call* call) override;
  void leave() override { host_->leave(); }

 private:
  // The device resources of one operation. They are needed until the operation's last copy is complete.
  struct Transfer {
    bool goes_out = false;    // the input is copied to the host
    bool comes_back = false;  // the result is copied to the device
    void* input = nullptr;    // pinned
    void* output = nullptr;   // pinned, may be `input`
    void* started = nullptr;  // event: the compute stream's position when the program started the operation
    void* copied = nullptr;   // event: first that the input is on the host, later that the result is on the device
    std::string problem;      // the error of `begin`, which cannot return one
  };

  bool prepare(const Operation& operation, Transfer* transfer);
  Status wait_for_input(const Transfer& transfer, Call* call);
  bool bring_back(const Operation& operation, const Transfer& transfer);
  Transfer take(uint64_t number);
  // Releases a transfer's resources, now or when its last enqueued copy is complete.
  void retire(const Transfer& transfer);
  // Releases the retired transfers whose last copy is complete.
  void give_back_retired();
  void give_back(const Transfer& transfer);
  bool new_event(void** event);

  const std::unique_ptr<Communicator> host_;
  const MtlDeviceApi& device_;
  const std::string name_;

  std::mutex mutex_;  // needed because the queues of messages and of collectives run on several threads
  std::map<uint64_t, Transfer> transfers_;  // by Operation::progress
  std::vector<Transfer> retired_;           // transfers whose event `copied` has been recorded after their last copy
  std::vector<void*> events_;               // free events, for reuse
  uint64_t next_transfer_ = 1;
};

}  // namespace mtl::comm::staged
